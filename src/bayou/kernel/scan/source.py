"""What a scan takes from a version of a table, and what the caller asked of it.

Items made by threads while the ones before them are used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.catalog import Catalog
from bayou.kernel.checkpoint.add_files import StatsForm, stats_forms
from bayou.kernel.checkpoint.contents import CheckpointContents
from bayou.kernel.checkpoint.stats import KnownStatistics
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.log.file_action_keys import TouchedKeys
from bayou.kernel.log.listing import Checkpoint
from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_features.column_mapping import ColumnMappingMode
from bayou.protocol import features
from bayou.protocol.property_strings import PropertyValueError
from bayou.protocol.schema import StructType

__all__ = ["ScanDefinition", "ScanSource", "mapped_ahead", "read_ahead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """What a scan takes from a version of a table.

    Attributes:
        table: path of the table.
        schema: the table's whole schema.
        partition_columns: in the table's order.
        columns: fields of `add` that the table's features make necessary.
        version: the version, -1 where it isn't known: the scan came as bytes.
        checkpoint: None where the commits alone make up the version.
        contents: the checkpoint's top level, None where it hasn't been read.
        stated_totals: what a checksum of the version says of its files, None where it isn't known.
        touched: keys that the commits behind the checkpoint touched.
        tail: live files outside of the checkpoint's Parquet files, `ADD_TYPE`; None where the
            slices bring them.
        double_files: see `ReplayState`.
        row_tracking: physical names of the columns that hold row ids and row commit versions,
            None where row tracking isn't enabled.
        stats_forms: in which forms a checkpoint may have statistics, the likelier first.
        column_mapping: how columns are found in data files and statistics.
        catalog: the one that manages the table; None also where the scan came as bytes.
        known_statistics: where statistics are kept for later scans; None also where the scan came
            as bytes.
    """

    table: str
    schema: StructType
    partition_columns: tuple[str, ...]
    columns: tuple[str, ...]
    version: int
    checkpoint: Checkpoint | None
    contents: CheckpointContents | None
    stated_totals: FileTotals | None
    touched: TouchedKeys
    tail: tuple[pa.StructArray, ...] | None
    double_files: pa.Array[Any]
    row_tracking: tuple[str, str] | None
    stats_forms: tuple[StatsForm, ...]
    column_mapping: ColumnMappingMode
    catalog: Catalog | None = None
    known_statistics: KnownStatistics | None = None

    @classmethod
    def of(cls, state: TableState) -> ScanSource:
        """All of it."""
        return cls(
            table=state.path,
            schema=state.schema,
            partition_columns=state.partition_columns,
            columns=_feature_columns(state),
            version=state.version,
            checkpoint=state.log_segment.checkpoint,
            contents=state.checkpoint_contents,
            stated_totals=state.stated_totals,
            touched=state.replay_state.touched,
            tail=state.tail,
            double_files=state.replay_state.double_files,
            row_tracking=_row_tracking_columns(state),
            stats_forms=_stats_forms(state),
            column_mapping=state.column_mapping,
            catalog=state.catalog,
            known_statistics=state.known_statistics,
        )

    def with_whole_adds(self) -> ScanSource:
        """The same, with every field of `add`."""
        return replace(self, columns=_ALL_COLUMNS)


_ALL_COLUMNS = (
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)
"""Fields of `add` besides those that every scan reads, and statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanDefinition:
    """A scan before anything is planned.

    Attributes:
        source: the version of the table.
        predicate: resolved against the table's schema; None for all rows.
        read_schema: the columns of the result.
        statistics: whether scan files carry their statistics in any case.
        metadata_columns: names of metadata columns of the result, behind the others.
        time_zone: in which partition values are read that are timestamps without a zone.
    """

    source: ScanSource
    predicate: Predicate | None
    read_schema: StructType
    statistics: bool = False
    metadata_columns: tuple[str, ...] = ()
    time_zone: str = "UTC"


def _stats_forms(state: TableState) -> tuple[StatsForm, ...]:
    try:
        as_json = state.table_properties.write_stats_as_json
        as_struct = state.table_properties.write_stats_as_struct
    except PropertyValueError:  # readers needn't mind
        as_json, as_struct = True, False
    return stats_forms(as_json=as_json, as_struct=as_struct)


def _row_tracking_columns(state: TableState) -> tuple[str, str] | None:
    """PROTOCOL.md, Row Tracking: the materialized columns' names are table properties."""
    if state.properties.get("delta.enableRowTracking", "").lower() != "true":
        return None
    return (
        state.properties.get("delta.rowTracking.materializedRowIdColumnName", ""),
        state.properties.get("delta.rowTracking.materializedRowCommitVersionColumnName", ""),
    )


def _feature_columns(state: TableState) -> tuple[str, ...]:
    """Fields of `add` that readers and writers of the table's features need."""
    protocol = state.protocol
    named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    columns: list[str] = []
    # The checkpoint may be older than the feature's removal from the protocol.
    if features.DELETION_VECTORS in named or state.replay_state.touched.has_vectors:
        columns.append("deletionVector")
    if features.ROW_TRACKING in named:
        columns += ["baseRowId", "defaultRowCommitVersion"]
    if features.CLUSTERING in named:
        columns.append("clusteringProvider")
    return tuple(columns)


_T = TypeVar("_T")
_U = TypeVar("_U")


@closeable
def read_ahead(items: Iterable[_T], depth: int) -> Iterator[_T]:
    """The same items, in their order; up to `depth` of them wait.

    An error comes where its item would have. Closing the result closes `items`.
    """
    with (
        CloseableIterator(items, items) as source,
        ThreadPoolExecutor(1, "bayou-read-ahead") as pool,
    ):
        waiting: deque[Future[tuple[_T] | None]] = deque()

        def fetch() -> tuple[_T] | None:
            for item in source:
                return (item,)
            return None

        try:
            while True:
                while len(waiting) <= depth:
                    waiting.append(pool.submit(fetch))
                found = waiting.popleft().result()
                if found is None:
                    return
                yield found[0]
        finally:
            for future in waiting:
                future.cancel()


@closeable
def mapped_ahead(function: Callable[[_T], _U], items: Iterable[_T], threads: int) -> Iterator[_U]:
    """What the function makes of each item, in their order, by so many threads.

    Items are taken by the caller's thread. No more than one a thread waits, and a lone item needs
    no thread. An error comes where its item would have. Closing the result closes `items`.
    """
    with (
        CloseableIterator(items, items) as source,
        ThreadPoolExecutor(threads, "bayou-map-ahead") as pool,
    ):
        waiting: deque[Future[_U]] = deque()
        lone = True
        before: _T | None = None
        try:
            for item in source:
                if before is not None:
                    lone = False
                    waiting.append(pool.submit(function, before))
                before = item
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            if before is not None and lone:
                yield function(before)
            elif before is not None:
                waiting.append(pool.submit(function, before))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
