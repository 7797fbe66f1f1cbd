"""The definition of a scan: table version, filter, columns and options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.add_files import StatsForm, stats_forms
from bayou.kernel.checkpoint.read import CheckpointContents
from bayou.kernel.checkpoint.stats import CheckpointStatisticsCache
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.log.listing import Checkpoint
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_features.column_mapping import ColumnMappingMode
from bayou.protocol import features
from bayou.protocol.property_strings import PropertyValueError
from bayou.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """The part of a table version's state that a scan needs.

    Attributes:
        columns: names of the optional fields of `add` that the scan reads, without `stats`.
        seen_keys: log-replay keys (path and deletion vector id) of the files that the commits after
            the checkpoint added or removed.
        tail: live files that aren't in the checkpoint's Parquet files. These are the files that
            commits after the checkpoint added, and the files of a JSON checkpoint. None if this
            object was deserialized.
        exact_double_files: paths of the files that were written after the last change of a column
            from float to double. The statistics of these files have exact bounds of the column.
        row_tracking: physical names of two materialized columns: index 0 for row ids, index 1 for
            row commit versions. None if row tracking is disabled.
        statistics_cache: cache of the checkpoint's parsed statistics; None if there is no cache, or
            if this object was deserialized.
    """

    table: str
    schema: StructType
    partition_columns: tuple[str, ...]
    columns: tuple[str, ...]
    version: int
    checkpoint: Checkpoint | None
    contents: CheckpointContents | None
    checksum_totals: FileTotals | None
    seen_keys: FileActionKeys
    tail: tuple[pa.StructArray, ...] | None
    exact_double_files: pa.Array[Any]
    row_tracking: tuple[str, str] | None
    stats_forms: tuple[StatsForm, ...]
    column_mapping: ColumnMappingMode
    catalog: Catalog | None = None
    statistics_cache: CheckpointStatisticsCache | None = None

    @classmethod
    def of(cls, state: TableState) -> ScanSource:
        """Create the source from the state of a table version."""
        return cls(
            table=state.path,
            schema=state.schema,
            partition_columns=state.partition_columns,
            columns=_feature_columns(state),
            version=state.version,
            checkpoint=state.log_segment.checkpoint,
            contents=state.checkpoint_contents,
            checksum_totals=state.checksum_totals,
            seen_keys=state.replay_state.seen_keys,
            tail=state.tail,
            exact_double_files=state.replay_state.exact_double_files,
            row_tracking=_row_tracking_columns(state),
            stats_forms=_stats_forms(state),
            column_mapping=state.column_mapping,
            catalog=state.catalog,
            statistics_cache=state.statistics_cache,
        )

    def with_whole_adds(self) -> ScanSource:
        """Return a copy that reads all optional fields of `add` except `stats`."""
        return replace(self, columns=_ALL_COLUMNS)


_ALL_COLUMNS = (
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)
"""All fields that `ScanSource.columns` can contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanDefinition:
    """The table version, filter, columns and options of a scan.

    Attributes:
        source: the part of the table version's state that the scan needs.
        predicate: the filter; None if the scan has no filter.
        read_schema: the columns to read, without metadata columns.
        statistics: whether scan files always include their statistics. If False, they include
            statistics only if the predicate needs them.
        time_zone: time zone for `timestamp` partition values whose strings have no time zone.
        dictionary_columns: logical names of string columns to return as dictionary arrays.
    """

    source: ScanSource
    predicate: Predicate | None
    read_schema: StructType
    statistics: bool = False
    metadata_columns: tuple[str, ...] = ()
    time_zone: str = "UTC"
    dictionary_columns: tuple[str, ...] = ()


def _stats_forms(state: TableState) -> tuple[StatsForm, ...]:
    try:
        as_json = state.table_properties.write_stats_as_json
        as_struct = state.table_properties.write_stats_as_struct
    except PropertyValueError:  # an invalid property doesn't prevent reading
        as_json, as_struct = True, False
    return stats_forms(as_json=as_json, as_struct=as_struct)


def _row_tracking_columns(state: TableState) -> tuple[str, str] | None:
    if state.properties.get("delta.enableRowTracking", "").lower() != "true":
        return None
    return (
        state.properties.get("delta.rowTracking.materializedRowIdColumnName", ""),
        state.properties.get("delta.rowTracking.materializedRowCommitVersionColumnName", ""),
    )


def _feature_columns(state: TableState) -> tuple[str, ...]:
    protocol = state.protocol
    table_features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    columns: list[str] = []
    # A key with a deletion vector id shows that deletion vectors were in use. The checkpoint may
    # then contain them, even if the feature was removed from the protocol since.
    if features.DELETION_VECTORS in table_features or state.replay_state.seen_keys.has_vectors:
        columns.append("deletionVector")
    if features.ROW_TRACKING in table_features:
        columns += ["baseRowId", "defaultRowCommitVersion"]
    if features.CLUSTERING in table_features:
        columns.append("clusteringProvider")
    return tuple(columns)
