"""Streams of tables without Spark: what comes in which batch, and where the batches end."""

import itertools
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.engines.memory import MemoryEngine
from bayou.errors import StreamingSourceError
from bayou.kernel import ScanFileBatch, Table
from bayou.kernel.scan.scan_file import scan_batch
from bayou.spark.streaming import StreamOptions, TableStream
from support.examples import examples
from support.log_writer import LogWriter, add, commit_info, metadata, protocol, remove

EXAMPLES = examples(40)
_numbers = itertools.count()
FEED = {"delta.enableChangeDataFeed": "true"}


def cdc(path, size=1):
    body = {"path": path, "partitionValues": {}, "size": size, "dataChange": False}
    return {"cdc": body}


@dataclass
class Log:
    """A table's log, and what a stream of it must give."""

    engine: MemoryEngine = field(default_factory=MemoryEngine)
    properties: dict = field(default_factory=dict)

    def __post_init__(self):
        self.table = f"memory://stream/{next(_numbers)}"
        self.writer = LogWriter(self.engine, self.table)

    def create(self, *actions):
        self.writer.commit(protocol(), metadata({"id": "long"}, (), self.properties), *actions)

    def commit(self, *actions):
        self.writer.commit(*actions)

    def stream(self, **options):
        state = Table.for_path(self.engine, self.table).latest_snapshot(self.engine)
        return TableStream(self.engine, state, state.schema, StreamOptions.parse(options))


def paths(batch):
    if batch.changes:
        return [(c.version, c.change_type, c.file.path) for c in batch.changes]
    return [
        file.path
        for adds in batch.adds
        for file in ScanFileBatch(scan_batch(batch.state.table, adds)).rows()
    ]


def offset(stream, data):
    return stream.offset_from_json(json.loads(json.dumps(data)))


def drain(stream, start=None, **limits):
    """All batches from a start on, each as (end, files)."""
    start = stream.initial_offset() if start is None else start
    batches = []
    while True:
        end = stream.latest_offset(start, **limits)
        if end == start:
            return batches
        batches.append(((end.version, end.index, end.initial), paths(stream.batch(start, end))))
        start = end


def refused(condition):
    return pytest.raises(StreamingSourceError, match=rf"^\[{condition}\]")


def test_the_table_comes_first_in_the_order_of_times_then_its_commits():
    log = Log()
    log.create(add("b", modificationTime=2), add("c", modificationTime=1))
    stream = log.stream(maxFilesPerTrigger="1")
    log.commit(add("a", modificationTime=0))
    assert drain(stream) == [
        ((0, 0, True), ["c"]),
        ((1, -100, False), ["b"]),
        ((2, -100, False), ["a"]),
    ]


def test_files_without_new_rows_have_no_place():
    log = Log()
    log.create()
    log.commit(add("a"), add("again", dataChange=False), add("b"))
    stream = log.stream(startingVersion="0", maxFilesPerTrigger="1")
    assert drain(stream) == [((1, 0, False), ["a"]), ((2, -100, False), ["b"])]


def test_a_commit_that_deletes_names_its_version_and_the_option():
    log = Log()
    log.create(add("a"))
    log.commit(commit_info(operation="DELETE"), remove("a"))
    stream = log.stream(startingVersion="0")
    with refused("DELTA_SOURCE_IGNORE_DELETE") as caught:
        drain(stream)
    assert caught.value.version == 1
    assert "ignoreDeletes" in caught.value.message
    assert drain(log.stream(startingVersion="0", ignoreDeletes="true")) == [
        ((2, -100, False), ["a"])
    ]


def test_a_commit_that_updates_is_read_or_skipped_or_refused():
    log = Log()
    log.create(add("a"))
    log.commit(remove("a"), add("b"))
    with refused("DELTA_SOURCE_TABLE_IGNORE_CHANGES") as caught:
        drain(log.stream(startingVersion="0", ignoreDeletes="true"))
    assert (caught.value.version, "skipChangeCommits" in caught.value.message) == (1, True)
    read = drain(log.stream(startingVersion="0", ignoreChanges="true"))
    assert read == [((2, -100, False), ["a", "b"])]
    skipped = drain(log.stream(startingVersion="0", skipChangeCommits="true"))
    assert skipped == [((2, -100, False), ["a"])]


def test_available_now_ends_where_the_table_ended():
    log = Log()
    log.create(add("a"))
    stream = log.stream(startingVersion="0", maxFilesPerTrigger="1")
    stream.prepare_for_available_now()
    log.commit(add("b"))
    first = stream.latest_offset(stream.initial_offset())
    log.commit(add("late"))
    assert [files for _, files in drain(stream, first)] == [["b"]]


def test_a_log_that_lost_its_beginning_is_refused_unless_data_may_be_lost():
    log = Log()
    log.create(add("a"))
    log.commit(add("b"))
    log.commit(add("c"))
    log.writer.checkpoint(2, [protocol(), metadata({"id": "long"}), add("a"), add("b"), add("c")])
    stream = log.stream()
    start = offset(
        stream,
        {**stream.initial_offset().to_json(), "reservoirVersion": 1, "isStartingVersion": False},
    )
    for version in (0, 1):
        log.writer.delete(f"{version:020}.json")
    with refused("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"):
        log.stream().latest_offset(start)
    assert drain(log.stream(failOnDataLoss="false"), start) == [((3, -100, False), ["c"])]


def test_a_table_that_was_set_back_is_refused_unless_data_may_be_lost():
    log = Log()
    log.create(add("a"))
    for name in ("b", "c"):
        log.commit(add(name))
    stream = log.stream(startingVersion="0")
    end = stream.latest_offset(stream.initial_offset())
    assert end.version == 3
    log.writer.delete(f"{2:020}.json")
    with refused("DELTA_STREAMING_TRAILING_COMMIT_MISSING") as caught:
        log.stream().latest_offset(end)
    assert caught.value.version == 2
    assert drain(log.stream(failOnDataLoss="false"), end) == []


@pytest.mark.parametrize("commits", [1, 3, 5])
def test_a_table_that_is_made_again_stops_the_stream_that_reads_it(commits):
    log = Log()
    log.create(add("a"))
    for name in ("b", "c"):
        log.commit(add(name))
    stream = log.stream(startingVersion="0")
    end = stream.latest_offset(stream.initial_offset())
    assert stream.latest_offset(end) == end
    for version in range(3):
        log.writer.delete(f"{version:020}.json")
    writer = LogWriter(log.engine, log.table)
    writer.commit(protocol(), metadata({"id": "long"}, table_id="another"), add("d" * 9))
    for number in range(1, commits):
        writer.commit(add(f"{number}" * 9))
    with refused("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"):
        stream.latest_offset(end)


def test_a_table_that_is_set_back_stops_the_stream_that_reads_it():
    log = Log()
    log.create(add("a"))
    for name in ("b", "c"):
        log.commit(add(name))
    for fails in ("true", "false"):
        stream = log.stream(startingVersion="0", failOnDataLoss=fails)
        end = stream.latest_offset(stream.initial_offset())
        if fails == "true":
            log.writer.delete(f"{2:020}.json")
            with refused("DELTA_STREAMING_TRAILING_COMMIT_MISSING"):
                stream.latest_offset(end)
        else:
            assert stream.latest_offset(end) == end


@pytest.mark.parametrize("later", ["b2", "longer than before"])
def test_a_log_with_other_commits_than_the_stream_has_read_stops_it(later):
    """It was set back to version 0, and is as long as before or longer."""
    log = Log()
    log.create(add("a"))
    log.commit(add("b1"))
    stream = log.stream(startingVersion="0")
    end = stream.latest_offset(stream.initial_offset())
    file = log.writer.path(f"{1:020}.json")
    log.engine.files.set_modification_time(file, 10**12)
    assert stream.latest_offset(end) == end  # a copy of the same commit
    log.writer.commit(add(later), version=1)
    log.commit(add("c"))
    with refused("DELTA_STREAMING_TRAILING_COMMIT_MISSING"):
        stream.latest_offset(end)
    lossy = log.stream(startingVersion="0", failOnDataLoss="false")
    assert drain(lossy, end) == [((3, -100, False), ["c"])]


def test_left_out_files_keep_their_place():
    log = Log()
    log.create(add("a"), add("b"), add("c"))
    stream = log.stream(startingVersion="0", maxFilesPerTrigger="2", excludeRegex="^b")
    assert drain(stream) == [((0, 1, False), ["a"]), ((1, -100, False), ["c"])]


def test_an_added_column_stops_a_running_stream_and_passes_after_a_restart():
    log = Log()
    log.create(add("a"))
    stream = log.stream(startingVersion="0")
    log.commit(metadata({"id": "long", "extra": "string"}))
    log.commit(add("b"))
    with refused("DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS") as caught:
        drain(stream)
    assert caught.value.version == 1
    assert "Restart the query" in caught.value.message
    assert drain(log.stream(startingVersion="0")) == [((3, -100, False), ["a", "b"])]


def test_a_changed_type_is_refused_before_and_after_a_restart():
    log = Log()
    log.create(add("a"))
    log.commit(metadata({"id": "string"}))
    with refused("DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"):
        drain(log.stream(startingVersion="0"))


def test_a_table_put_in_its_place_is_refused():
    log = Log()
    log.create(add("a"))
    stream = log.stream(startingVersion="0")
    log.commit(metadata({"id": "long"}, table_id="another"))
    with refused("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"):
        drain(stream)


def test_a_feed_ends_at_the_last_change_data_file_of_a_commit():
    log = Log(properties=FEED)
    log.create(add("a"))
    log.commit(add("b"), remove("a"), cdc("c1"), cdc("c2"))
    stream = log.stream(startingVersion="0", readChangeFeed="true")
    assert drain(stream) == [
        ((1, 1, False), [(0, "insert", "a"), (1, None, "c1"), (1, None, "c2")])
    ]
    assert drain(stream, unlimited=True)[-1][0] == (2, -100, False)


def test_change_data_files_of_a_commit_come_together():
    log = Log(properties=FEED)
    log.create(add("a"))
    log.commit(remove("a"), cdc("c1"), cdc("c2"), cdc("c3"))
    stream = log.stream(startingVersion="0", readChangeFeed="true", maxFilesPerTrigger="2")
    assert [files for _, files in drain(stream)] == [
        [(0, "insert", "a")],
        [(1, None, "c1"), (1, None, "c2"), (1, None, "c3")],
    ]


def test_the_table_itself_is_inserts_of_its_version_to_a_feed():
    log = Log(properties=FEED)
    log.create(add("a"))
    log.commit(add("b"))
    batches = drain(log.stream(readChangeFeed="true"))
    assert [files for _, files in batches] == [[(1, "insert", "a"), (1, "insert", "b")]]


def test_changes_that_were_not_recorded_are_refused():
    log = Log()
    log.create(add("a"))
    with refused("DELTA_MISSING_CHANGE_DATA") as caught:
        drain(log.stream(startingVersion="0", readChangeFeed="true"))
    assert "delta.enableChangeDataFeed" in caught.value.message


@st.composite
def histories(draw, feed):
    """Commits as lists of actions; files are named by their place, so that names are unique."""
    commits, live, number = [], [], 0
    for _ in range(draw(st.integers(1, 7))):
        actions = []
        kind = draw(st.sampled_from(["append", "append", "append", "delete", "update", "nothing"]))
        if kind in ("delete", "update") and live:
            gone = live.pop(draw(st.integers(0, len(live) - 1)))
            actions.append(remove(gone, size=draw(st.integers(1, 9))))
        if kind in ("append", "update"):
            for _ in range(draw(st.integers(1, 4))):
                time, size = draw(st.integers(0, 2)), draw(st.integers(1, 9))
                change = kind == "update" or draw(st.integers(0, 5)) > 0
                live.append(f"f{number}")
                actions.append(
                    add(f"f{number}", size=size, modificationTime=time, dataChange=change)
                )
                number += 1
            if feed and kind == "update" and draw(st.booleans()):
                actions += [cdc(f"c{number}-{n}") for n in range(draw(st.integers(1, 3)))]
        commits.append(draw(st.permutations(actions)))
    return commits


def live_files(commits):
    live = {}
    for actions in commits:
        for action in actions:
            live.pop(action.get("remove", {}).get("path"), None)
        for action in actions:
            if "add" in action:
                live[action["add"]["path"]] = action["add"]
    return [a["path"] for a in sorted(live.values(), key=_order)]


def _order(body):
    return body["modificationTime"], body["path"]


def rows_expected(commits, opened, initial, skips):
    """Files that a stream of rows gives, by the rules in words."""
    found = live_files(commits[: opened + 1]) if initial else []
    for version, actions in enumerate(commits):
        if initial and version <= opened:
            continue
        if skips and any(a.get("remove", {}).get("dataChange") for a in actions):
            continue
        found += [a["add"]["path"] for a in actions if "add" in a and a["add"]["dataChange"]]
    return found


def changes_expected(commits, opened, initial):
    """Files that a stream of the feed gives, in any order inside a commit."""
    found = []
    if initial:
        found = [(opened, "insert", path) for path in live_files(commits[: opened + 1])]
    for version, actions in enumerate(commits):
        if initial and version <= opened:
            continue
        recorded = [(version, None, a["cdc"]["path"]) for a in actions if "cdc" in a]
        touched = [
            (version, "insert" if "add" in a else "delete", body["path"])
            for a in actions
            for body in [a.get("add") or a.get("remove")]
            if body and body["dataChange"]
        ]
        found += recorded or touched
    return found


def replay(data, commits, options, *, initial):
    """Commits appear bit by bit, limits change, the query dies here and there; what came out."""
    log = Log(properties=FEED if "readChangeFeed" in options else {})
    opened = data.draw(st.integers(0, len(commits) - 1), label="opened")
    log.create(*commits[0])
    for actions in commits[1 : opened + 1]:
        log.commit(*actions)
    shown = opened + 1
    if not initial:
        options = {**options, "startingVersion": "0"}
    stream = log.stream(**options)
    start, out = None, []
    while True:
        limits = {
            "maxFilesPerTrigger": str(data.draw(st.integers(1, 5), label="files")),
            "maxBytesPerTrigger": str(data.draw(st.integers(1, 30), label="bytes")),
        }
        if data.draw(st.booleans(), label="restart") and start is not None:
            stream = log.stream(**options, **limits)
        begin = stream.initial_offset() if start is None else offset(stream, start.to_json())
        unlimited = data.draw(st.integers(0, 9), label="unlimited") == 0
        end = stream.latest_offset(begin, unlimited=unlimited)
        assert end.position >= begin.position
        if end == begin:
            if shown == len(commits):
                return opened, out
            log.commit(*commits[shown])
            shown += 1
            continue
        again = log.stream(**options) if data.draw(st.booleans(), label="dies") else stream
        first = again.initial_offset() if start is None else offset(again, start.to_json())
        batch = paths(again.batch(first, offset(again, end.to_json())))
        out += batch
        start = end


@settings(max_examples=EXAMPLES)
@given(st.data(), st.booleans(), st.booleans())
def test_batches_are_the_tables_rows_once_whatever_limits_and_restarts(data, initial, skips):
    commits = data.draw(histories(feed=False))
    option = "skipChangeCommits" if skips else "ignoreChanges"
    opened, found = replay(data, commits, {option: "true"}, initial=initial)
    assert found == rows_expected(commits, opened, initial, skips)


@settings(max_examples=EXAMPLES)
@given(st.data(), st.booleans())
def test_batches_of_a_feed_are_all_changes_once_whatever_limits_and_restarts(data, initial):
    commits = data.draw(histories(feed=True))
    opened, found = replay(data, commits, {"readChangeFeed": "true"}, initial=initial)
    assert sorted(found, key=str) == sorted(changes_expected(commits, opened, initial), key=str)
    assert [version for version, _, _ in found] == sorted(version for version, _, _ in found)
