"""Writing version checksums (PROTOCOL.md, Version Checksum File, Writer Requirements).

A checksum can be computed in three ways. The first possible way is used:

1. from the checksum of the previous version and the commit,
2. from an older checksum and the commits after it, if Bayou, delta-spark or Delta Kernel wrote
   these commits,
3. by counting the files of a short log that has no checkpoint.

If no way is possible, the version gets a checksum only when its checkpoint is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bayou.errors import CorruptTableError, FileMissingError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import Catalog
from bayou.kernel.crc.commit_effect import CommitEffect, apply_effect, first_checksum
from bayou.kernel.crc.read import describes_commit
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.log.replay import CommitActions, read_commit_info, read_commits
from bayou.kernel.log.segment import log_path
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.protocol import version_checksum
from bayou.protocol.actions import CommitInfo
from bayou.protocol.file_names import (
    ChecksumFile,
    CommitFile,
    checksum_file_name,
    commit_file_name,
    list_prefix,
    parse_log_file,
)
from bayou.protocol.version_checksum import FileSizeHistogram, VersionChecksum

_MAX_COMMITS_BACK = 10
_MAX_COMMITS_TO_COUNT = 200
_KNOWN_WRITERS = ("bayou", "Delta-Lake/", "Kernel")


def write_checksum(
    engine: Engine,
    table: str,
    version: int,
    effect: CommitEffect | None = None,
    catalog: Catalog | None = None,
) -> bool:
    """Write the checksum of a version that has none; return False if it can't be computed.

    In a catalog-managed table, an unpublished commit has no commit file in the log. If the
    derivation from another checksum needs such a commit, the files are counted instead.

    Args:
        effect: the effect of the version's commit. If None, the commit file is read.
        catalog: the catalog that manages the table; None if no catalog does.
    """
    if effect is None:
        effect = CommitEffect.of(version, _read(engine, table, [version])[0].actions)
    try:
        checksum = _derive(engine, table, version, effect)
    except (CorruptTableError, FileMissingError):
        if catalog is None:
            raise
        checksum = None
    if checksum is None:
        checksum = _from_file_count(engine, table, version, effect, catalog)
    if checksum is None:
        return False
    put_checksum(engine, table, version, checksum)
    return True


def put_checksum(engine: Engine, table: str, version: int, checksum: VersionChecksum) -> None:
    """Write a checksum file; do nothing if the version already has one."""
    engine.files.put_if_absent(_path(table, version), version_checksum.encode(checksum))


def checksum_from_state(
    state: TableState,
    num_files: int,
    size: int,
    histogram: FileSizeHistogram | None = None,
    txn_id: str | None = None,
) -> VersionChecksum:
    """Return the checksum of a version.

    Args:
        num_files: number of live files.
        size: total size of the live files in bytes.
        histogram: the live files by size; None if unknown.
        txn_id: `txnId` of the version's commit; None if unknown.
    """
    transactions = list(state.transaction_actions.values())
    domains = [d for d in state.domain_actions.values() if not d.removed]
    has_retention = state.table_properties.transaction_retention_ms is not None
    return VersionChecksum(
        txn_id=txn_id,
        table_size_bytes=size,
        num_files=num_files,
        num_metadata=1,
        num_protocol=1,
        in_commit_timestamp_opt=state.in_commit_timestamp
        if state.table_properties.in_commit_timestamps
        else None,
        set_transactions=None if has_retention else transactions,
        domain_metadata=domains,
        metadata=state.metadata,
        protocol=state.protocol,
        file_size_histogram=histogram,
    )


def _derive(
    engine: Engine, table: str, version: int, effect: CommitEffect
) -> VersionChecksum | None:
    if version == 0:
        return first_checksum(effect)
    base = _usable(engine, table, version - 1, effect.info_before)
    if base is not None:
        return apply_effect(base, effect)
    return _derive_from_older(engine, table, version, effect)


def _derive_from_older(
    engine: Engine, table: str, version: int, effect: CommitEffect
) -> VersionChecksum | None:
    """Compute a checksum from an older checksum and the commits after it; None if impossible."""
    first = max(0, version - _MAX_COMMITS_BACK)
    newest: int | None = None
    for status in engine.files.list_from(f"{log_path(table)}/{list_prefix(first)}"):
        match parse_log_file(status.path.rsplit("/", 1)[-1]):
            case ChecksumFile(version=listed) if listed < version:
                newest = listed
            case CommitFile(version=listed) if listed >= version:
                break
            case _:
                pass
    base = None if newest is None else _usable(engine, table, newest)
    if base is None or newest is None:
        return None
    for commit in _read(engine, table, range(newest + 1, version)):
        between = CommitEffect.of(commit.version, commit.actions)
        if not any(name in (between.engine_info or "") for name in _KNOWN_WRITERS):
            return None
        base = apply_effect(base, between)
        if base is None:
            return None
    return apply_effect(base, effect)


def _from_file_count(
    engine: Engine, table: str, version: int, effect: CommitEffect, catalog: Catalog | None
) -> VersionChecksum | None:
    """Compute a checksum by counting files; None if the log is long or has a checkpoint."""
    if version > _MAX_COMMITS_TO_COUNT:
        return None
    state = load_table_state(engine, table, version, catalog=catalog)
    if state.log_segment.checkpoint is not None:
        return None
    sizes = pa.concat_arrays([pc.struct_field(adds, "size") for adds in state.tail])
    histogram = FileSizeHistogram.empty().updated(sizes.to_pylist(), ())
    total = pc.sum(sizes).as_py() or 0
    return checksum_from_state(state, len(sizes), total, histogram, effect.txn_id)


def _usable(
    engine: Engine, table: str, version: int, commit: CommitInfo | None = None
) -> VersionChecksum | None:
    """Return a version's checksum; None if it is missing, incomplete, or of a different commit.

    Args:
        commit: `commitInfo` of the version's commit. Its `txnId` is compared with the checksum's
            `txnId`. If None, the commit is read.
    """
    try:
        data = next(iter(engine.files.read_files([ByteRange(path=_path(table, version))])))
    except FileMissingError:
        return None
    checksum = version_checksum.parse(bytes(data))
    if checksum is None or checksum.metadata is None or checksum.protocol is None:
        return None
    if checksum.txn_id is not None and commit is None:
        commit = read_commit_info(engine, table, version, _commit_file(table, version))
    return checksum if describes_commit(checksum, commit) else None


def _read(engine: Engine, table: str, versions: Sequence[int]) -> list[CommitActions]:
    return list(read_commits(engine, table, [(v, _commit_file(table, v)) for v in versions]))


def _commit_file(table: str, version: int) -> FileStatus:
    path = f"{log_path(table)}/{commit_file_name(version)}"
    return FileStatus(path=path, size=0, modification_time=0)


def _path(table: str, version: int) -> str:
    return f"{log_path(table)}/{checksum_file_name(version)}"
