"""What the log says of one version: protocol, metadata, transactions, and where its files are.

`Snapshot` is this with the methods of the façade; everything below the façade takes a `TableState`.
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
from bayou.kernel.checkpoint.contents import CheckpointContents, read_checkpoint
from bayou.kernel.checkpoint.stats import KnownStatistics
from bayou.kernel.crc.read import FileTotals, stated_totals, usable_checksum
from bayou.kernel.elapsed_time import Age
from bayou.kernel.engine import Engine
from bayou.kernel.log.listing import Checkpoint
from bayou.kernel.log.replay import ReplayState, read_commit_files, replay_commits
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
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
    decode_actions,
)
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN, clustering_columns
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import StructType
from bayou.protocol.version_checksum import VersionChecksum

__all__ = ["TableState", "load_table_state"]


class TableState:
    """One version of a table, immutable, safe in threads; holds no engine.

    The commits behind the checkpoint are replayed on opening, the checkpoint's files are not read
    before a scan asks for them.
    """

    def __init__(
        self,
        *,
        segment: LogSegment,
        replay: ReplayState,
        contents: CheckpointContents | None,
        stated_totals: FileTotals | None,
        catalog: Catalog | None,
        in_commit_timestamp: int | None,
        protocol: Protocol,
        metadata: Metadata,
        schema: StructType,
        transactions: Mapping[str, Transaction],
        domains: Mapping[str, DomainMetadata],
        known_statistics: KnownStatistics | None = None,
    ) -> None:
        self._segment = segment
        self._replay = replay
        self._contents = contents
        self._stated_totals = stated_totals
        self._catalog = catalog
        self._in_commit_timestamp = in_commit_timestamp
        self._protocol = protocol
        self._metadata = metadata
        self._schema = schema
        self._transactions = transactions
        self._domains = domains
        self._known_statistics = known_statistics
        self._age = Age()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, version={self.version})"

    @property
    def path(self) -> str:
        """The table's fully qualified path."""
        return self._segment.table

    @property
    def version(self) -> int:
        """The version."""
        return self._segment.version

    @property
    def age_seconds(self) -> float:
        """Since it was read."""
        return self._age.seconds

    @property
    def table_id(self) -> str:
        """`metaData.id`: tells a table from one that was put in its place."""
        return self._metadata.id

    @property
    def protocol(self) -> Protocol:
        """The protocol action."""
        return self._protocol

    @property
    def metadata(self) -> Metadata:
        """The metaData action."""
        return self._metadata

    @property
    def schema(self) -> StructType:
        """All columns, partition columns included, in the table's order."""
        return self._schema

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """`schema` in Arrow's types."""
        return to_arrow_schema(self._schema)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in the order of the directories."""
        return tuple(self._metadata.partition_columns)

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties as they stand in the log (PROTOCOL.md, Table Properties)."""
        return MappingProxyType(self._metadata.configuration)

    @cached_property
    def table_properties(self) -> TableProperties:
        """Table properties parsed, with their defaults."""
        return TableProperties(self._metadata.configuration)

    @cached_property
    def column_mapping(self) -> ColumnMappingMode:
        """How data files and the log name the columns (PROTOCOL.md, Column Mapping)."""
        return column_mapping_mode(self._metadata.configuration)

    @property
    def transactions(self) -> Mapping[str, int]:
        """Latest version by application id (PROTOCOL.md, Transaction Identifiers)."""
        return {app_id: txn.version for app_id, txn in self._transactions.items()}

    def transaction_version(self, app_id: str) -> int | None:
        """Latest version that an application committed, None for none."""
        found = self._transactions.get(app_id)
        return None if found is None else found.version

    @property
    def domain_metadata(self) -> Mapping[str, str]:
        """Configuration by domain (PROTOCOL.md, Domain Metadata), removed domains left out."""
        return {d.domain: d.configuration for d in self._domains.values() if not d.removed}

    @property
    def clustering_columns(self) -> tuple[tuple[str, ...], ...]:
        """Logical paths of the clustering columns; empty where the table isn't clustered.

        Raises:
            CorruptTableError: the domain `delta.clustering` can't be read.
        """
        configuration = self.domain_metadata.get(CLUSTERING_DOMAIN)
        if configuration is None:
            return ()
        try:
            return clustering_columns(self.schema, configuration)
        except ValueError as error:
            raise CorruptTableError(
                f"The clustering of {self.path} can't be read: {error}.", table=self.path
            ) from error

    @property
    def log_segment(self) -> LogSegment:
        """The log files behind this version."""
        return self._segment

    @property
    def replay_state(self) -> ReplayState:
        """What the commits behind the checkpoint say."""
        return self._replay

    @property
    def transaction_actions(self) -> Mapping[str, Transaction]:
        """`transactions` as actions."""
        return self._transactions

    @property
    def domain_actions(self) -> Mapping[str, DomainMetadata]:
        """Domains as actions, removed ones included."""
        return self._domains

    @property
    def checkpoint_contents(self) -> CheckpointContents | None:
        """The checkpoint's top level; None without one, and where a checksum saved reading it."""
        return self._contents

    @property
    def stated_totals(self) -> FileTotals | None:
        """What the version's checksum says of its files; None where it didn't have to be read."""
        return self._stated_totals

    @property
    def in_commit_timestamp(self) -> int | None:
        """Ms since the epoch, as the version's commit says; None where it doesn't."""
        return self._in_commit_timestamp

    @property
    def known_statistics(self) -> KnownStatistics | None:
        """Where scans keep statistics for later ones; None for nowhere."""
        return self._known_statistics

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that was asked for the table's commits."""
        return self._catalog

    @cached_property
    def tail(self) -> tuple[pa.StructArray, ...]:
        """Live files outside of the checkpoint's Parquet files, `ADD_TYPE`.

        Those that the commits behind it added, and before them those of a JSON checkpoint.
        """
        added = self._replay.adds
        if self._contents is None or not self._contents.adds:
            return added
        own = adds_to_array(self._contents.adds)
        untouched = self._replay.touched.untouched(own)
        return (own if untouched is None else own.filter(untouched), *added)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the checkpoint behind this version, 0 without one."""
        if self._contents is not None:
            return self._contents.size
        return 0 if self._segment.checkpoint is None else self._segment.checkpoint.size

    @property
    def memory_bytes(self) -> int:
        """About what this takes in memory; what a scan will read isn't part of it."""
        replay = self._replay
        columns = (*replay.adds, replay.touched.paths, replay.touched.keys, replay.double_files)
        own = () if self._contents is None else self._contents.adds
        actions = len(replay.removes) + len(self._transactions) + len(self._domains) + len(own)
        return (
            sum(column.nbytes for column in columns)
            + _ACTION_BYTES * (actions + len(self._segment.commits))
            + len(self._metadata.schema_string)
        )


_ACTION_BYTES = 500
"""About what an action or a file's status takes as a Python object."""


def load_table_state(
    engine: Engine,
    table: str,
    version: int | None = None,
    *,
    without: Collection[str] = (),
    catalog: Catalog | None = None,
) -> TableState:
    """Open a version, the latest where it is None.

    A checkpoint that can't be read is done without, where older files of the log make up the same
    version.

    Args:
        without: paths of checkpoint files that can't be read.
        catalog: the one that manages the table, None for a table without.

    Raises:
        TableNotFoundError, VersionNotFoundError, CorruptTableError: see `load_log_segment`.
        UnsupportedFeatureError: the protocol asks a reader for what isn't supported.
    """
    avoided = set(without)
    unreadable: CorruptTableError | None = None
    while True:
        try:
            segment = load_log_segment(engine, table, version, without=avoided, catalog=catalog)
        except TableError as error:
            if unreadable is None:
                raise
            raise unreadable from error
        try:
            return _load(engine, segment, catalog)
        except _UnreadableCheckpointError as error:
            unreadable = unreadable or error.cause
            avoided.update(error.paths)


class _UnreadableCheckpointError(Exception):
    """A checkpoint that can't be read; there may be another way to the version."""

    def __init__(self, cause: CorruptTableError, paths: Collection[str]) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.paths = paths


def _load(engine: Engine, segment: LogSegment, catalog: Catalog | None) -> TableState:
    replay = replay_commits(engine, segment)
    protocol, metadata = replay.protocol, replay.metadata
    transactions = dict(replay.transactions)
    domains = dict(replay.domains)
    contents: CheckpointContents | None = None
    checksum: VersionChecksum | None = None
    stamp: int | None = None
    if segment.checkpoint is not None:
        checksum = usable_checksum(engine, segment, replay)
        older, contents = _before_commits(engine, segment, segment.checkpoint, checksum)
        if checksum and segment.checksum and segment.checksum.version == segment.version:
            stamp = checksum.in_commit_timestamp_opt
        for action in older:
            match action:
                case Protocol():
                    protocol = protocol or action
                case Metadata():
                    metadata = metadata or action
                case Transaction():
                    transactions.setdefault(action.app_id, action)
                case DomainMetadata():
                    domains.setdefault(action.domain, action)
                case _:
                    pass
    table = segment.table
    if protocol is None or metadata is None:
        what = "protocol" if protocol is None else "metaData"
        raise CorruptTableError(
            f"Version {segment.version} of {table} has no {what} action, which every table must "
            "have; its log is incomplete.",
            table=table,
        )
    try:
        schema = table_schema(table, metadata)
    except CorruptSchemaError as error:
        raise _located(engine, segment, metadata, error) from error
    check_readable(table, protocol, metadata, schema, managed=catalog is not None)
    return TableState(
        catalog=catalog,
        segment=segment,
        replay=replay,
        contents=contents,
        stated_totals=stated_totals(segment, checksum),
        in_commit_timestamp=stamp if replay.commit_info is None else _stamp(replay.commit_info),
        protocol=protocol,
        metadata=metadata,
        schema=schema,
        transactions=transactions,
        domains=domains,
    )


def _located(
    engine: Engine, segment: LogSegment, metadata: Metadata, error: CorruptSchemaError
) -> CorruptSchemaError:
    """The error with the file that holds the metadata, and the line where it is a commit."""
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


def _before_commits(
    engine: Engine, segment: LogSegment, checkpoint: Checkpoint, known: VersionChecksum | None
) -> tuple[Sequence[Action], CheckpointContents | None]:
    """What held before the segment's commits, out of a version checksum or the checkpoint.

    Args:
        known: a usable checksum.

    Returns:
        Actions; the checkpoint's top level, None where it wasn't read.
    """
    actions: list[Action] = []
    if known is not None:
        assert known.protocol is not None  # that of a usable one
        assert known.metadata is not None
        actions = [
            known.protocol,
            known.metadata,
            *(known.set_transactions or ()),
            *(known.domain_metadata or ()),
        ]
        features_named = known.protocol.reader_features or ()
        if not checkpoint.uuid_named and features.V2_CHECKPOINT not in features_named:
            return actions, None
    try:
        contents = read_checkpoint(engine, segment.table, checkpoint)
    except CorruptTableError as error:
        raise _UnreadableCheckpointError(error, [f.path for f in checkpoint.files]) from error
    return actions or contents.actions, contents


def _stamp(info: CommitInfo) -> int | None:
    return info.integer("inCommitTimestamp")
