"""The reference tables, made by delta-spark, through Spark's own scan: the kernel's rows."""

import json

import conformance
import pyarrow.types as types
import pytest

import bayou
from bayou.errors import BayouError

SETS = conformance.folder()

pytestmark = [pytest.mark.spark, pytest.mark.conformance, pytest.mark.timeout(600)]


def cases():
    """Names and paths of the tables that stand where they were made."""
    if SETS is None:
        return
    folder = SETS / "reference"
    for case in json.loads((folder / "manifest.json").read_text())["cases"]:
        if "TEMPLATE" not in str(case.get("notes", "")):
            yield case["name"], str(folder / case["table"])


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


def test_reference_tables_have_the_kernel_s_rows(spark):
    different, native = [], 0
    for name, path in cases():
        try:
            expected = bayou.table(path).to_arrow()
        except BayouError:
            continue
        if any(types.is_struct(f.type) and f.name == "v" for f in expected.schema):
            continue  # variants: their text is compared elsewhere
        frame = spark.read.format("delta").load(path)
        native += "FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString()
        padded = "char(" in str(frame.schema.json())
        got = frame.toArrow()
        if got.schema.names != expected.schema.names or rows_of(got, padded=padded) != rows_of(
            expected, padded=padded
        ):
            different.append(name)
    assert different == []
    assert native or SETS is None
