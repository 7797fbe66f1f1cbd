"""Delta tables that a streaming query reads as batch DataFrames.

Delta's documentation says that a join of a stream with a static Delta table uses the latest version
of the table at the time of each micro-batch.
"""

import contextlib

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import bayou
from bayou.engines import for_path
from bayou.spark.jvm.streaming import MicroBatch
from bayou.spark.native_read import micro_batches

pytestmark = pytest.mark.spark
VECTORS = {"delta.enableDeletionVectors": "true"}


class Stream:
    """A query that joins the ids of a folder with a table, one micro-batch for each call."""

    def __init__(self, spark, folder):
        self.spark = spark
        self.folder = folder
        self.found = []
        self.query = None
        (folder / "in").mkdir(parents=True)

    def start(self, join, function=None):
        rows = self.spark.readStream.schema("id long").json(str(self.folder / "in"))
        writer = join(rows).writeStream.option("checkpointLocation", str(self.folder / "c"))

        def collect(batch, number):
            self.found.append(sorted(map(tuple, batch.collect())))
            if function is not None:
                function(batch)

        self.query = writer.foreachBatch(collect).start()

    def batch(self, *ids):
        """Run a micro-batch, and return its rows."""
        new = self.folder / f"{len(list((self.folder / 'in').iterdir()))}.json"
        new.write_text("".join(f'{{"id": {i}}}\n' for i in ids))
        new.rename(self.folder / "in" / new.name)
        self.query.processAllAvailable()
        return self.found[-1]


@pytest.fixture
def stream(spark, tmp_path):
    started = Stream(spark, tmp_path / "stream")
    yield started
    if started.query is not None:
        started.query.stop()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "dim")


def names(ids, name, **columns):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [name] * len(ids), **columns})


def load(spark, path, **options):
    return spark.read.format("delta").options(**options).load(path)


def test_each_micro_batch_reads_the_latest_version(spark, stream, path):
    bayou.write(path, names([1, 2], "old"))
    stream.start(lambda rows: rows.join(load(spark, path), "id", "left"))
    assert stream.batch(1, 3) == [(1, "old"), (3, None)]
    bayou.write(path, names([1, 3], "new"), mode="overwrite")
    assert stream.batch(1, 2, 3) == [(1, "new"), (2, None), (3, "new")]
    bayou.table(path).delete("id = 1")
    assert stream.batch(1, 3) == [(1, None), (3, "new")]


def test_all_reads_of_a_micro_batch_see_one_version(spark, stream, path):
    bayou.write(path, names([1], "old"))
    first = load(spark, path)
    bayou.write(path, names([2], "old"))
    second = load(spark, path).where("id = 1").select("id", "name").withColumnRenamed("name", "n")
    stream.start(lambda rows: rows.join(first, "id").join(second, "id", "left"))
    bayou.write(path, names([1], "new"), mode="overwrite")
    assert stream.batch(1, 2) == [(1, "new", "new")]


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_partitions_and_filters_are_those_of_the_latest_version(spark, stream, path, mapping):
    rows = names([1, 2, 3, 4], "old", day=["a", "a", "b", "b"])
    properties = {} if mapping == "none" else {"delta.columnMapping.mode": mapping}
    bayou.write(path, rows, partition_by=["day"], configuration=properties)
    spark.sql(f"CREATE TABLE dim USING delta LOCATION '{path}'")
    try:
        dim = spark.table("dim").where("day = 'a' AND id > 1").drop("day")
    finally:
        spark.sql("DROP TABLE dim")
    stream.start(lambda rows: rows.join(dim, "id"))
    assert stream.batch(1, 2, 3) == [(2, "old")]
    bayou.write(path, names([1, 5, 6], "new", day=["a", "a", "b"]))
    assert stream.batch(1, 2, 5, 6) == [(2, "old"), (5, "new")]


def test_files_that_vacuum_has_deleted_are_not_read(spark, stream, path):
    for number in range(3):
        bayou.write(path, names([number], "n"))
    stream.start(lambda rows: rows.join(load(spark, path), "id"))
    assert stream.batch(1) == [(1, "n")]
    bayou.table(path).optimize()
    bayou.table(path).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert stream.batch(1, 2) == [(1, "n"), (2, "n")]


def test_time_travel_and_queries_in_foreach_batch_read_a_fixed_version(spark, stream, path):
    bayou.write(path, names([1], "old"))
    outside = load(spark, path)
    counts = []
    pinned = load(spark, path, versionAsOf=0)
    stream.start(
        lambda rows: rows.join(pinned, "id"),
        lambda batch: counts.append((outside.where("id > 0").collect(), load(spark, path).count())),
    )
    bayou.write(path, names([2], "new"))
    assert stream.batch(1, 2) == [(1, "old")]
    assert counts == [([(1, "old")], 2)]


def test_a_table_loaded_in_foreach_batch_has_the_version_of_load(spark, stream, path):
    bayou.write(path, names([1], "old"))
    counts = []

    def change(_):
        before = load(spark, path)
        bayou.write(path, names([2], "new"))
        # `rdd` runs in the execution of the micro-batch.
        counts.append((before.rdd.count(), load(spark, path).rdd.count()))

    stream.start(lambda rows: rows.join(load(spark, path), "id"), change)
    assert stream.batch(1) == [(1, "old")]
    assert counts == [(1, 2)]


def test_a_restarted_micro_batch_reads_the_latest_version(spark, stream, path):
    bayou.write(path, names([1], "old"))
    fails = [True]

    def fail(batch):
        if fails:
            raise RuntimeError("fails once")

    stream.start(lambda rows: rows.join(load(spark, path), "id"), fail)
    with contextlib.suppress(StreamingQueryException):
        stream.batch(1)
    bayou.write(path, names([1], "new"), mode="overwrite")
    fails.clear()
    stream.start(lambda rows: rows.join(load(spark, path), "id"), fail)
    stream.query.processAllAvailable()
    assert stream.found == [[(1, "old")], [(1, "new")]]


def test_added_columns_are_ignored_and_other_changes_are_an_error(spark, stream, path):
    bayou.write(path, names([1], "a"), configuration={"delta.columnMapping.mode": "name"})
    stream.start(lambda rows: rows.join(load(spark, path), "id"))
    bayou.write(path, names([2], "b", extra=[1]), schema_mode="merge")
    assert stream.batch(1, 2) == [(1, "a"), (2, "b")]
    bayou.table(path).alter.drop_columns("name")
    with pytest.raises(StreamingQueryException, match="'name' was dropped.*Load the table again"):
        stream.batch(1)


def test_a_table_with_deletion_vectors_keeps_the_version_of_load(spark, stream, path):
    bayou.write(path, names([1, 2, 3], "old"), configuration=VECTORS)
    bayou.table(path).delete("id = 3")
    stream.start(lambda rows: rows.join(load(spark, path), "id"))
    assert stream.batch(1, 3) == [(1, "old")]
    bayou.table(path).delete("id = 1")
    bayou.write(path, names([3], "new"))
    assert stream.batch(1, 3) == [(1, "old")]


def test_deletion_vectors_after_load_end_the_query(spark, stream, path):
    bayou.write(path, names([1, 2], "old"))
    stream.start(lambda rows: rows.join(load(spark, path), "id"))
    bayou.table(path).alter.set_table_properties(VECTORS)
    assert stream.batch(1) == [(1, "old")]
    bayou.table(path).delete("id = 1")
    with pytest.raises(StreamingQueryException, match="deletion vectors were enabled after"):
        stream.batch(1)


def test_a_snapshot_belongs_to_one_micro_batch(monkeypatch, path):
    bayou.write(path, names([1], "a"))
    engine = for_path(path)
    current = [MicroBatch("q", "r", "0")]
    monkeypatch.setattr(micro_batches, "current_micro_batch", lambda _: current[0])
    monkeypatch.setattr(micro_batches, "runs_micro_batch", lambda _: True)

    def version():
        return micro_batches.micro_batch_snapshot(None, engine, path).version

    assert version() == 0
    bayou.write(path, names([2], "a"))
    assert version() == 0
    for following, expected in (("r", 1), ("other run", 2)):
        current[0] = MicroBatch("q", following, "1")
        assert version() == expected
        bayou.write(path, names([2], "a"))
        assert version() == expected
    current[0] = None
    assert micro_batches.micro_batch_snapshot(None, engine, path) is None
