"""Classes for commit properties, writer properties, transactions and table features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from bayou.api.argument_checks import (
    checked_commit_metadata,
    checked_number,
    checked_string,
    checked_version,
)
from bayou.errors import ArgumentError, ArgumentTypeError
from bayou.kernel.engine import CommitSettings, Engine

Properties = TypeVar("Properties")

_CODECS = {
    "UNCOMPRESSED": "none",
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "LZ4": "lz4_raw",
    "LZ4_RAW": "lz4_raw",
    "ZSTD": "zstd",
}


class TableFeatures(Enum):
    """Table features. The values are the names in PROTOCOL.md."""

    ColumnMapping = "columnMapping"
    DeletionVectors = "deletionVectors"
    TimestampWithoutTimezone = "timestampNtz"
    V2Checkpoint = "v2Checkpoint"
    AppendOnly = "appendOnly"
    Invariants = "invariants"
    CheckConstraints = "checkConstraints"
    ChangeDataFeed = "changeDataFeed"
    GeneratedColumns = "generatedColumns"
    IdentityColumns = "identityColumns"
    RowTracking = "rowTracking"
    DomainMetadata = "domainMetadata"
    IcebergCompatV1 = "icebergCompatV1"
    VariantType = "variantType"
    VariantTypePreview = "variantType-preview"


@dataclass
class Transaction:
    """A transaction identifier. `last_updated` is ignored, because the commit sets the time."""

    app_id: str
    version: int
    last_updated: int | None = None


@dataclass
class CommitProperties:
    """Settings of a commit: `commitInfo` entries, maximum retries, transaction identifiers."""

    custom_metadata: dict[str, Any] | None = None
    max_commit_retries: int | None = None
    app_transactions: list[Transaction] | None = None


@dataclass
class PostCommitHookProperties:
    """What happens after a commit.

    Attributes:
        create_checkpoint: whether to write a checkpoint at the table's checkpoint interval.
        cleanup_expired_logs: True deletes expired log files after the operation, False never. If
            None, they are deleted when a checkpoint is written, unless
            `delta.enableExpiredLogCleanup` is false.
    """

    create_checkpoint: bool = True
    cleanup_expired_logs: bool | None = None


@dataclass
class BloomFilterProperties:
    """Bloom filters of a column. Bayou ignores these properties."""

    set_bloom_filter_enabled: bool | None
    fpp: float | None = None
    ndv: int | None = None


@dataclass
class ColumnProperties:
    """Encoding and statistics of a column. Bayou ignores these properties."""

    dictionary_enabled: bool | None = None
    statistics_enabled: str | None = None
    bloom_filter_properties: BloomFilterProperties | None = None
    encoding: str | None = None


@dataclass
class WriterProperties:
    """Properties of Parquet files. Only `compression` has an effect."""

    data_page_size_limit: int | None = None
    dictionary_page_size_limit: int | None = None
    data_page_row_count_limit: int | None = None
    write_batch_size: int | None = None
    max_row_group_size: int | None = None
    compression: str | None = None
    compression_level: int | None = None
    statistics_truncate_length: int | None = None
    default_column_properties: ColumnProperties | None = None
    column_properties: Mapping[str, ColumnProperties] | None = None

    def __post_init__(self) -> None:
        if self.compression is not None and str(self.compression).upper() not in _CODECS:
            raise ArgumentError(
                f"compression: {self.compression!r} isn't a codec. Use one of "
                f"{', '.join(_CODECS)}.",
                argument="compression",
            )
        if self.compression is None and self.compression_level is not None:
            raise ArgumentError(
                "compression_level: no compression is set. Set compression, too.",
                argument="compression_level",
            )


class EngineWithSettings:
    """An engine with its own `CommitSettings`; everything else comes from the wrapped engine."""

    def __init__(self, engine: Engine, settings: CommitSettings) -> None:
        self._engine = engine
        self.commit_settings = settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def with_properties(
    engine: Engine,
    commit: CommitProperties | None,
    hooks: PostCommitHookProperties | None,
    writer: WriterProperties | None = None,
    *,
    operation: str | None = None,
) -> Engine:
    """Return an engine that applies commit, hook and writer properties to one operation.

    Args:
        operation: name of an operation that can make several commits; None for all other
            operations.

    Raises:
        ArgumentError: `operation` is set, and `commit` contains transaction identifiers. They can't
            be recorded in several commits.
    """
    commit = _checked(commit, CommitProperties(), "commit_properties")
    hooks = _checked(hooks, PostCommitHookProperties(), "post_commithook_properties")
    writer = _checked(writer, WriterProperties(), "writer_properties")
    if commit.app_transactions and operation is not None:
        raise ArgumentError(
            f"app_transactions: {operation} can't record transactions, because it can make "
            "several commits. Remove app_transactions.",
            argument="app_transactions",
        )
    skipped = {
        "checkpoint": not hooks.create_checkpoint,
        "log_cleanup": not hooks.create_checkpoint or hooks.cleanup_expired_logs is False,
    }
    settings = CommitSettings(
        user_metadata=checked_commit_metadata(commit.custom_metadata),
        transaction_ids={
            checked_string(t.app_id, "app_id"): checked_version(t.version, "version")
            for t in commit.app_transactions or ()
        },
        max_retries=checked_number(
            commit.max_commit_retries, "max_commit_retries", "a number of retries"
        ),
        compression=None if writer.compression is None else _CODECS[writer.compression.upper()],
        skipped_hooks=frozenset(name for name, is_skipped in skipped.items() if is_skipped),
    )
    return cast("Engine", EngineWithSettings(engine, settings))


def _checked(value: Properties | None, default: Properties, argument: str) -> Properties:
    if value is None:
        return default
    if not isinstance(value, type(default)):
        raise ArgumentTypeError(
            f"{argument}: the value is a {type(value).__name__}. Give a {type(default).__name__} "
            "of bayou.deltalake.",
            argument=argument,
        )
    return value
