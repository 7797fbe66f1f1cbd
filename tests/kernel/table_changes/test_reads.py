"""What planning a read of changes takes: requests for commits, and actions held in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.kernel import ByteRange, CommitBoundary, DeltaAction, Table
from bayou.kernel.table_changes import change_plan, commit_range, table_changes
from support.log_writer import LogWriter, add, metadata, protocol, remove

HEAD = (protocol(1, 4), metadata({"id": "long"}, (), {"delta.enableChangeDataFeed": "true"}))
STATS = {"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 1}, "nullCount": {"id": 0}}


class CountingFiles(MemoryFiles):
    """Knows how often each commit was read."""

    def __init__(self) -> None:
        self.commits: Counter[int] = Counter()

    def read_files(self, ranges: Iterable[ByteRange]):
        wanted = list(ranges)
        names = [r.path.rsplit("/", 1)[-1] for r in wanted]
        self.commits.update(int(n[:20]) for n in names if n.endswith(".json") and n[:20].isdigit())
        return super().read_files(wanted)


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def log(files: CountingFiles, table_path: str) -> LogWriter:
    """Versions 0 to 20, a file each; checkpoints of the versions 9 and 20."""
    log = LogWriter(ArrowEngine(files=files), table_path)
    log.commit(*HEAD)
    for version in range(1, 21):
        log.commit(add(f"{version}", stats=STATS))
        if version in (9, 20):
            adds = [add(f"{n}", stats=STATS) for n in range(1, version + 1)]
            log.checkpoint(version, [*HEAD, *adds])
    return log


def planned(log: LogWriter, start: int, end: int | None = None, filter: str | None = None):
    table = Table.for_path(log.engine, log.table)
    last = None if end is None else CommitBoundary.at_version(end)
    changes = table.changes(log.engine, CommitBoundary.at_version(start), last)
    scan = changes.scan_builder().with_filter(filter).build()
    return [f.file.path for f in scan.change_files(log.engine)]


def test_each_commit_of_a_range_is_read_once(log, files):
    assert planned(log, 9, 18) == [f"{n}" for n in range(9, 19)]
    assert files.commits == Counter(range(9, 19))


def test_commits_beyond_what_is_kept_are_read_again(log, files, monkeypatch):
    monkeypatch.setattr(table_changes, "_MAX_CACHED_BYTES", 0)
    assert planned(log, 9, 18) == [f"{n}" for n in range(9, 19)]
    assert files.commits == Counter([*range(9, 19)] * 2)


def test_what_is_kept_isnt_in_a_repr(log):
    table = Table.for_path(log.engine, log.table)
    changes = table.changes(log.engine, CommitBoundary.at_version(9))
    assert "numRecords" not in repr(changes.commits)


def test_files_of_a_commit_are_judged_in_pieces(log, monkeypatch):
    monkeypatch.setattr(change_plan, "_CHUNK", 3)
    log.commit(
        *(add(f"new-{n}", stats=STATS) for n in range(10)),
        *(remove(f"{n}", partitionValues={}, size=1, stats=None) for n in range(1, 6)),
    )
    expected = [*(f"{n}" for n in range(1, 6)), *(f"new-{n}" for n in range(10))]
    assert planned(log, 21, filter="id = 1") == expected
    assert planned(log, 21, filter="id = 2") == expected[:5]
    assert planned(log, 21, filter="id = 1 AND _change_type = 'insert'") == expected[5:]


def test_raw_actions_of_a_large_commit_come_in_batches(log, monkeypatch):
    monkeypatch.setattr(commit_range, "_BATCH_ROWS", 4)
    log.commit(*(add(f"new-{n}") for n in range(10)))
    range_ = Table.for_path(log.engine, log.table).commit_range_builder(
        CommitBoundary.at_version(21)
    )
    batches = list(range_.build(log.engine).actions(log.engine, {DeltaAction.ADD}))
    assert [b.num_rows for b in batches] == [4, 4, 2]
