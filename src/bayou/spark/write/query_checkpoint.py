"""Reads the checkpoint of a streaming query for the sink: the query's id, and a batch's offsets.

The checkpoint is read with the storage options of the sink.

If Spark repeats a batch, the batch has the same offsets as before, because Spark logs them before
the batch starts. After a restore of an older copy of the checkpoint, Spark plans new batches with
numbers that the table already has, but possibly with other offsets and rows. If the sink skipped
these batches, rows would be lost. Therefore the sink compares the offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from bayou.engines import for_path
from bayou.errors import ArgumentError, FileMissingError, StorageError
from bayou.kernel import Engine, Table
from bayou.kernel.engine import ByteRange

OFFSETS_TAG = "bayou.streaming.offsets"
"""Tag in `commitInfo` with the `offsets_digest` of a micro-batch."""

_MAX_COMMITS_SEARCHED = 256


class _CheckpointMetadata(msgspec.Struct, frozen=True):
    id: str


def query_id(checkpoint_location: str, storage: Mapping[str, str]) -> str:
    """Read the id of a streaming query from the query's checkpoint."""
    path = _path(checkpoint_location, "metadata")
    try:
        return msgspec.json.decode(_read(path, storage), type=_CheckpointMetadata).id
    except (FileMissingError, StorageError, msgspec.DecodeError) as error:
        raise ArgumentError(
            f"{path}: the id of the streaming query can't be read: {error} Use a checkpoint in a "
            "local folder or an object store.",
            argument="checkpointLocation",
        ) from error


def offsets_digest(
    checkpoint_location: str, batch_id: int, storage: Mapping[str, str]
) -> str | None:
    """Return a hash of a micro-batch's offsets in the checkpoint; None if they can't be read."""
    try:
        data = _read(_path(checkpoint_location, f"offsets/{batch_id}"), storage)
    except StorageError:
        return None
    return blake2b(data, digest_size=16).hexdigest()


def check_repeated_batch(
    engine: Engine,
    path: str,
    *,
    checkpoint_location: str,
    query: str,
    batch_id: int,
    offsets: str | None,
) -> None:
    """Check that a batch has the same offsets as the committed batch with the same number.

    The sink can skip a batch that passes the check. The check also passes if the digest of one of
    the two batches is unknown.

    Args:
        offsets: the `offsets_digest` of the batch.

    Raises:
        ArgumentError: the offsets differ, because the checkpoint is older than the table. Rows
            would be lost if the sink skipped the batch.
    """
    table = Table.for_path(engine, path)
    recorded = table.latest_snapshot(engine).transaction_version(query)
    if recorded is None:
        return
    if recorded == batch_id:
        committed = None if offsets is None else _committed_offsets(engine, table, query, batch_id)
        if committed in (None, offsets):
            return
    raise ArgumentError(
        f"{checkpoint_location}: the checkpoint is older than {table.path}. The table already has "
        f"batch {recorded} of this query, but with this checkpoint Spark runs batch {batch_id} "
        "again. The batch wasn't written. Restore the latest checkpoint. Or use a new "
        "checkpointLocation, and start the source after the rows that the table already has.",
        argument="checkpointLocation",
    )


def _committed_offsets(engine: Engine, table: Table, query: str, batch_id: int) -> str | None:
    """Return the `offsets_digest` of a committed batch.

    Returns None if the batch isn't in the latest `_MAX_COMMITS_SEARCHED` commits, or if its commit
    has no digest.
    """
    for commit in table.history(engine, _MAX_COMMITS_SEARCHED):
        parameters, tags = commit.get("operationParameters"), commit.get("tags")
        if not isinstance(parameters, dict) or not isinstance(tags, dict):
            continue
        if (parameters.get("queryId"), parameters.get("epochId")) == (query, str(batch_id)):
            digest = tags.get(OFFSETS_TAG)
            return digest if isinstance(digest, str) else None
    return None


def _path(checkpoint_location: str, name: str) -> str:
    return f"{checkpoint_location.rstrip('/')}/{name}"


def _read(path: str, storage: Mapping[str, str]) -> bytes:
    engine = for_path(path, storage)
    resolved = engine.files.resolve_path(path)
    return b"".join(engine.files.read_files([ByteRange(path=resolved)]))
