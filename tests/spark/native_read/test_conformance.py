"""The golden and the reference tables through Spark, by both readers: the kernel's rows."""

import json
from concurrent.futures import ThreadPoolExecutor

import pyarrow.types as types
import pytest

import bayou
from bayou.errors import BayouError
from bayou.spark.native_read.read_planner import READER
from support import conformance_sets
from support.conformance_runner import are_equal

SETS = conformance_sets.folder()

pytestmark = [pytest.mark.spark, pytest.mark.conformance, pytest.mark.timeout(900)]

THREADS = 4


def golden():
    """Paths of all tables of the golden set."""
    return sorted(str(log.parent) for log in (SETS / "golden").rglob("_delta_log"))


def reference():
    """Paths of the tables that stand where they were made."""
    folder = SETS / "reference"
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    there = (c for c in cases if "TEMPLATE" not in str(c.get("notes", "")))
    return [str(folder / case["table"]) for case in there]


def rows_of(table, *, padded):
    """Rows as sorted texts; with `padded`, without what CHAR columns are filled up with."""
    return sorted(repr(_unpadded(row) if padded else row) for row in table.to_pylist())


def _unpadded(value):
    match value:
        case str():
            return value.rstrip(" ")
        case dict():
            return {k: _unpadded(v) for k, v in value.items()}
        case list():
            return [_unpadded(v) for v in value]
        case _:
            return value


def readable(paths):
    """Tables that the kernel reads, each with its rows."""
    for path in paths:
        try:
            expected = bayou.table(path).to_arrow()
        except BayouError:
            continue
        if any(types.is_struct(f.type) and f.name == "v" for f in expected.schema):
            continue  # variants: their text is compared elsewhere
        yield path, expected


@pytest.mark.parametrize(
    ("tables", "reader"),
    [
        pytest.param(golden, "native"),
        pytest.param(golden, "source", marks=pytest.mark.slow),
        pytest.param(reference, "native", marks=pytest.mark.slow),
        pytest.param(reference, "source", marks=pytest.mark.slow),
    ],
)
def test_tables_of_the_sets_have_the_kernel_s_rows(spark, tables, reader):
    assert SETS is not None
    ours = spark.newSession()
    ours.conf.set("spark.sql.session.timeZone", "UTC")
    ours.conf.set(READER, reader)

    def differs(case):
        path, expected = case
        try:
            frame = ours.read.format("delta").load(path)
            native = "FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString()
            padded = "char(" in str(frame.schema.json())
            got = frame.toArrow()
        except Exception as error:
            return path, str(error)[:300], False
        if got.schema.names != expected.schema.names:
            return path, str(got.schema.names), native
        if are_equal(got, expected):  # the fast way for the large tables
            return path, None, native
        if rows_of(got, padded=padded) != rows_of(expected, padded=padded):
            return path, "rows", native
        return path, None, native

    with ThreadPoolExecutor(THREADS) as pool:
        outcomes = list(pool.map(differs, readable(tables())))
    assert [(path, why) for path, why, _ in outcomes if why is not None] == []
    natives = sum(native for *_, native in outcomes)
    assert len(outcomes) > 50
    assert natives > len(outcomes) // 2 if reader == "native" else natives == 0
