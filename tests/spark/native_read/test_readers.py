"""Both ways of reading, and the kernel, on random tables: the same rows."""

import tempfile
from datetime import date

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
