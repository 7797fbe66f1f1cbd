"""Incremental update of a table state: replay of the commits that are newer than the state."""

from __future__ import annotations

from dataclasses import replace

from bayou.errors import FileMissingError
from bayou.kernel.crc.read import checksum_totals, read_checksum
from bayou.kernel.engine import Engine
from bayou.kernel.log.listing import LogListing
from bayou.kernel.log.replay import replay_newer_commits
from bayou.kernel.log.segment import LogSegment, log_path
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.protocol.file_names import list_prefix


def refresh_state(engine: Engine, state: TableState) -> TableState:
    """Return the table's latest state, or `state` if there are no newer commits.

    Usually, only the newer commits are read. In these cases, the whole state is loaded again:

    - A catalog manages the table.
    - The last commit of `state` was replaced in the log.
    - There is a newer checkpoint.
    - A newer commit changes the protocol or the metadata.
    """
    segment = None if state.catalog is not None else _extend_segment(engine, state.log_segment)
    if segment is None:
        return load_table_state(engine, state.path, catalog=state.catalog)
    newer = segment.version - state.version
    if newer == 0:
        return state
    replay = replay_newer_commits(engine, segment, state.replay_state, newer)
    if replay is None:
        return load_table_state(engine, state.path)
    checksum = None
    if segment.checksum is not None and segment.checksum.version == segment.version:
        checksum = read_checksum(engine, segment, replay.commit_info)
    info = replay.commit_info
    return TableState(
        catalog=None,
        segment=segment,
        replay=replay,
        contents=state.checkpoint_contents,
        checksum_totals=checksum_totals(segment, checksum),
        in_commit_timestamp=None if info is None else info.integer("inCommitTimestamp"),
        protocol=state.protocol,
        metadata=state.metadata,
        schema=state.schema,
        transactions={**state.transaction_actions, **replay.transactions},
        domains={**state.domain_actions, **replay.domains},
    )


def _extend_segment(engine: Engine, segment: LogSegment) -> LogSegment | None:
    """Return `segment` with the newer commits added to it.

    The result is None if the whole state must be loaded again.
    """
    listing = LogListing(None, (), {})
    start = f"{log_path(segment.table)}/{list_prefix(segment.version)}"
    try:
        with engine.files.list_from(start) as statuses:
            for status in statuses:
                listing.add(status)
    except FileMissingError:
        return None
    commits = listing.commits
    if segment.last_commit is None or commits.get(segment.version) != segment.last_commit:
        return None
    checkpoint = listing.checkpoint()
    base = -1 if segment.checkpoint is None else segment.checkpoint.version
    if checkpoint is not None and checkpoint.version > base:
        return None
    versions = sorted(commits)
    if versions != list(range(segment.version, versions[-1] + 1)):
        return None
    if len(versions) == 1:
        return segment
    time = segment.file_time
    for version in versions[1:]:
        time = max(commits[version].modification_time, time + 1)
    return replace(
        segment,
        version=versions[-1],
        commits=(*segment.commits, *(commits[version] for version in versions[1:])),
        last_commit=commits[versions[-1]],
        file_time=time,
        checksum=listing.checksum(base) or segment.checksum,
    )
