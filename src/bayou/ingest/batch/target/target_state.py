"""The state of a topic's target table: reads its latest version and checks it."""

from __future__ import annotations

from bayou.api import SnapshotHandle
from bayou.errors import ConcurrentTransactionError, PipelineError, SchemaError
from bayou.ingest.batch.metadata_columns import feed_columns
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.stored_columns import record_columns_of
from bayou.ingest.batch.target.table_definition import TableDifference, table_differences
from bayou.ingest.batch.target.target_checks import check_not_restored, check_target
from bayou.ingest.config import Topic
from bayou.ingest.offsets import KafkaTopic, next_offsets
from bayou.kernel import Snapshot, Table
from bayou.kernel.data_writer.data_writer import uses_partition_folders
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.properties import CHECKPOINT_INTERVAL, TYPE_WIDENING, normalize
from bayou.protocol.schema import StructField, StructType
from bayou.protocol.type_widening import WideningRule


class TargetState:
    """The target table of one topic, for reading.

    `open` reads the latest version for the first time. `refresh` and `reopen` read the latest
    version again, and check that the table wasn't deleted, replaced or rolled back. All properties
    of this object describe the last version that was read. If there is no table yet, the properties
    are empty or None.

    Args:
        kafka: the Kafka topic whose offsets are read from the table; None if the rows don't come
            from Kafka.
    """

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic | None) -> None:
        self._engine = engine
        self._topic = topic
        self._kafka = kafka
        self._table = Table.for_path(engine, topic.table_path)
        self._snapshot: Snapshot | None = None
        self._version: int | None = None
        self._table_id: str | None = None
        self._covered: dict[int, int] = {}
        self._newest_restore = -1
        self._needed_since: int | None = None  # time of the oldest commit that the check needs

    @property
    def path(self) -> str:
        return self._table.path

    @property
    def version(self) -> int | None:
        """The last version that was read or committed; None if there is no table."""
        return self._version

    @property
    def table_id(self) -> str | None:
        """The table's id; None if there is no table."""
        return self._table_id

    @property
    def snapshot(self) -> SnapshotHandle | None:
        """The last snapshot that was read; None if there is no table."""
        return None if self._snapshot is None else SnapshotHandle(self._engine, self._snapshot)

    @property
    def covered(self) -> dict[int, int]:
        """The next offset to read of each Kafka partition, as committed to the table."""
        return dict(self._covered)

    @property
    def columns(self) -> StructType:
        """The columns for fields of Kafka records; empty if there is no table.

        Metadata columns are excluded. Fields that expressions in the configuration read, but that
        the table doesn't store, are included.
        """
        if self._snapshot is None:
            return StructType()
        return record_columns_of(self._topic, self._snapshot)

    @property
    def schema(self) -> StructType:
        """The table's schema; empty if there is no table."""
        return StructType() if self._snapshot is None else self._snapshot.schema

    @property
    def reserved_names(self) -> frozenset[str]:
        """Lowercase names that a column can't have, because the change data feed reserves them."""
        configured = self._topic.config.destination.delta_config.table_properties
        known = normalize(configured) if self._snapshot is None else self._snapshot.properties
        return feed_columns(known)

    @property
    def widens(self) -> bool:
        """Whether the table has type widening enabled."""
        return self._snapshot is not None and TYPE_WIDENING.read(self._snapshot.properties)

    @property
    def folders_show_values(self) -> bool:
        """Whether the folder names of data files contain the partition values."""
        if self._snapshot is None:
            return True
        return uses_partition_folders(self._snapshot.properties, self._snapshot.partition_columns)

    @property
    def checkpoint_interval(self) -> int:
        """Number of commits between checkpoints.

        A configured number takes precedence over the table's property.
        """
        known = {} if self._snapshot is None else self._snapshot.properties
        return CHECKPOINT_INTERVAL.read({**known, **self._checkpoint_properties})

    def open(self) -> None:
        """Read the latest version and check that it can be the topic's target.

        Unlike `refresh`, this method accepts a version that is older than the version read before.

        Raises:
            PipelineError: the table can't be the topic's target, or was restored.
        """
        self._set_snapshot(self.latest_snapshot())
        if self._snapshot is not None:
            check_target(self._topic, self._kafka, self._snapshot)
            self._check_not_restored(None, self._snapshot)

    def read(self) -> None:
        """Read the latest version without checks, for reports."""
        self._set_snapshot(self.latest_snapshot())

    def refresh(self) -> None:
        """Read the latest version before a batch.

        Raises:
            PipelineError: the table was deleted, replaced, restored or rolled back.
            ConcurrentTransactionError: another pipeline committed offsets of this topic.
        """
        covered = self._covered
        latest = self._set_successor()
        if latest is not None and self._covered != covered:
            raise ConcurrentTransactionError(
                f"{self.path}: another pipeline committed offsets of this topic. The batch wasn't "
                "written. Run only one pipeline for this topic and table.",
                table=self.path,
                winning_version=latest.version,
            )

    def reopen(self) -> None:
        """Read the latest version after a failed commit.

        The commit may have succeeded despite the error. In that case, this method updates
        `covered`.

        Raises:
            PipelineError: the table was deleted, replaced, restored or rolled back.
        """
        covered = self._covered
        latest = self._set_successor()
        uncovered = [p for p, offset in covered.items() if self._covered.get(p, 0) < offset]
        if latest is not None and uncovered:
            raise self._changed_error("was rolled back to a version with lower Kafka offsets")

    def differences(self) -> tuple[TableDifference, ...]:
        """Return the settings that the table doesn't match; empty if there is no table."""
        return () if self._snapshot is None else table_differences(self._topic, self._snapshot)

    def new_columns(self, layout: RowLayout) -> tuple[str, ...]:
        """Return the names of the layout's columns that the table doesn't have yet."""
        names = self.schema.names
        return tuple(n for n in layout.schema.names if n not in names)

    def merged(self, columns: StructType, others: StructType) -> StructType:
        """Return `columns`, followed by the columns of `others` that `columns` doesn't have.

        Raises:
            PipelineError: a column has incompatible types in `columns` and `others`.
        """
        try:
            return merge_schemas(
                self.path, columns, others, widening=WideningRule() if self.widens else None
            )
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file doesn't fit the table: {error.message}",
                topic=self._topic.key,
            ) from error

    def with_column(self, columns: StructType, field: StructField) -> StructType | None:
        """Return `columns` with `field` added; None if `field` exists or can't be added."""
        try:
            merged = merge_schemas(self.path, columns, StructType((field,)))
        except SchemaError:
            return None
        return merged if merged != columns else None

    def latest_snapshot(self) -> Snapshot | None:
        """Load the latest snapshot, without checks; None if there is no table."""
        exists = self._table.exists(self._engine)
        return self._table.latest_snapshot(self._engine) if exists else None

    @property
    def _checkpoint_properties(self) -> dict[str, str]:
        interval = self._topic.config.destination.delta_config.checkpoint_interval
        return {} if interval is None else {CHECKPOINT_INTERVAL.key: str(interval)}

    def _set_successor(self) -> Snapshot | None:
        """Load the latest snapshot, and make it the last version that was read.

        The snapshot is first compared with the version that was read before.

        Raises:
            PipelineError: the table was deleted, replaced, restored or rolled back.
        """
        known = self._version
        table_id = None if self._snapshot is None else self._snapshot.table_id
        latest = self.latest_snapshot()
        if known is not None:
            if latest is None:
                raise self._changed_error("was deleted")
            if table_id is not None and latest.table_id != table_id:
                raise self._changed_error("was replaced by another table")
            if latest.version < known:
                raise self._changed_error(
                    f"was rolled back from version {known} to {latest.version}"
                )
        if latest is not None:
            check_target(self._topic, self._kafka, latest)
            if latest.version != known:
                self._check_not_restored(known, latest)
        self._set_snapshot(latest)
        return latest

    def _changed_error(self, change: str) -> PipelineError:
        return PipelineError(
            f"topic {self._topic.key!r}: {self.path} {change} while this pipeline wrote to it. "
            "Start the pipeline again; it reads the missing records from Kafka. To undo the change "
            "instead, restore the table first, and then start the pipeline.",
            topic=self._topic.key,
        )

    def _set_snapshot(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._version = None if snapshot is None else snapshot.version
        self._table_id = None if snapshot is None else snapshot.table_id
        known = {} if snapshot is None else snapshot.transactions
        self._covered = {} if self._kafka is None else next_offsets(self._kafka, known)

    def _check_not_restored(self, known: int | None, latest: Snapshot) -> None:
        check = check_not_restored(self._engine, self._table, self._topic, latest, known)
        if known is None:
            self._newest_restore, self._needed_since = check.newest, check.since
        else:
            self._newest_restore = max(self._newest_restore, check.newest)
