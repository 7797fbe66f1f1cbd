import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from bayou.spark.jvm.java_files import JavaFiles, encode_statuses, hadoop_uris

pytestmark = pytest.mark.spark

PATHS = ["/t/a b.parquet", "/t/é%20#?.parquet", "/t/" + "x" * 300, "s3://bucket/k:1", "gs://b/k"]


def test_local_paths_get_a_scheme_and_s3_that_of_hadoop():
    uris = hadoop_uris(pa.array(PATHS)).to_pylist()
    assert uris[0] == "file:/t/a b.parquet"
    assert uris[3:] == ["s3a://bucket/k:1", "gs://b/k"]
    assert hadoop_uris(pa.array([], pa.string())).to_pylist() == []


def test_statuses_arrive_in_the_jvm_as_they_are(spark):
    uris = hadoop_uris(pa.array(PATHS))
    sizes = pa.array([0, 1, 127, 128, 1 << 45], pa.int64())
    times = pa.array([0, 1, 1_700_000_000_123, 1 << 47, 5], pa.int64())
    java = JavaFiles(spark)
    statuses = java.statuses(uris, sizes, times)
    assert [str(s.getPath().toString()) for s in statuses] == uris.to_pylist()
    assert [s.getLen() for s in statuses] == sizes.to_pylist()
    assert [s.getModificationTime() for s in statuses] == times.to_pylist()
    assert not any(s.isDirectory() for s in statuses)
    escaped = list(java.uris(statuses))
    assert escaped[0] == "file:/t/a%20b.parquet"
    assert escaped[1] == "file:/t/é%2520%23%3F.parquet"
    assert list(java.uris(java.statuses(uris[:0], sizes[:0], times[:0]))) == []


def test_a_slice_of_columns_is_encoded_alone():
    uris = pa.array(["file:/a", "file:/bb", "file:/c"])
    numbers = pa.array([1, 2, 3], pa.int64())
    alone = encode_statuses(pa.array(["file:/bb"]), pa.array([2]), pa.array([2]))
    assert encode_statuses(uris[1:2], numbers[1:2], numbers[1:2]) == alone
    assert encode_statuses(uris[:0], numbers[:0], numbers[:0]) == bytes(4)


def test_directories_are_made_of_rows_and_slices_of_files(spark):
    java = JavaFiles(spark)
    schema = StructType([StructField("p", StringType()), StructField("n", IntegerType())])
    values = pa.table({"p": ["a", None, "c"], "n": pa.array([1, 2, None], pa.int32())})
    rows = java.rows(values, schema)
    uris = pa.array([f"file:/t/{i}" for i in range(6)])
    numbers = pa.array(range(6), pa.int64())
    statuses = java.statuses(uris, numbers, numbers)
    made = java.directories(rows, statuses, pa.array([0, 1, 4, 6], pa.int32()))
    assert made.size() == 3
    assert [made.apply(i).files().size() for i in range(3)] == [1, 3, 2]
    assert made.apply(1).values().isNullAt(0)
    assert made.apply(1).values().getInt(1) == 2
    assert made.apply(2).values().getUTF8String(0).toString() == "c"
    taken = java.take(rows, pa.array([2, 0], pa.int32()))
    assert [r.getUTF8String(0).toString() for r in taken] == ["c", "a"]
    assert (
        java.directories(
            java.rows(pa.table({}), StructType()), statuses, pa.array([0, 6], pa.int32())
        ).size()
        == 1
    )
