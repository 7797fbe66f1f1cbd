"""Both ways of reading, and the kernel, on random tables: the same rows."""

import tempfile
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayou
from bayou.spark.native_read.read_planner import READER
from support.examples import examples

EXAMPLES = examples(5)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-5, 40),
        "part": st.sampled_from(["a", "b c", "d/é%20", None]),
        "day": st.sampled_from([date(2024, 1, 1), date(1999, 12, 31), None]),
        "nested": st.none()
        | st.fixed_dictionaries(
            {"x": st.none() | st.integers(0, 9), "y": st.none() | st.text("ab")}
        ),
    }
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("day", pa.date32()),
        ("nested", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
FILTERS = [
    "id > 10",
    "part = 'b c'",
    "part IS NULL OR id < 3",
    "day >= DATE '2000-01-01' AND id <> 4",
    "nested.x = 3",
    "nested IS NULL AND part <> 'a'",
    "concat(part, 'x') = 'ax'",
]


@pytest.mark.slow
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=3),
    partitions=st.sampled_from([[], ["part"], ["day", "part"]]),
    mapping=st.sampled_from(["none", "name", "id"]),
    deleted=st.none() | st.sampled_from(["id % 3 = 0", "id = 7", "part IS NULL"]),
    condition=st.sampled_from(FILTERS),
)
def test_both_readers_give_the_kernel_s_rows(spark, files, partitions, mapping, deleted, condition):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/t"
        properties = {
            "delta.columnMapping.mode": mapping,
            "delta.enableDeletionVectors": "true",
        }
        for n, rows in enumerate(files):
            bayou.write(
                path,
                pa.Table.from_pylist(rows, schema=SCHEMA),
                mode="append",
                **({} if n else {"partition_by": partitions, "configuration": properties}),
            )
        if deleted is not None:
            bayou.table(path).delete(deleted)
        kernel = bayou.table(path)
        expected = texts(kernel.to_arrow()), texts(kernel.to_arrow(filter=condition))
        for reader in ("native", "source"):
            spark.conf.set(READER, reader)
            try:
                frame = spark.read.format("delta").load(path)
                assert texts(frame.toArrow()) == expected[0], reader
                assert texts(frame.where(condition).toArrow()) == expected[1], reader
            finally:
                spark.conf.unset(READER)


def texts(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_old_dates_are_read_as_they_are_whatever_the_rebase_mode(spark, tmp_path, mode):
    path, day = str(tmp_path / "t"), date(1, 1, 1)
    time = datetime(1500, 1, 1, tzinfo=UTC)
    bayou.write(path, pa.table({"id": [1], "day": [day], "at": pa.array([time])}))
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name in ("datetimeRebaseModeInRead", "int96RebaseModeInRead"):
        session.conf.set(f"spark.sql.parquet.{name}", mode)
    frame = session.read.format("delta").load(path)
    assert len(frame.inputFiles()) == 1
    assert frame.select("day").collect() == [(day,)]
    assert frame.where("day = DATE'0001-01-01'").count() == 1
    assert frame.where("at = TIMESTAMP'1500-01-01 00:00:00'").count() == 1
