"""State of a DELETE, UPDATE or MERGE that its workers need, in addition to the files to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from bayou.errors import CorruptTableError
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.kernel.scan.scan_state import ROW_COMMIT_VERSION, ROW_ID, ROW_INDEX_COLUMN, ScanState
from bayou.kernel.transaction.transaction import Transaction
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import features
from bayou.protocol.actions import is_change_data_feed_enabled
from bayou.protocol.properties import TableProperties

_ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
_COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


@dataclass(frozen=True, kw_only=True)
class RowChangeState(PickledTask):
    """State of an operation that changes rows; can be pickled for workers.

    Attributes:
        deletion_vectors: whether deletion vectors may be written (`delta.enableDeletionVectors`).
        time_zone: time zone of timestamp partition values that are stored without a time zone.
    """

    transaction_state: TransactionState
    deletion_vectors: bool
    time_zone: str = "UTC"

    @classmethod
    def of(
        cls, engine: Engine, transaction: Transaction, *, time_zone: str = "UTC"
    ) -> RowChangeState:
        write = transaction.transaction_state(engine)
        supported = features.DELETION_VECTORS in features.writer_features(transaction.protocol)
        return cls(
            transaction_state=write,
            deletion_vectors=supported and TableProperties(write.configuration).deletion_vectors,
            time_zone=normalize_time_zone(time_zone),
        )

    @property
    def change_data_feed(self) -> bool:
        return is_change_data_feed_enabled(self.transaction_state.configuration)

    @property
    def row_tracking(self) -> bool:
        """Whether row tracking is enabled.

        If True, updated rows keep their row ids. Copied rows keep their row ids and their row
        commit versions.
        """
        return TableProperties(self.transaction_state.configuration).row_tracking

    @property
    def needs_old_rows(self) -> bool:
        """Whether old rows must be read, even if the new values don't depend on the old values.

        Old rows are needed to rewrite files, to record change data, and to keep row ids.
        """
        return not self.deletion_vectors or self.change_data_feed or self.row_tracking

    @cached_property
    def materialized(self) -> Mapping[str, str]:
        """Physical names of the materialized row tracking columns, by metadata column."""
        if not self.row_tracking:
            return {}
        names = {
            ROW_ID: self.transaction_state.configuration.get(_ROW_ID_COLUMN),
            ROW_COMMIT_VERSION: self.transaction_state.configuration.get(_COMMIT_VERSION_COLUMN),
        }
        columns = {name: column for name, column in names.items() if column}
        if len(columns) < len(names):
            raise CorruptTableError(
                f"{self.transaction_state.table}: row tracking is enabled, but the properties "
                f"{_ROW_ID_COLUMN} and {_COMMIT_VERSION_COLUMN} aren't set, so rows can't be moved "
                "to other files. Restore both properties.",
                table=self.transaction_state.table,
            )
        return columns

    @property
    def metadata_columns(self) -> tuple[str, ...]:
        """Names of the metadata columns that `read` returns after the table's columns."""
        return (ROW_INDEX_COLUMN, *self.materialized)

    @cached_property
    def read(self) -> ScanState:
        """Scan state for reading old rows: columns of the table's new schema, and metadata columns.

        The new schema is the schema after the commit.
        """
        return ScanState(
            table=self.transaction_state.table,
            logical_schema=self.transaction_state.schema,
            partition_columns=self.transaction_state.partition_columns,
            metadata_columns=self.metadata_columns,
            row_tracking=(self.materialized[ROW_ID], self.materialized[ROW_COMMIT_VERSION])
            if self.materialized
            else None,
            column_mapping=self.transaction_state.column_mapping,
            deletion_vectors=True,
            time_zone=self.time_zone,
        )

    def for_writer(self, index: int, count: int) -> RowChangeState:
        return replace(self, transaction_state=self.transaction_state.for_writer(index, count))
