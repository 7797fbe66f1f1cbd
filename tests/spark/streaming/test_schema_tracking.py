"""The schema log without Spark: barriers, entries, consent."""

import itertools
import json

import pytest

from bayou.engines.memory import MemoryEngine
from bayou.errors import StreamingSourceError
from bayou.kernel import Table
from bayou.kernel.engine import ByteRange
from bayou.spark.streaming import SchemaTracking, StreamOptions, TableStream
from bayou.spark.streaming.offsets import METADATA_CHANGE_INDEX, POST_METADATA_CHANGE_INDEX
from support.log_writer import LogWriter, add, protocol

_numbers = itertools.count()
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}


def meta(*columns, **properties):
    """Columns as (name, type, physical name)."""
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": 1 + number,
                "delta.columnMapping.physicalName": physical,
            },
        }
        for number, (name, kind, physical) in enumerate(columns)
    ]
    return {
        "metaData": {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {**MAPPED, **properties},
        }
    }


ID, V, W = ("id", "long", "c1"), ("v", "string", "c2"), ("w", "string", "c2")


class Followed:
    """A table with column mapping, and streams of it that keep a schema log."""

    def __init__(self, **options):
        number = next(_numbers)
        self.engine = MemoryEngine()
        self.table = f"memory://tracking/{number}"
        self.writer = LogWriter(self.engine, self.table)
        self.checkpoint = f"memory://tracking/{number}-checkpoint"
        self.options = {"schemaTrackingLocation": self.checkpoint + "/schemas", **options}

    def commit(self, *actions):
        self.writer.commit(*actions)

    def open(self, **options):
        state = Table.for_path(self.engine, self.table).latest_snapshot(self.engine)
        parsed = StreamOptions.parse({**self.options, **options})
        tracking = SchemaTracking(self.engine, state, parsed)
        tracking.check_consent()
        read = tracking.read_state
        return TableStream(self.engine, state, read.schema, parsed, tracking=tracking)

    def entries(self):
        folder = f"{self.checkpoint}/schemas/_schema_log_t"
        with self.engine.files.list_from(folder + "/0") as files:
            paths = [f.path for f in files]
        with self.engine.files.read_files([ByteRange(path=p) for p in paths]) as contents:
            return [bytes(data).decode().split("\n") for data in contents]


@pytest.fixture
def followed():
    table = Followed(startingVersion="0")
    table.commit(protocol(2, 5), meta(ID, V), add("a"))
    return table


def refused(condition):
    return pytest.raises(StreamingSourceError, match=rf"^\[{condition}\]")


def test_a_new_log_begins_with_the_metadata_of_the_streams_start(followed):
    stream = followed.open()
    stream.latest_offset(stream.initial_offset())
    ((version, text),) = followed.entries()
    entry = json.loads(text)
    assert version == "v1"
    assert list(entry) == [
        "tableId",
        "deltaCommitVersion",
        "dataSchemaJson",
        "partitionSchemaJson",
        "sourceMetadataPath",
        "tableConfigurations",
        "protocolJson",
    ]
    assert (entry["tableId"], entry["deltaCommitVersion"]) == ("t", 0)
    assert json.loads(entry["protocolJson"]) == {
        "protocol": {"minReaderVersion": 2, "minWriterVersion": 5}
    }


def test_a_stream_stops_before_a_rename_and_goes_on_behind_it_with_consent(followed):
    stream = followed.open()
    first = stream.latest_offset(stream.initial_offset())
    followed.commit(meta(ID, W))
    followed.commit(add("b"))
    change = stream.latest_offset(first)
    assert change.position == (1, METADATA_CHANGE_INDEX)
    after = stream.latest_offset(change)
    assert after.position == (1, POST_METADATA_CHANGE_INDEX)
    with refused("DELTA_STREAMING_METADATA_EVOLUTION") as caught:
        stream.commit(change)
    assert caught.value.version == 1
    assert len(followed.entries()) == 2
    with refused("DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION") as caught:
        followed.open()
    assert "allowSourceColumnRename" in caught.value.message
    for consent in ("always", "1"):
        stream = followed.open(allowSourceColumnRename=consent)
        assert stream.latest_offset(after).position == (3, -100)
    with refused("DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"):
        followed.open(allowSourceColumnRename="2")


def test_a_stream_that_has_not_evolved_stays_at_the_change(followed):
    stream = followed.open()
    first = stream.latest_offset(stream.initial_offset())
    followed.commit(meta(ID, W))
    after = stream.latest_offset(stream.latest_offset(first))
    assert stream.latest_offset(after) == after


def test_a_planned_batch_reads_with_the_schema_of_before(followed):
    stream = followed.open()
    start = stream.initial_offset()
    first = stream.latest_offset(start)
    followed.commit(meta(ID, W))
    again = followed.open()
    batch = again.batch(again.initial_offset(), first)
    assert batch.state.logical_schema.names == ("id", "v")


def test_an_added_column_needs_no_consent_but_a_restart(followed):
    stream = followed.open()
    first = stream.latest_offset(stream.initial_offset())
    followed.commit(meta(ID, V, ("x", "long", "c3")))
    change = stream.latest_offset(first)
    with refused("DELTA_STREAMING_METADATA_EVOLUTION"):
        stream.commit(change)
    assert followed.open().latest_offset(change).index == POST_METADATA_CHANGE_INDEX


def test_a_property_that_is_not_deltas_own_is_no_change(followed):
    stream = followed.open()
    first = stream.latest_offset(stream.initial_offset())
    followed.commit(meta(ID, V, mine="1"))
    assert stream.latest_offset(first).position == (2, -100)


def test_changes_without_files_in_between_are_taken_over_at_once(followed):
    stream = followed.open()
    first = stream.latest_offset(stream.initial_offset())
    followed.commit(meta(ID, W))
    followed.commit(meta(ID, ("x", "string", "c2")))
    followed.commit(add("b"))
    change = stream.latest_offset(first)
    with refused("DELTA_STREAMING_METADATA_EVOLUTION"):
        stream.commit(change)
    state = Table.for_path(followed.engine, followed.table).latest_snapshot(followed.engine)
    tracking = SchemaTracking(followed.engine, state, StreamOptions.parse(followed.options))
    tracking.merge_consecutive(followed.engine)
    assert tracking.read_state.schema.names == ("id", "x")
    assert json.loads(followed.entries()[-1][1])["previousMetadataSeqNum"] == 0
    stream = followed.open(allowSourceColumnRename="2")
    assert stream.latest_offset(change).index == POST_METADATA_CHANGE_INDEX


def test_changes_after_the_first_rows_need_consent_also_if_they_are_merged():
    followed = Followed()
    followed.commit(protocol(2, 5), meta(ID, V), add("a"))
    followed.commit(meta(ID, V, **{"delta.appendOnly": "true"}))  # the snapshot that is read first
    stream = followed.open()
    stream.latest_offset(stream.initial_offset())
    followed.commit(meta(ID))
    state = Table.for_path(followed.engine, followed.table).latest_snapshot(followed.engine)
    tracking = SchemaTracking(followed.engine, state, StreamOptions.parse(followed.options))
    tracking.merge_consecutive(followed.engine)
    assert tracking.read_state.schema.names == ("id",)
    with refused("DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION") as caught:
        followed.open()
    assert "allowSourceColumnDrop" in caught.value.message
    followed.open(allowSourceColumnDrop="2")


def test_two_streams_with_one_log_are_noticed(followed):
    one, other = followed.open(), followed.open()
    one.latest_offset(one.initial_offset())
    followed.commit(meta(ID, W))
    with refused("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT"):
        other.latest_offset(other.initial_offset())


def test_a_log_that_cannot_be_read_is_named(followed):
    stream = followed.open()
    stream.latest_offset(stream.initial_offset())
    path = f"{followed.checkpoint}/schemas/_schema_log_t/0"
    followed.engine.files.put(path, b"v1\n{half")
    with refused("DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED") as caught:
        followed.open()
    assert "_schema_log_t/0" in caught.value.message
