"""PROTOCOL.md, Action Reconciliation; docs/design/facts.md, Paths and keys."""

from __future__ import annotations

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.errors import CorruptTableError, StorageError
from bayou.kernel import Snapshot, closeable
from bayou.kernel.log import replay
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import (
    LogWriter,
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)
from support.short_responses import ShortResponses, without_last_line

HEAD = (protocol(), metadata({"id": "long"}))
VECTORS = (protocol(3, 7, (["deletionVectors"], ["deletionVectors"])), metadata({"id": "long"}))


def snapshot(log: LogWriter, version: int | None = None) -> Snapshot:
    return Snapshot.load(log.engine, log.table, version)


def live(log: LogWriter) -> list[str]:
    scan = snapshot(log).scan_builder().build()
    return [f.path for batch in scan.scan_files(log.engine) for f in batch.rows()]


def test_the_newest_action_of_a_file_counts(log):
    log.commit(*HEAD, add("a"), add("b"))
    log.commit(remove("a"))
    log.commit(remove("b"), add("c"))
    log.commit(add("a", size=7))
    assert sorted(live(log)) == ["a", "c"]


def test_an_action_that_a_commit_repeats_counts_once(log):
    log.commit(*HEAD, add("a"), add("b", size=1), add("b", size=2))
    log.commit(remove("a"), remove("a"), add("c"), add("c"))
    found = snapshot(log)
    assert sorted(live(log)) == ["b", "c"]
    assert [file["path"] for part in found.replay_state.removes for file in part.to_pylist()] == [
        "a"
    ]
    (sizes,) = [part.field("size").to_pylist() for part in found.replay_state.adds]
    assert sizes == [2, 1]


def test_files_whose_names_are_not_utf_8_are_told_apart(log):
    log.commit(*HEAD, *(add(name) for name in ("p=%FF/a", "p=%FE/a", "b")))
    log.commit(remove("p=%ff/a"))
    assert sorted(live(log)) == ["b", "p=%FE/a"]


def test_commits_behind_a_checkpoint_take_files_out_of_it(log):
    log.commit(*HEAD, *(add(name) for name in "abcd"))
    log.checkpoint(0, [*HEAD, *(add(name) for name in "abcd")])
    log.commit(remove("b"))
    log.commit(add("c", size=9), add("e"))
    assert sorted(live(log)) == ["a", "c", "d", "e"]


def test_a_tombstone_in_a_checkpoint_adds_nothing(log):
    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, add("a"), remove("b", deletionTimestamp=1)])
    assert live(log) == ["a"]


def test_paths_are_compared_by_what_they_name_however_they_are_spelled(log):
    log.commit(*HEAD, add("p=ä/b%20c"), add("p=ä/b%2520c"), add("p=%C3%A4/d*e"))
    log.commit(remove("p=%c3%a4/b c"), remove("p=ä/d%2Ae"), add("f g"))
    assert sorted(live(log)) == ["f g", "p=ä/b%2520c"]


@pytest.mark.parametrize(
    ("stored", "removed"),
    [
        ("p=ä/a", "p=%C3%A4/a"),
        ("p=%C3%A4/a", "p=ä/a"),
        ("p=b c/a", "p=b%20c/a"),
        ("p=ä/d*", "p=%C3%A4/d%2A"),
        ("p=%c3%a4/a", "p=%C3%A4/a"),
        ("file:/elsewhere/ä", "file:///elsewhere/%C3%A4"),
        ("/elsewhere/ä", "/elsewhere/%C3%A4"),
        ("s3://elsewhere/ä", "s3://elsewhere/%C3%A4"),
        ("a%00b", "a%00b"),
    ],
)
def test_a_checkpoint_may_spell_a_path_otherwise_than_the_commits_behind_it(log, stored, removed):
    log.commit(*HEAD, add(stored), add("other"))
    log.checkpoint(0, [*HEAD, add(stored), add("other")])
    log.commit(remove(removed))
    assert live(log) == ["other"]
    log.commit(add(stored, size=3))
    assert sorted(live(log)) == sorted([stored, "other"])


def test_paths_that_name_other_files_stay_apart(log):
    paths = ["b%20c", "b%2520c", "e\u0301", "\u00e9", "s3://a/b", "s3a://a/b"]
    log.commit(*HEAD, *map(add, paths))
    log.checkpoint(0, [*HEAD, *map(add, paths)])
    log.commit(*(remove(path) for path in paths[::2]))
    assert live(log) == paths[1::2]


def test_path_and_vector_are_the_key_of_a_file(log):
    old, new = deletion_vector("old"), deletion_vector("new", offset=1)
    log.commit(*VECTORS, add("a", vector=old), add("b"))
    log.checkpoint(0, [*VECTORS, add("a", vector=old), add("b")])
    log.commit(remove("a", vector=old), add("a", vector=new))
    log.commit(remove("a", vector=new))
    assert live(log) == ["b"]


def test_removing_another_vector_of_a_path_leaves_the_file(log):
    old = deletion_vector("v", offset=1)
    log.commit(*VECTORS, add("a"), add("b"))
    log.checkpoint(0, [*VECTORS, add("a"), add("b")])
    log.commit(remove("a", vector=old), remove("b"))
    assert live(log) == ["a"]


def test_a_vector_removed_before_its_feature_was_dropped_stays_removed(log):
    vector = deletion_vector("v")
    log.commit(*VECTORS, add("a", vector=vector), add("b"))
    log.checkpoint(0, [*VECTORS, add("a", vector=vector), add("b")])
    log.commit(remove("a", vector=vector), add("c"))
    log.commit(protocol())
    assert sorted(live(log)) == ["b", "c"]


def test_protocol_and_metadata_come_from_the_newest_commit_that_has_them(log):
    log.commit(*HEAD)
    log.checkpoint(0, HEAD)
    log.commit(metadata({"id": "long", "name": "string"}))
    log.commit(protocol(1, 3))
    found = snapshot(log)
    assert found.schema.names == ("id", "name")
    assert found.protocol.min_writer_version == 3


def test_of_a_transaction_identifier_the_last_write_wins_even_if_it_is_less(log):
    log.commit(*HEAD, txn("a", 5), txn("b", 1))
    log.checkpoint(0, [*HEAD, txn("a", 5), txn("b", 1), txn("c", 4)])
    log.commit(txn("a", 9))
    log.commit(txn("a", 3, last_updated=1))
    found = snapshot(log)
    assert dict(found.transactions) == {"a": 3, "b": 1, "c": 4}
    assert found.transaction_version("a") == 3
    assert found.transaction_version("unknown") is None


def test_a_removed_domain_is_no_longer_there(log):
    def domain(name, configuration, removed=False):
        body = {"domain": name, "configuration": configuration, "removed": removed}
        return {"domainMetadata": body}

    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, domain("a", "1"), domain("b", "1"), domain("c", "1")])
    log.commit(domain("a", "2"), domain("b", "", removed=True))
    assert dict(snapshot(log).domain_metadata) == {"a": "2", "c": "1"}


def test_unknown_actions_and_fields_are_ignored(log):
    log.commit(*HEAD, {"rune": {"x": 1}}, add("a", rune=1, tags={"k": "v"}))
    assert live(log) == ["a"]


def test_a_line_that_is_not_json_is_named_with_its_file(log):
    log.commit(*HEAD)
    path = log.put(f"{1:020d}.json", b'{"commitInfo":{}}\n\n{"add":{"path":"x"\n')
    with pytest.raises(CorruptTableError, match=r"commit 1 .* line 3") as caught:
        snapshot(log)
    assert caught.value.file == path


def test_an_empty_commit_has_no_actions_as_in_delta_spark(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    log.put(f"{2:020d}.json", b"")
    found = snapshot(log)
    assert (found.version, live(log)) == (2, ["a"])


def test_a_line_that_lacks_a_required_field_is_named(log):
    log.commit(*HEAD)
    log.commit(commit_info(), add("a"), {"add": {"path": "b"}})
    with pytest.raises(CorruptTableError, match=r"line 3.*partitionValues"):
        snapshot(log)


class VanishingCommits(ArrowFiles):
    """Lists files that are gone when they are read."""

    def __init__(self) -> None:
        super().__init__({})

    @closeable
    def list_from(self, path):
        found = list(super().list_from(path))
        self.delete_files(f.path for f in found)
        return iter(found)


def test_a_commit_that_vanishes_while_it_is_read_is_named(tmp_path):
    log = LogWriter(ArrowEngine(files=VanishingCommits()), str(tmp_path))
    log.commit(*HEAD)
    with pytest.raises(CorruptTableError, match="deleted while it was read") as caught:
        snapshot(log)
    assert caught.value.file == log.path(f"{0:020d}.json")


@pytest.mark.parametrize("cut", [without_last_line, lambda _: b""])
@pytest.mark.parametrize("name", [f"{1:020d}.json", ".checkpoint.*.json"])
def test_a_response_that_ends_early_loses_no_lines_of_the_log(tmp_path, cut, name):
    log = LogWriter(ArrowEngine(), str(tmp_path))
    log.commit(*HEAD, add("a"), add("b"))
    log.commit(add("c"), add("d"))
    if "checkpoint" in name:
        (name,) = log.v2_checkpoint(1, [*HEAD, add("a"), add("b"), add("c"), add("d")], kind="json")
        log.delete(f"{0:020d}.json")
    engine = ArrowEngine(files=ShortResponses(name, cut))
    with pytest.raises((StorageError, CorruptTableError), match=f"{name}.*the store returned"):
        live(LogWriter(engine, str(tmp_path)))


@pytest.mark.parametrize(
    ("actions", "missing"), [((protocol(),), "metaData"), ((metadata({"id": "long"}),), "protocol")]
)
def test_a_log_without_protocol_or_metadata_is_refused(log, actions, missing):
    log.commit(*actions, add("a"))
    with pytest.raises(CorruptTableError, match=f"has no {missing} action"):
        snapshot(log)


def test_a_checkpoint_that_is_not_parquet_is_named(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    log.delete(f"{0:020d}.json")
    path = log.put(f"{1:020d}.checkpoint.parquet", b"PAR1 no, it is not")
    with pytest.raises(CorruptTableError, match="can't be read") as caught:
        snapshot(log)
    assert caught.value.file == path


def test_a_checkpoint_part_that_cannot_be_read_later_is_named(log):
    log.commit(*HEAD)
    names = log.checkpoint(0, [*HEAD, add("a"), add("b")], parts=2)
    scan = snapshot(log).scan_builder().build()
    engine = FaultInjectingEngine(log.engine, Fault(operation="read_parquet_files", path=names[1]))
    with pytest.raises(CorruptTableError, match="can't be read") as caught:
        list(scan.scan_files(engine))
    assert caught.value.file == log.path(names[1])


def test_a_footer_that_cannot_be_read_is_named(log):
    log.commit(*HEAD)
    (name,) = log.checkpoint(0, [*HEAD, add("a"), add("b")])
    engine = FaultInjectingEngine(log.engine, Fault(operation="read_row_groups"))
    with pytest.raises(CorruptTableError, match="can't be read") as caught:
        snapshot(log).scan_builder().build().slices(engine, max_slices=4)
    assert caught.value.file == log.path(name)


def removed(found: Snapshot) -> set[str]:
    return {r["path"] for part in found.replay_state.removes for r in part.to_pylist()}


def write_for_compaction(log: LogWriter) -> None:
    """Five commits, of which 1 to 3 are compacted."""
    log.commit(*HEAD, add("a"))
    log.commit(add("b"), txn("app", 1))
    log.commit(remove("a"), add("c"))
    log.commit(remove("c"), txn("app", 2))
    log.compaction(1, 3, add("b"), remove("a"), remove("c"), txn("app", 2))
    log.commit(commit_info(operation="WRITE"), add("d"))


def test_compacted_commits_stand_for_theirs(log):
    write_for_compaction(log)
    for version in (1, 2, 3):
        log.put(f"{version:020d}.json", b"not read")
    found = snapshot(log)
    assert live(log) == ["b", "d"]
    assert found.transactions == {"app": 2}
    assert removed(found) == {"a", "c"}
    assert found.replay_state.commit_info.get("operation") == "WRITE"


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_the_first_action_of_a_file_counts_in_a_compaction_that_is_not_reconciled(
    log, monkeypatch, long
):
    """As a real producer wrote them: the actions of all commits, the newest commit first."""
    if long:
        monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", 0)
    log.commit(*HEAD, add("a"))
    log.commit(add("b"), txn("app", 1))
    log.commit(remove("a"), remove("b"), add("c"))
    log.commit(remove("c"), add("b"), txn("app", 2))
    log.compaction(
        1,
        3,
        *(remove("c"), add("b"), txn("app", 2)),
        *(remove("a"), remove("b"), add("c")),
        *(add("b"), txn("app", 1)),
    )
    log.commit(add("d"))
    for version in (1, 2, 3):
        log.put(f"{version:020d}.json", b"not read")
    assert sorted(live(log)) == ["b", "d"]
    assert snapshot(log).transactions == {"app": 2}
    if not long:
        assert removed(snapshot(log)) == {"a", "c"}


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_compacted_commits_that_cannot_be_read_are_read_one_by_one(log, content):
    write_for_compaction(log)
    log.put(f"{1:020d}.{3:020d}.compacted.json", content)
    assert live(log) == ["b", "d"]


def test_the_commit_info_of_the_latest_commit_is_known_where_it_is_compacted(log):
    write_for_compaction(log)
    log.delete(f"{1:020d}.{3:020d}.compacted.json")
    log.compaction(1, 4, add("b"), add("d"), remove("a"), remove("c"), txn("app", 2))
    for version in (1, 2, 3):
        log.put(f"{version:020d}.json", b"not read")
    assert live(log) == ["b", "d"]
    assert snapshot(log).replay_state.commit_info.get("operation") == "WRITE"


def test_nulls_inside_of_a_checkpoints_metadata_are_fields_that_are_not_there(log):
    body = dict(HEAD[1]["metaData"])
    body["format"] = {"provider": "parquet", "options": None}
    body["configuration"] = {}
    log.commit(*HEAD)
    log.commit(add("a"))
    log.checkpoint(1, [protocol(), {"metaData": body}, add("a")])
    assert snapshot(log).metadata.format.options == {}
    assert snapshot(log).metadata.configuration == {}


def test_a_checkpoint_action_that_is_not_one_is_named(log):
    log.commit(*HEAD)
    (name,) = log.checkpoint(0, [{"protocol": {"minReaderVersion": 1}}, HEAD[1]])
    log.delete(f"{0:020d}.json")
    with pytest.raises(CorruptTableError, match="an invalid action") as caught:
        snapshot(log)
    assert caught.value.file == log.path(name)
