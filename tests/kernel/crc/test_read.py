"""PROTOCOL.md, Version Checksum File; docs/design/facts.md, Checkpoints and checksums."""

from __future__ import annotations

import pytest

from bayou.kernel import Snapshot
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import LogWriter, add, commit_info, metadata, protocol, txn

FEATURES = (["v2Checkpoint"], ["v2Checkpoint", "domainMetadata"])
PROTOCOL = protocol(1, 7, ([], ["domainMetadata"]))
HEAD = (PROTOCOL, metadata({"id": "long"}))
DOMAIN = {"domain": "d", "configuration": "{}", "removed": False}
WHOLE = {
    "protocol": PROTOCOL["protocol"],
    "metadata": HEAD[1]["metaData"],
    "setTransactions": [{"appId": "app", "version": 4}],
    "domainMetadata": [DOMAIN],
}


def write(log: LogWriter) -> None:
    log.commit(*HEAD)
    log.commit(add("a"), txn("app", 4), {"domainMetadata": DOMAIN})
    log.checkpoint(1, [*HEAD, add("a"), txn("app", 4), {"domainMetadata": DOMAIN}])
    log.commit(add("b"))
    log.delete(f"{0:020d}.json")


def without_checkpoint(log: LogWriter) -> Snapshot:
    """The latest version, by an engine that can't read Parquet."""
    engine = FaultInjectingEngine(log.engine, Fault(operation="read_parquet_files", times=100))
    return Snapshot.load(engine, log.table)


@pytest.mark.parametrize("version", [1, 2])
def test_a_checksum_saves_reading_the_checkpoint(log, version):
    write(log)
    log.checksum(version, **WHOLE)
    found = without_checkpoint(log)
    assert found.version == 2
    assert found.checkpoint_contents is None
    assert found.schema.names == ("id",)
    assert found.transactions == {"app": 4}
    assert found.domain_metadata == {"d": "{}"}
    assert found.protocol.writer_features == ["domainMetadata"]


def test_commits_behind_the_checksum_count_more(log):
    write(log)
    log.checksum(1, **WHOLE)
    log.commit(txn("app", 5), metadata({"id": "long", "x": "string"}))
    found = without_checkpoint(log)
    assert found.transactions == {"app": 5}
    assert found.schema.names == ("id", "x")


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": None},
        {"metadata": None},
        {"setTransactions": None},
        {"domainMetadata": None},
        {"numMetadata": 2},
        {"numFiles": "many"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_checksum_that_does_not_say_it_all_is_not_used(log, fields):
    write(log)
    log.checksum(2, **{**WHOLE, **fields})
    found = Snapshot.load(log.engine, log.table)
    assert found.checkpoint_contents is not None
    assert found.transactions == {"app": 4}


def test_domains_are_not_missed_where_the_protocol_has_none(log):
    plain = (protocol(1, 2), HEAD[1])
    log.commit(*plain)
    log.checkpoint(0, plain)
    log.checksum(0, protocol=plain[0]["protocol"], metadata=WHOLE["metadata"], setTransactions=[])
    assert without_checkpoint(log).domain_metadata == {}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]"])
def test_a_checksum_that_is_not_one_is_passed_over(log, data):
    write(log)
    log.put(f"{2:020d}.crc", data)
    assert Snapshot.load(log.engine, log.table).transactions == {"app": 4}


def test_a_checksum_that_contradicts_the_commits_is_not_used(log):
    write(log)
    log.commit(protocol(1, 7, ([], ["domainMetadata", "appendOnly"])))
    log.checksum(3, **WHOLE | {"setTransactions": [{"appId": "app", "version": 9}]})
    found = Snapshot.load(log.engine, log.table)
    assert found.protocol.writer_features == ["domainMetadata", "appendOnly"]
    assert found.transactions == {"app": 4}


def test_a_checksum_that_is_gone_when_it_is_read_is_done_without(log):
    write(log)
    log.checksum(2, **WHOLE)
    engine = FaultInjectingEngine(log.engine, Fault(operation="read_files", path=".crc"))
    assert Snapshot.load(engine, log.table).transactions == {"app": 4}


def test_a_v2_checkpoint_is_read_all_the_same_for_its_sidecars(log):
    head = (protocol(3, 7, FEATURES), HEAD[1])
    log.v2_checkpoint(1, [*head, add("a")], kind="classic", sidecars=2)
    log.checksum(1, **WHOLE | {"protocol": head[0]["protocol"]})
    contents = Snapshot.load(log.engine, log.table).checkpoint_contents
    assert contents is not None
    assert len(contents.files) == 2


def test_the_in_commit_timestamp_is_known_where_the_commit_is_gone(log):
    table = metadata({"id": "long"}, configuration={"delta.enableInCommitTimestamps": "true"})
    log.commit(commit_info(inCommitTimestamp=77), PROTOCOL, table)
    log.checkpoint(0, [PROTOCOL, table])
    log.checksum(0, **WHOLE | {"metadata": table["metaData"], "inCommitTimestampOpt": 77})
    assert Snapshot.load(log.engine, log.table).timestamp == 77
    log.delete(f"{0:020d}.json")
    assert Snapshot.load(log.engine, log.table).timestamp == 77


def plan(log: LogWriter, filter: str | None = None) -> list[str]:
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_filter(filter).build()
    with scan.scan_files(log.engine) as batches:
        return [file.path for batch in batches for file in batch.rows()]


@pytest.mark.parametrize(
    ("files", "size", "warned"), [(2, 2, False), (3, 2, True), (2, 3, True), (0, 0, True)]
)
def test_a_checksum_that_counts_the_files_otherwise_is_a_warning(log, caplog, files, size, warned):
    """delta-spark reads and writes such a table, too; it fails when it writes a checkpoint."""
    write(log)
    name = log.checksum(2, **WHOLE, numFiles=files, tableSizeBytes=size)
    assert sorted(plan(log)) == ["a", "b"]
    said = [r.getMessage() for r in caplog.records if r.name == "bayou.kernel.crc.read"]
    assert [log.path(name) in text for text in said] == [True] * warned


def test_files_that_are_not_all_planned_are_not_compared(log, caplog):
    write(log)
    log.checksum(2, **WHOLE, numFiles=7)
    assert sorted(plan(log, "id = 1")) == ["a", "b"]
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    with scan.scan_files(log.engine) as batches:
        next(batches)
    assert not caplog.records


def test_a_checksum_of_an_older_version_is_not_compared(log, caplog):
    write(log)
    log.checksum(1, **WHOLE, numFiles=7)
    assert sorted(plan(log)) == ["a", "b"]
    assert not caplog.records


STALE = {**WHOLE, "setTransactions": [{"appId": "app", "version": 9}], "txnId": "lost"}


def test_a_checksum_of_a_later_version_is_not_used(log):
    write(log)
    log.checksum(3, **STALE)
    assert Snapshot.load(log.engine, log.table).transactions == {"app": 4}


@pytest.mark.parametrize("behind", [0, 1, 2], ids=["latest", "older", "of the checkpoint"])
def test_a_checksum_of_another_commit_than_the_log_has_is_not_used(log, behind):
    log.commit(*HEAD)
    actions = [*HEAD, add("a"), txn("app", 4)]
    log.commit(commit_info(txnId="mine"), *actions[2:])
    log.checkpoint(1, actions)
    for version in (2, 3):
        log.commit(commit_info(txnId="mine"), add(str(version)))
    log.checksum(3 - behind, **STALE)
    found = Snapshot.load(log.engine, log.table)
    assert found.transactions == {"app": 4}
    log.checksum(3 - behind, **STALE | {"txnId": "mine"})
    assert Snapshot.load(log.engine, log.table).transactions == {"app": 9}
    log.checksum(3 - behind, **{k: v for k, v in STALE.items() if k != "txnId"})
    assert Snapshot.load(log.engine, log.table).transactions == {"app": 9}


def test_the_commit_info_of_a_large_commit_is_found_in_its_beginning(log):
    write(log)
    log.commit(commit_info(txnId="mine"), *(add(f"{n:0200d}") for n in range(400)))
    log.commit(add("last"))
    log.checksum(3, **STALE)
    assert Snapshot.load(log.engine, log.table).transactions == {"app": 4}


def test_a_known_version_brought_up_to_date_takes_no_checksum_of_another_commit(log, caplog):
    write(log)
    known = Snapshot.load(log.engine, log.table)
    log.commit(commit_info(txnId="mine"), add("c"))
    log.checksum(3, **WHOLE, numFiles=7, txnId="lost")
    log.checksum(5, **WHOLE, numFiles=7, txnId="lost")
    found = known.refreshed(log.engine)
    assert (found.version, found.checksum_totals) == (3, None)
