"""What an append takes of the store doesn't depend on how long the table's log is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.kernel import Engine, FileStatus, Operation, Table, closeable, write_data
from bayou.protocol.last_checkpoint import LastCheckpoint, encode
from support.faults import FaultInjectingEngine
from support.log_writer import LogWriter, add, commit_info, metadata, protocol

APPENDS = 12
ROWS = pa.record_batch({"id": pa.array([1, 2], pa.int64())})


class ListingFiles(MemoryFiles):
    """Counts the files that listings gave."""

    listed = 0

    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        with super().list_from(path) as statuses:
            for status in statuses:
                self.listed += 1
                yield status


def taken(commits: int, store: str) -> tuple[Counter[str], int]:
    """Calls of the engine, and files listed, for appends to a table of so many commits."""
    files = ListingFiles()
    log = LogWriter(ArrowEngine(files=files), f"memory://{store}/table")
    head = (protocol(1, 2), metadata({"id": "long"}))
    log.commit(commit_info(), *head)
    for version in range(1, commits):
        log.commit(commit_info(), add(str(version)))
    covered = commits - 2
    log.checkpoint(covered, [*head, *(add(str(version)) for version in range(1, covered + 1))])
    log.put("_last_checkpoint", encode(LastCheckpoint(version=covered, size=covered + 2)))
    append(ArrowEngine(files=files), log.table)  # whose checkpoint counts the files for checksums
    engine = FaultInjectingEngine(ArrowEngine(files=files))
    files.listed = 0
    for _ in range(APPENDS):
        version = append(engine, log.table)
    assert version == commits + APPENDS
    files.delete_files([status.path for status in files.list_tree(log.table, lambda _: False)])
    return Counter(engine.calls), files.listed


def append(engine: Engine, path: str) -> int:
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    transaction = builder.build(engine)
    adds = write_data(engine, transaction.transaction_state(engine), [ROWS])
    result = transaction.commit(engine, adds)
    result.run_post_commit_hooks(engine)
    return result.version


def test_an_append_takes_the_same_with_ten_commits_and_with_ten_thousand(
    request: pytest.FixtureRequest,
) -> None:
    calls, listed = taken(10, f"{id(request)}-short")
    many_calls, many_listed = taken(10_000, f"{id(request)}-long")
    assert many_calls == calls
    assert many_listed == listed
    assert listed < 25 * APPENDS
