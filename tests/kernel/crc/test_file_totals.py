"""How many files a version has."""

from __future__ import annotations

from bayou.kernel import Snapshot
from bayou.kernel.crc.file_totals import count_files
from bayou.kernel.crc.read import FileTotals
from support.log_writer import LogWriter, add, metadata, protocol, remove


def test_without_a_checksum_files_are_counted(log: LogWriter):
    log.commit(protocol(), metadata({"id": "long"}), add("a"), add("b"))
    log.checkpoint(0, [protocol(), metadata({"id": "long"}), add("a"), add("b")])
    log.commit(remove("a"), add("c"), add("d"))
    snapshot = Snapshot.load(log.engine, log.table)
    assert snapshot.file_totals(log.engine) is None
    assert count_files(log.engine, snapshot) == 3


def test_the_versions_checksum_says_it(log: LogWriter):
    log.commit(protocol(), metadata({"id": "long"}), add("a"))
    log.checksum(0, tableSizeBytes=7, numFiles=5, numMetadata=1, numProtocol=1)
    snapshot = Snapshot.load(log.engine, log.table)
    assert snapshot.file_totals(log.engine) == FileTotals(5, 7)
    assert count_files(log.engine, snapshot) == 5
    log.commit(add("b"))
    assert count_files(log.engine, snapshot.refreshed(log.engine)) == 2  # that one is of version 0
