"""Streams of Delta tables through Spark; what comes in which batch is in tests/spark/streaming."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import LongType, StructField, StructType

import bayou
from bayou.errors import StreamingSourceError
from bayou.spark.read import stream

pytestmark = pytest.mark.spark


class Runs:
    """Runs of one streaming query: its batches, its offsets."""

    def __init__(self, spark, table, checkpoint):
        self.spark, self.table, self.checkpoint = spark, table, checkpoint
        self.batches = {}

    def start(self, trigger=None, frame=None, **options):
        def batch(rows, number):
            self.batches[number] = sorted(map(tuple, rows.collect()))

        if frame is None:
            frame = self.spark.readStream.format("delta").options(**options).load(str(self.table))
        return (
            frame.writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, **arguments):
        query = self.start(**arguments)
        query.awaitTermination(120)
        return query

    def offsets(self):
        files = sorted(Path(self.checkpoint, "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
        return [f.read_text().split("\n")[2] for f in files]


@pytest.fixture
def runs(spark, tmp_path):
    return Runs(spark, tmp_path / "t", tmp_path / "checkpoint")


def append(table, *ids, **columns):
    return bayou.write(str(table), pa.table({"id": list(ids), **columns}), mode="append")


def test_offsets_stand_in_the_checkpoint_as_delta_spark_writes_them(runs):
    append(runs.table, 1)
    append(runs.table, 2)
    runs.run(maxFilesPerTrigger=1)
    log = Path(runs.table, "_delta_log", f"{0:020}.json").read_text()
    (table_id,) = re.findall(r'"metaData":{"id":"([^"]+)"', log)
    offset = '{{"sourceVersion":1,"reservoirId":"{}","reservoirVersion":{}}}'
    assert runs.offsets() == [
        offset.format(table_id, '1,"index":0,"isStartingVersion":true'),
        offset.format(table_id, '2,"index":-1,"isStartingVersion":false'),
    ]
    runs.run()
    assert len(runs.offsets()) == 2
    assert sorted(runs.batches.values()) == [[(1,)], [(2,)]]


@pytest.mark.slow
def test_a_running_query_sees_new_commits_and_says_how_far_the_table_is(runs):
    append(runs.table, 1)
    query = runs.start(trigger={"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        append(runs.table, 2)
        query.processAllAvailable()
        source = query.lastProgress["sources"][0]
    finally:
        query.stop()
    assert runs.batches == {0: [(1,)], 1: [(2,)]}
    assert json.loads(source["latestOffset"])["reservoirVersion"] == 2


def test_a_schema_given_to_the_reader_selects_columns(runs):
    append(runs.table, 1, name=["a"], unused=[1.5])
    frame = runs.spark.readStream.format("delta").schema("name string").load(str(runs.table))
    runs.run(frame=frame)
    assert runs.batches == {0: [("a",)]}


def test_the_change_feed_comes_with_its_columns(runs):
    path = str(runs.table)
    properties = {"delta.enableChangeDataFeed": "true"}
    bayou.write(path, pa.table({"id": [1, 2]}), configuration=properties)
    bayou.table(path).delete("id = 1")
    frame = (
        runs.spark.readStream.format("delta")
        .options(readChangeFeed="true", startingVersion=0)
        .load(path)
        .select("id", "_change_type", "_commit_version")
    )
    runs.run(frame=frame)
    assert runs.batches == {0: [(1, "delete", 1), (1, "insert", 0), (2, "insert", 0)]}


@pytest.mark.slow
def test_a_missing_data_file_is_named(runs):
    append(runs.table, 1)
    (file,) = runs.table.glob("*.parquet")
    file.unlink()
    with pytest.raises(StreamingQueryException, match=file.name):
        runs.run()


def test_a_refusal_says_only_what_is_wrong(runs):
    append(runs.table, 1)
    bayou.table(str(runs.table)).delete("id = 1")
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_IGNORE_DELETE") as caught:
        runs.run(startingVersion=0)
    assert "ignoreDeletes" in str(caught.value)
    assert "Traceback" not in str(caught.value).partition("JVM stacktrace")[0]


@pytest.mark.slow
def test_a_stream_follows_a_rename_with_a_schema_log(runs):
    path = str(runs.table)
    properties = {"delta.columnMapping.mode": "name"}
    bayou.write(path, pa.table({"id": [1], "v": ["a"]}), configuration=properties)
    options = {"schemaTrackingLocation": str(runs.checkpoint / "schemas")}
    runs.run(**options)
    bayou.table(path).alter.rename_column("v", "w")
    append(path, 2, w=["b"])
    with pytest.raises(StreamingQueryException, match="DELTA_STREAMING_METADATA_EVOLUTION"):
        runs.run(**options)
    with pytest.raises(StreamingQueryException, match="allowSourceColumnRename"):
        runs.run(**options)
    runs.run(allowSourceColumnRename="always", **options)
    rows = [row for number in sorted(runs.batches) for row in runs.batches[number]]
    assert rows == [(1, "a"), (2, "b")]
    (log,) = (runs.checkpoint / "schemas").iterdir()
    entry = json.loads((log / "1").read_text().split("\n")[1])
    assert entry["sourceMetadataPath"] == f"file:{runs.checkpoint}/sources/0"


@pytest.mark.parametrize("change", ["rename", "drop"])
def test_a_query_started_again_behind_a_change_of_columns_stops_before_any_batch(runs, change):
    path = str(runs.table)
    properties = {"delta.columnMapping.mode": "name"}
    bayou.write(path, pa.table({"id": [1], "v": ["a"]}), configuration=properties)
    runs.run()
    if change == "rename":
        bayou.table(path).alter.rename_column("v", "w")
    else:
        bayou.table(path).alter.drop_column("v")
    append(path, 2)
    with pytest.raises(StreamingQueryException, match="INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"):
        runs.run()
    assert runs.batches == {0: [(1, "a")]}
    assert len(runs.offsets()) == 1


def test_a_stream_of_one_version_is_refused(runs):
    append(runs.table, 1)
    table, schema = str(runs.table), StructType([StructField("id", LongType())])
    travels = ({"versionAsOf": "0"}, {"timestampAsOf": "2024-01-05"}, {"path": f"{table}@v0"})
    for travel in travels:
        reader = stream.DeltaStreamReader({"path": table, **travel}, schema, None)
        with pytest.raises(StreamingSourceError, match="TIME_TRAVEL.*startingVersion"):
            reader.initialOffset()


def test_many_files_go_to_tasks_in_runs(runs, monkeypatch):
    append(runs.table, 1)
    for number in range(2, 12):
        append(runs.table, number)
    monkeypatch.setattr(stream, "MAX_SINGLE_FILES", 3)
    schema = StructType([StructField("id", LongType())])
    reader = stream.DeltaStreamReader({"path": str(runs.table), "minPartitions": "3"}, schema, None)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    rows = [
        value
        for partition in partitions
        for batch in reader.read(partition)
        for value in batch.column("id").to_pylist()
    ]
    assert rows == list(range(1, 12))
    assert all(partition.adds is not None for partition in partitions)
