from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from bayou.errors import StorageError
from bayou.spark.jvm.java_files import JavaFiles, hadoop_uris
from bayou.spark.jvm.objects import java_class

pytestmark = pytest.mark.spark

FEW = "bayou.spark.jvm.java_files._FEW_FILES"

PATHS = ["/t/a b.parquet", "/t/é%20#?.parquet", "/t/" + "x" * 300, "s3://bucket/k:1", "gs://b/k"]


def test_local_paths_get_a_scheme_and_s3_that_of_hadoop():
    uris = hadoop_uris(pa.array(PATHS)).to_pylist()
    assert uris[0] == "file:/t/a b.parquet"
    assert uris[3:] == ["s3a://bucket/k:1", "gs://b/k"]
    assert hadoop_uris(pa.array([], pa.string())).to_pylist() == []


@pytest.fixture(params=[0, 6], ids=["method handles", "one by one"])
def few_files(request, monkeypatch):
    """Creates the files of a test in one of the two ways."""
    monkeypatch.setattr(FEW, request.param)


@pytest.mark.usefixtures("few_files")
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


PLAIN = [
    "file:/t/day=2024-01-01/part-00000-0a1B.c000.zstd.parquet",
    "s3a://bucket.name/t//k:1/../x.parquet",
    "abfss://container/a_b.parquet",
]


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("uris", [PLAIN, [*PLAIN, "file:/t/a b+c/50%/~x;y.parquet"]])
def test_paths_are_those_that_hadoop_parses_from_a_string(spark, uris):
    numbers = pa.array(range(len(uris)), pa.int64())
    statuses = JavaFiles(spark).statuses(pa.array(uris), numbers, numbers)
    path = java_class(spark._jvm, "org.apache.hadoop.fs.Path")
    for status, uri in zip(statuses, uris, strict=True):
        assert status.getPath().equals(path(uri))
        assert str(status.getPath().toUri().toString()) == str(path(uri).toUri().toString())


@pytest.mark.usefixtures("few_files")
def test_slices_and_chunks_of_columns_become_statuses(spark):
    java = JavaFiles(spark)
    uris = pa.array(["file:/a", "file:/bb", "file:/c"])
    numbers = pa.array([1, 2, 3], pa.int64())
    (status,) = java.statuses(uris[1:2], numbers[1:2], numbers[1:2])
    assert (str(status.getPath().toString()), status.getLen()) == ("file:/bb", 2)
    chunks = (pa.chunked_array([column[:1], column[1:]]) for column in (uris, numbers, numbers))
    assert [s.getModificationTime() for s in java.statuses(*chunks)] == [1, 2, 3]


def test_more_files_than_are_transferred_at_once_keep_their_order(spark, monkeypatch):
    monkeypatch.setattr("bayou.spark.jvm.java_files._FILES_AT_ONCE", 2)
    monkeypatch.setattr(FEW, 0)
    numbers = pa.array(range(5), pa.int64())
    uris = pa.array([f"file:/t/{n}" for n in range(5)])
    folder = Path(spark.sparkContext._temp_dir)
    before = set(folder.iterdir())
    statuses = JavaFiles(spark).statuses(uris, numbers, numbers)
    assert [str(s.getPath().getName()) for s in statuses] == list("01234")
    assert [s.getLen() for s in statuses] == list(range(5))
    assert set(folder.iterdir()) == before


def test_a_temporary_file_that_cannot_be_written_is_an_error_that_names_the_folder(
    spark, monkeypatch, tmp_path
):
    monkeypatch.setattr(FEW, 0)
    missing = str(tmp_path / "missing")
    monkeypatch.setattr(spark.sparkContext, "_temp_dir", missing)
    numbers = pa.array([1], pa.int64())
    with pytest.raises(
        StorageError, match=r"missing: a temporary file .* \(No such file"
    ) as raised:
        JavaFiles(spark).statuses(pa.array(["file:/a"]), numbers, numbers)
    assert raised.value.path == missing


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
