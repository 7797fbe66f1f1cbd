"""Table state: protocol, metadata, transactions and log files of one version of a table.

`Snapshot` extends `TableState` with the public methods. Other modules of the kernel take a
`TableState`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa

from bayou.errors import (
    CorruptSchemaError,
    CorruptTableError,
    TableError,
)
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.read import CheckpointContents, read_checkpoint
from bayou.kernel.checkpoint.stats import CheckpointStatisticsCache
from bayou.kernel.crc.read import FileTotals, checksum_totals, usable_checksum
from bayou.kernel.elapsed_time import ElapsedTime
from bayou.kernel.engine import Engine
from bayou.kernel.log.action_reconciliation import NewestActions
from bayou.kernel.log.listing import Checkpoint
from bayou.kernel.log.replay import (
    ReplayState,
    read_commit_files,
    read_commit_info,
    replay_commits,
)
from bayou.kernel.log.segment import LogSegment, load_log_segment
from bayou.kernel.scan.scan_file import adds_to_array
from bayou.kernel.table_features.column_mapping import (
    ColumnMappingMode,
    column_mapping_mode,
)
from bayou.kernel.table_features.reader_support import check_readable, table_schema
from bayou.protocol import features
from bayou.protocol.actions import (
    Action,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
    decode_actions,
)
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN, clustering_columns
from bayou.protocol.properties import IN_COMMIT_TIMESTAMPS, TableProperties
from bayou.protocol.schema import StructType
from bayou.protocol.version_checksum import VersionChecksum


class TableState:
    """State of one version of a table. Immutable and thread-safe; holds no engine.

    Loading a state replays the commits after the checkpoint. The checkpoint's list of files is read
    later, by a scan.
    """

    def __init__(
        self,
        *,
        segment: LogSegment,
        replay: ReplayState,
        contents: CheckpointContents | None,
        checksum_totals: FileTotals | None,
        catalog: Catalog | None,
        in_commit_timestamp: int | None,
        protocol: Protocol,
        metadata: Metadata,
        schema: StructType,
        transactions: Mapping[str, Transaction],
        domains: Mapping[str, DomainMetadata],
        statistics_cache: CheckpointStatisticsCache | None = None,
    ) -> None:
        self._segment = segment
        self._replay = replay
        self._contents = contents
        self._checksum_totals = checksum_totals
        self._catalog = catalog
        self._in_commit_timestamp = in_commit_timestamp
        self._protocol = protocol
        self._metadata = metadata
        self._schema = schema
        self._transactions = transactions
        self._domains = domains
        self._statistics_cache = statistics_cache
        self._age = ElapsedTime()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, version={self.version})"

    @property
    def path(self) -> str:
        """The table's fully qualified path."""
        return self._segment.table

    @property
    def version(self) -> int:
        """Version of the table."""
        return self._segment.version

    @property
    def age_seconds(self) -> float:
        """Seconds since this state was loaded."""
        return self._age.seconds

    @property
    def table_id(self) -> str:
        """`metaData.id`. A table that was deleted and created again has a different id."""
        return self._metadata.id

    @property
    def protocol(self) -> Protocol:
        """The `protocol` action."""
        return self._protocol

    @property
    def metadata(self) -> Metadata:
        """The `metaData` action."""
        return self._metadata

    @property
    def schema(self) -> StructType:
        """All columns in the table's order, including partition columns."""
        return self._schema

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """`schema` as an Arrow schema."""
        return to_arrow_schema(self._schema)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in the order of the directories."""
        return tuple(self._metadata.partition_columns)

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties as written in the log (PROTOCOL.md, Table Properties)."""
        return MappingProxyType(self._metadata.configuration)

    @cached_property
    def table_properties(self) -> TableProperties:
        """Parsed table properties with their defaults."""
        return TableProperties(self._metadata.configuration)

    @cached_property
    def column_mapping(self) -> ColumnMappingMode:
        """The column mapping mode (PROTOCOL.md, Column Mapping)."""
        return column_mapping_mode(self._metadata.configuration)

    @property
    def transactions(self) -> Mapping[str, int]:
        """Latest transaction version by application id (PROTOCOL.md, Transaction Identifiers).

        Negative versions are omitted. CLONE writes version -1 to remove an application's version.
        """
        transactions = self._transactions.items()
        return {app_id: txn.version for app_id, txn in transactions if txn.version >= 0}

    def transaction_version(self, app_id: str) -> int | None:
        """Return the latest transaction version of an application; None if it isn't in the log."""
        transaction = self._transactions.get(app_id)
        return None if transaction is None or transaction.version < 0 else transaction.version

    @property
    def domain_metadata(self) -> Mapping[str, str]:
        """Configuration by domain (PROTOCOL.md, Domain Metadata), without removed domains."""
        return {d.domain: d.configuration for d in self._domains.values() if not d.removed}

    @property
    def clustering_columns(self) -> tuple[tuple[str, ...], ...]:
        """Logical paths of the clustering columns; empty if the table isn't clustered."""
        configuration = self.domain_metadata.get(CLUSTERING_DOMAIN)
        if configuration is None:
            return ()
        try:
            return clustering_columns(self.schema, configuration)
        except ValueError as error:
            raise CorruptTableError(
                f"{self.path}: the domain {CLUSTERING_DOMAIN!r} is invalid: {error}. Set the "
                "clustering columns again with ALTER TABLE ... CLUSTER BY.",
                table=self.path,
            ) from error

    @property
    def log_segment(self) -> LogSegment:
        """The log files of this version."""
        return self._segment

    @property
    def replay_state(self) -> ReplayState:
        """Result of the replay of the commits after the checkpoint."""
        return self._replay

    @property
    def transaction_actions(self) -> Mapping[str, Transaction]:
        """Newest `txn` action by application id."""
        return self._transactions

    @property
    def domain_actions(self) -> Mapping[str, DomainMetadata]:
        """Newest `domainMetadata` action by domain, including removed domains."""
        return self._domains

    @property
    def checkpoint_contents(self) -> CheckpointContents | None:
        """Contents of the checkpoint that this version was loaded from.

        None if there is no checkpoint, or if the version checksum was read instead of the
        checkpoint.
        """
        return self._contents

    @property
    def checksum_totals(self) -> FileTotals | None:
        """Number and total size of the live files, from the version checksum.

        None if no usable checksum of this version was read.
        """
        return self._checksum_totals

    @property
    def in_commit_timestamp(self) -> int | None:
        """In-commit timestamp of the version, ms since the epoch; None if the version has none."""
        return self._in_commit_timestamp

    @property
    def statistics_cache(self) -> CheckpointStatisticsCache | None:
        """The cache of parsed statistics for scans of this version; None if there is no cache."""
        return self._statistics_cache

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that manages the table; None if no catalog manages the table."""
        return self._catalog

    @cached_property
    def tail(self) -> tuple[pa.StructArray, ...]:
        """Live files that the checkpoint's Parquet files don't list, as arrays of `ADD_TYPE`.

        These are the files of a JSON checkpoint, followed by the files that later commits added.
        """
        commit_adds = self._replay.adds
        if self._contents is None or not self._contents.adds:
            return commit_adds
        adds = adds_to_array(self._contents.adds)
        unseen = self._replay.seen_keys.unseen_mask(adds)
        return (adds if unseen is None else adds.filter(unseen), *commit_adds)

    @property
    def checkpoint_bytes(self) -> int:
        """Size in bytes of the checkpoint that this version was loaded from; 0 if there is none."""
        if self._contents is not None:
            return self._contents.size
        return 0 if self._segment.checkpoint is None else self._segment.checkpoint.size

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of this state in bytes, without the memory of scans."""
        replay = self._replay
        seen_keys = replay.seen_keys
        columns = (
            *(*replay.adds, *replay.removes),
            *(seen_keys.paths, seen_keys.keys, replay.exact_double_files),
        )
        adds = () if self._contents is None else self._contents.adds
        actions = len(self._transactions) + len(self._domains) + len(adds)
        return (
            sum(column.nbytes for column in columns)
            + _ACTION_BYTES * (actions + len(self._segment.commits))
            + len(self._metadata.schema_string)
        )


_ACTION_BYTES = 500
"""Approximate memory of an action or a file status as a Python object, in bytes."""


def load_table_state(
    engine: Engine,
    table: str,
    version: int | None = None,
    *,
    ignored_checkpoints: Collection[str] = (),
    catalog: Catalog | None = None,
) -> TableState:
    """Load the state of a version, by default the latest.

    If a checkpoint can't be read, the state is loaded from older log files: an older checkpoint and
    commits, or only commits.

    Args:
        ignored_checkpoints: paths of checkpoint files that can't be read.
        catalog: the catalog that manages the table.

    Raises:
        TableNotFoundError, VersionNotFoundError, CorruptTableError: see `load_log_segment`.
        UnsupportedFeatureError: the protocol requires an unsupported reader feature.
    """
    excluded = set(ignored_checkpoints)
    unreadable: CorruptTableError | None = None
    while True:
        try:
            segment = load_log_segment(
                engine, table, version, ignored_checkpoints=excluded, catalog=catalog
            )
        except TableError as error:
            if unreadable is None:
                raise
            raise unreadable from error
        try:
            return _load(engine, segment, catalog)
        except _UnreadableCheckpointError as error:
            unreadable = unreadable or error.cause
            excluded.update(error.paths)


class _UnreadableCheckpointError(Exception):
    """A checkpoint can't be read. `load_table_state` tries older log files."""

    def __init__(self, cause: CorruptTableError, paths: Collection[str]) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.paths = paths


def _load(engine: Engine, segment: LogSegment, catalog: Catalog | None) -> TableState:
    replay = replay_commits(engine, segment)
    newest = NewestActions(
        protocol=replay.protocol,
        metadata=replay.metadata,
        transactions=dict(replay.transactions),
        domains=dict(replay.domains),
    )
    contents: CheckpointContents | None = None
    checksum: VersionChecksum | None = None
    timestamp: int | None = None
    if segment.checkpoint is not None:
        checksum = usable_checksum(engine, segment, replay)
        actions, contents = _checkpoint_actions(engine, segment, segment.checkpoint, checksum)
        if checksum and segment.checksum and segment.checksum.version == segment.version:
            timestamp = checksum.in_commit_timestamp_opt
        for action in actions:
            newest.add(action)
    table, protocol, metadata = segment.table, newest.protocol, newest.metadata
    if protocol is None or metadata is None:
        missing = "protocol" if protocol is None else "metaData"
        raise CorruptTableError(
            f"{table}: version {segment.version} has no {missing} action, so the log is "
            "incomplete. Restore the missing log files.",
            table=table,
        )
    try:
        schema = table_schema(table, metadata)
    except CorruptSchemaError as error:
        raise _with_location(engine, segment, metadata, error) from error
    check_readable(table, protocol, metadata, schema, managed=catalog is not None)
    return TableState(
        catalog=catalog,
        segment=segment,
        replay=replay,
        contents=contents,
        checksum_totals=checksum_totals(segment, checksum),
        in_commit_timestamp=_in_commit_timestamp(engine, segment, replay, metadata, timestamp),
        protocol=protocol,
        metadata=metadata,
        schema=schema,
        transactions=newest.transactions,
        domains=newest.domains,
    )


def _with_location(
    engine: Engine, segment: LogSegment, metadata: Metadata, error: CorruptSchemaError
) -> CorruptSchemaError:
    """Return `error` with the path of the log file that contains the `metaData` action.

    If the log file is a commit, the error also has the line number.
    """
    first = segment.version - len(segment.commits) + 1
    for version, file in reversed(list(enumerate(segment.commits, first))):
        for _, _, data in read_commit_files(engine, segment.table, [(version, file)]):
            for number, line in enumerate(data.split(b"\n"), 1):
                if b"metaData" in line and metadata in decode_actions(line):
                    return CorruptSchemaError(
                        f"{error.message} (Line {number} of {file.path}.)",
                        table=segment.table,
                        file=file.path,
                    )
    if segment.checkpoint is None:
        return error
    path = segment.checkpoint.files[0].path
    return CorruptSchemaError(
        f"{error.message} (Checkpoint {path}.)", table=segment.table, file=path
    )


def _checkpoint_actions(
    engine: Engine, segment: LogSegment, checkpoint: Checkpoint, checksum: VersionChecksum | None
) -> tuple[Sequence[Action], CheckpointContents | None]:
    """Return the non-file actions of a checkpoint, and the checkpoint's contents if it was read.

    Args:
        checksum: version checksum that contains the actions. If None, the actions are read from
            the checkpoint.

    Returns:
        The actions and the contents. The contents are None if the checkpoint wasn't read.
    """
    actions: list[Action] = []
    if checksum is not None:
        assert checksum.protocol is not None  # usable checksums have protocol and metadata
        assert checksum.metadata is not None
        actions = [
            checksum.protocol,
            checksum.metadata,
            *(checksum.set_transactions or ()),
            *(checksum.domain_metadata or ()),
        ]
        reader_features = checksum.protocol.reader_features or ()
        if not checkpoint.uuid_named and features.V2_CHECKPOINT not in reader_features:
            return actions, None
    try:
        contents = read_checkpoint(engine, segment.table, checkpoint)
    except CorruptTableError as error:
        raise _UnreadableCheckpointError(error, [f.path for f in checkpoint.files]) from error
    return actions or contents.actions, contents


def _in_commit_timestamp(
    engine: Engine,
    segment: LogSegment,
    replay: ReplayState,
    metadata: Metadata,
    in_checksum: int | None,
) -> int | None:
    """Return the in-commit timestamp of a version; None if the version has none.

    Usually, the timestamp is in the `commitInfo` that replay has read. If the table has a
    checkpoint of this version, no commit is replayed. In this case, the result is the timestamp in
    the version checksum, `in_checksum`. If the checksum has no timestamp, the commit is read.
    """
    info = replay.commit_info
    if info is None and not segment.commits:
        enabled = metadata.configuration.get(IN_COMMIT_TIMESTAMPS.key, "").lower() == "true"
        if in_checksum is not None or not enabled or segment.last_commit is None:
            return in_checksum
        info = read_commit_info(engine, segment.table, segment.version, segment.last_commit)
    return None if info is None else info.integer("inCommitTimestamp")
