"""Reads the query id and the offsets of a micro-batch from the checkpoint of a streaming query.

The checkpoint is read with the storage options of the sink.

The sink skips a batch that the table already has. A batch that Spark repeats has the same offsets
as before, because Spark writes the offsets to the checkpoint before the batch starts. If an older
copy of the checkpoint is restored, Spark plans new batches with the same numbers. These batches can
have other offsets and rows, which must not be skipped. Therefore the sink compares the offsets of a
batch with the offsets of the committed batch that has the same number.
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
"""Name of a tag in `commitInfo`. Its value is a hash of the batch's offsets (`offsets_digest`)."""

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
    """Return a hash of a micro-batch's offsets; None if the checkpoint has no readable offsets."""
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
    """Check that a batch is the same as the committed batch with the same number (batch id).

    The batches are the same if the hashes of their offsets (`offsets_digest`) are the same. The
    check also passes if one of the two hashes is unknown, or if the table has no batch of the
    query. The sink skips a batch that passes the check.

    Args:
        path: the table's path.
        query: the query id.
        offsets: the hash of the batch's offsets; None if the hash is unknown.

    Raises:
        ArgumentError: the batch has other offsets than the committed batch, or the table already
            has a later batch. In both cases the checkpoint is older than the table.
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
    """Return the hash of a batch's offsets (`offsets_digest`) from the commit of the batch.

    Returns None if the commit has no hash, or isn't one of the latest `_MAX_COMMITS_SEARCHED`
    commits.
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
