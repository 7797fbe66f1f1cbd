"""A stream's `schemaTrackingLocation` is below its query's checkpoint, whatever the sink."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.errors import StreamingSourceError

ANYWHERE = "spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation"


@pytest.fixture
def stream(spark, tmp_path):
    """Make a stream whose schema log is in a folder."""
    table = str(tmp_path / "t")
    bayou.write(table, pa.table({"id": [1]}))

    def make(folder):
        reader = spark.readStream.format("delta").option("schemaTrackingLocation", str(folder))
        return reader.load(table).where("id > 0")

    return make


def drained(frame, checkpoint, path=None):
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True)
    writer = writer.format("noop") if path is None else writer.format("delta")
    query = writer.start() if path is None else writer.start(str(path))
    assert query.awaitTermination(60)
    assert query.exception() is None


@pytest.mark.parametrize("path", [None, "copy"])
def test_a_folder_elsewhere_is_refused_before_anything_starts(stream, tmp_path, path):
    where = None if path is None else tmp_path / path
    with pytest.raises(StreamingSourceError, match="isn't below the query") as caught:
        drained(stream(tmp_path / "checkpoint-2/schemas"), tmp_path / "checkpoint", where)
    assert caught.value.condition == "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT"
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.slow
def test_a_folder_below_the_checkpoint_is_taken_in_any_spelling(stream, tmp_path):
    drained(stream(f"file://{tmp_path}/checkpoint/schemas"), f"{tmp_path}/checkpoint/")


def test_a_session_may_allow_any_place(spark, stream, tmp_path):
    spark.conf.set(ANYWHERE, "true")
    try:
        drained(stream(tmp_path / "elsewhere"), tmp_path / "checkpoint")
    finally:
        spark.conf.unset(ANYWHERE)


def test_streams_without_such_a_log_start_as_ever(spark, tmp_path):
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "2").load()
    drained(rates, tmp_path / "checkpoint")
