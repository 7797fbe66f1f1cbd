"""Streams that are started again after the schema changed, without a schema log."""

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import StreamingSourceError
from bayou.kernel import Table
from bayou.spark.streaming import StreamOptions, TableStream

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
REFUSED = r"^\[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG\]"
CHANGES = {
    "rename": lambda table: table.alter.rename_column("v", "w"),
    "drop": lambda table: table.alter.drop_columns("v"),
}
OPTIONS = ({}, {"startingVersion": "0"}, {"startingVersion": "0", "readChangeFeed": "true"})


class Streamed:
    """A table with column mapping, and streams of it."""

    def __init__(self, path):
        self.path = path
        self.append(id=[1], v=["a"], properties=MAPPED)

    @property
    def table(self):
        return bayou.table(self.path)

    def append(self, properties=None, **columns):
        bayou.write(self.path, pa.table(columns), mode="append", configuration=properties)

    def open(self, **options):
        engine = for_path(self.path)
        state = Table.for_path(engine, self.path).latest_snapshot(engine)
        return TableStream(engine, state, state.schema, StreamOptions.parse(options))

    def read_all(self, **options):
        """Take all batches of a new stream; its last offset."""
        stream = self.open(**options)
        start = stream.initial_offset()
        while (end := stream.latest_offset(start)) != start:
            stream.batch(start, end)
            start = end
        return start


@pytest.fixture
def streamed(tmp_path):
    return Streamed(str(tmp_path / "t"))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("appends", [0, 1, 2])
def test_a_change_behind_the_last_batch_stops_the_next_run_before_any_batch(
    streamed, change, options, appends
):
    streamed.append(id=[2], v=["b"])
    offset = streamed.read_all(**options)
    CHANGES[change](streamed.table)
    for number in range(appends):
        streamed.append(id=[3 + number])
    with pytest.raises(StreamingSourceError, match=REFUSED):
        streamed.open(**options).latest_offset(offset)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_change_behind_other_commits_stops_the_next_run_before_any_batch(streamed, options):
    offset = streamed.read_all(**options)
    streamed.append(id=[2], v=["b"])
    CHANGES["rename"](streamed.table)
    streamed.append(id=[3], w=["c"])
    with pytest.raises(StreamingSourceError, match=REFUSED):
        streamed.open(maxFilesPerTrigger="1", **options).latest_offset(offset)


def test_a_batch_that_was_planned_across_a_change_is_refused(streamed):
    offset = streamed.read_all(startingVersion="0")
    CHANGES["rename"](streamed.table)
    streamed.append(id=[3], w=["c"])
    fresh = streamed.open(startingVersion="1")
    end = fresh.latest_offset(fresh.initial_offset())
    with pytest.raises(StreamingSourceError, match=REFUSED):
        streamed.open(startingVersion="0").batch(offset, end)


def test_an_added_column_stops_no_restart(streamed):
    offset = streamed.read_all(startingVersion="0")
    streamed.table.alter.add_columns({"extra": pa.int64()})
    streamed.append(id=[2], v=["b"], extra=[5])
    stream = streamed.open(startingVersion="0")
    end = stream.latest_offset(offset)
    assert len(stream.batch(offset, end).adds) == 1


def test_a_new_stream_may_begin_with_the_change(streamed):
    CHANGES["rename"](streamed.table)
    streamed.append(id=[2], w=["b"])
    offset = streamed.read_all(startingVersion="1")
    assert offset.version == 3
    assert streamed.open(startingVersion="1").latest_offset(offset) == offset


def test_a_change_whose_version_before_is_gone_is_refused(streamed):
    offset = streamed.read_all(startingVersion="0")
    CHANGES["rename"](streamed.table)
    streamed.append(id=[3], w=["c"])
    bayou.table(streamed.path).create_checkpoint()
    Path(streamed.path, "_delta_log", f"{0:020}.json").unlink()
    with pytest.raises(StreamingSourceError, match="CHECK_COLUMN_MAPPING_NO_SNAPSHOT"):
        streamed.open(startingVersion="0").latest_offset(offset)
