"""The state of all tables of a topic with `route-by`, in the driver.

The *default table* is the table of `destination.table-path`. A *routed table* is any other table. A
batch commits to the default table last, so the offsets in the default table are valid for all
tables. If a batch is interrupted before this commit, routed tables can have rows whose offsets the
default table hasn't recorded. When the batch is repeated, the records of these rows are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest.background_task import run_parallel
from bayou.ingest.batch.expressions import KAFKA_INPUTS
from bayou.ingest.batch.metadata_columns import KAFKA_COLUMNS, RECORD_COLUMNS
from bayou.ingest.batch.target.foreign_files import foreign_file
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.config import Topic
from bayou.ingest.config.configuration import auxiliary_tables
from bayou.ingest.config.processing import names_in
from bayou.ingest.config.routing import RouteTable, pattern_of
from bayou.ingest.config.table_paths import normalized_table_path
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.routing.former_tables import add_rows, within_spans
from bayou.ingest.routing.table_registrations import (
    REGISTRATIONS,
    RegisteredTable,
    absolute_path,
    check_table,
    registered_tables,
    registration_id,
    relative_path,
    version_id,
    written_id,
)
from bayou.ingest.schema.policy import SchemaPolicy
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.kernel.engine import Engine
from bayou.protocol.schema import StructField, StructType

_CONCURRENT_TABLES = 16


@dataclass(slots=True, kw_only=True, eq=False)
class RoutedTable:
    """The default table or a routed table of a topic.

    Attributes:
        topic: the copy of the topic that writes to this table only; see `Topic.routed`.
        relative: the path with which the table is registered in the default table. It is relative
            to the default table's folder, and empty for the default table itself.
        value_name: the name that replaces `{value}` in the table's path; None if `route-by.tables`
            lists the table.
        fingerprint: the `value_fingerprint` of the value whose records the table has; 0 if
            `route-by.tables` lists the table.
        recorded: the last version of this table that the default table has recorded; -1 if it has
            recorded none.
        is_registered: whether this table is registered in the default table.
        is_stale: whether the table must be read again before the next batch.
        must_record: whether the next commit to the default table must record this table's version.
    """

    topic: Topic
    target: TargetTable
    policy: SchemaPolicy
    engine: Engine
    relative: str = ""
    value_name: str | None = None
    fingerprint: int = 0
    recorded: int = -1
    is_registered: bool = False
    is_stale: bool = False
    must_record: bool = False

    @property
    def is_listed(self) -> bool:
        """Whether this is the default table, or `route-by.tables` lists this table."""
        return self.fingerprint == 0


class RoutedTables:
    """The default table and the routed tables of one topic.

    Args:
        topic: the topic, with `route-by`.
        tables: the default table, which is the topic's target, and the dead letter table. The
            caller opens the default table.
        schema: the schema of the topic's records.

    Attributes:
        refused: for each value whose table can't be used, the reason.
    """

    def __init__(
        self,
        topic: Topic,
        kafka: KafkaTopic,
        tables: TopicTables,
        schema: RecordSchema,
    ) -> None:
        assert topic.routes is not None
        self._topic = topic
        self._routes = topic.routes
        self._kafka = kafka
        self._schema = schema
        self._storage_options = tables.storage_options
        self._shared = layout_fields(topic)
        self.default = RoutedTable(
            topic=topic,
            target=tables.target,
            policy=SchemaPolicy(topic, tables.target, schema, shared=self._shared),
            engine=tables.engine,
        )
        self._tables: dict[str, RoutedTable] = {}
        self._rows: dict[int, BitMap64] = {}
        self.reserved = reserved_names(topic)
        self.refused: dict[str, str] = {}

    @property
    def routed(self) -> tuple[RoutedTable, ...]:
        """The known routed tables, in no particular order. Some of them may not exist yet."""
        return tuple(self._tables.values())

    @property
    def existing(self) -> tuple[RoutedTable, ...]:
        """The routed tables that exist."""
        return tuple(t for t in self.routed if t.target.version is not None)

    def open(self) -> None:
        """Read the registered tables, and find rows in them that an interrupted batch has written.

        The default table hasn't recorded the offsets of these rows.

        Raises:
            PipelineError: a table was deleted, replaced, rolled back or restored.
        """
        before, self._tables, self._rows = self._tables, {}, {}
        known = self._registered()
        former = {path: before[path] for path in known if path in before}
        new = {path: self._new(*known[path]) for path in known if path not in before}
        for_each_table(lambda table: table.target.reopen(), list(former.values()))
        for_each_table(lambda table: table.target.open(), list(new.values()))
        for path, table in (former | new).items():
            self._attach(path, table, known[path][0])

    def refresh(self) -> None:
        """Read the tables that the last batch has written, and newly registered tables.

        Tables that aren't registered, because no rows were written to them, are removed.
        """
        known = self._registered()
        for path in self._tables.keys() - known.keys():
            del self._tables[path]  # not registered, because its value had no rows
        for path in known.keys() - self._tables.keys():
            table = self._new(*known[path])
            table.target.open()
            self._attach(path, table, known[path][0])
        stale = [table for table in self._tables.values() if table.is_stale]
        for_each_table(lambda table: table.target.refresh(), stale)
        for table in stale:
            table.is_stale = False

    def find(self, value: str) -> RoutedTable | None:
        """Return the known table for a value of the `route-by` expression, or None."""
        table = self._routes.table(value, self.reserved)
        return None if table is None else self._tables.get(normalized_table_path(table.path))

    def add(self, values: Mapping[str, int]) -> None:
        """Add the tables for new values.

        The tables for the values with the most records are added first. Once there are `max-tables`
        tables, only tables that `route-by.tables` lists are added.

        Args:
            values: for each value, the number of records with the value.
        """
        for value in sorted(values, key=lambda v: (-values[v], v)):
            configured = self._routes.table(value, self.reserved)
            assert configured is not None  # values without a table aren't reported as new
            path = normalized_table_path(configured.path)
            if path in self._tables or (configured.value_name is not None and self.is_full):
                continue
            relative = relative_path(configured.path, self._topic.table_path)
            entry = RegisteredTable(path=relative, fingerprint=configured.fingerprint)
            table = self._new(entry, configured)
            if configured.value_name is None:
                table.target.open()
            elif (reason := self._refusal(table)) is not None:
                self.refused[value] = reason
                continue
            self._attach(path, table, entry)
            table.is_registered = False

    def _refusal(self, table: RoutedTable) -> str | None:
        """Open a table for the first time; return why it can't be used, or None if it can be used.

        The path of the table depends on the value of a record. If the folder at this path has files
        but no table, no table must be created there, because VACUUM would delete the files.
        """
        try:
            table.target.open()
        except PipelineError as error:
            return f"has no table: {error.message}"
        path = table.topic.table_path
        snapshot = table.target.snapshot
        if snapshot is not None and not self._has_written(snapshot.transactions):
            return f"has no table: {path} is the table of another topic or program"
        file = foreign_file(table.topic, table.engine) if table.target.version is None else None
        if file is None:
            return None
        return f"has no table: {path} isn't a Delta table, but contains files, such as {file}"

    def _has_written(self, transactions: Mapping[str, int]) -> bool:
        """Whether a table with these transaction identifiers is a routed table of the topic.

        A table that another topic of the section has created has only that topic's identifiers.
        """
        return self._topic.shares_table or written_id(self._kafka) in transactions

    @property
    def is_full(self) -> bool:
        """Whether no more tables can be added because of `max-tables`."""
        created = sum(not table.is_listed for table in self._tables.values())
        return created >= self._routes.max_tables

    def known_rows(self, spans: Mapping[int, OffsetSpan]) -> dict[int, frozenset[int]]:
        """Return the offsets of rows that an interrupted batch wrote to routed tables.

        Only offsets in `spans` are returned. The default table hasn't recorded these offsets, so
        the batch is repeated. The repeated batch must skip these records.
        """
        return within_spans(self._rows, spans)

    def register(self, tables: Iterable[RoutedTable]) -> None:
        """Register tables in the default table, before they are created.

        Raises:
            CommitConflictError: another topic has registered tables at the same time.
        """
        new = [table for table in tables if not table.is_registered]
        if not new:
            return
        ids = {registration_id(self._kafka, table.relative): table.fingerprint for table in new}
        count = self._transactions.get(REGISTRATIONS, 0) + 1
        self.default.target.commit_ids({REGISTRATIONS: count, **ids})
        for table in new:
            table.is_registered = True

    def written_ids(self, table: RoutedTable) -> dict[str, int]:
        """Return the transaction identifier for a commit to a routed table; see `written_id`."""
        snapshot = table.target.snapshot
        known = {} if snapshot is None else snapshot.transactions
        application = written_id(self._kafka)
        return {application: known.get(application, -1) + 1}

    def written(self, table: RoutedTable) -> None:
        """Record that a batch has committed rows to a routed table."""
        table.is_stale = table.must_record = True

    def version_ids(self) -> dict[str, int]:
        """Return the transaction identifiers for the next commit to the default table.

        The identifiers record the version of each table whose `must_record` is true. A table is
        omitted if its version is already recorded.
        """
        ids: dict[str, int] = {}
        for table in self.existing:
            version, table_id = table.target.version, table.target.table_id
            if table.must_record and version is not None and version > table.recorded:
                assert table_id is not None
                ids[version_id(self._kafka, table.relative, table_id)] = version
        return ids

    def recorded(self) -> None:
        """Mark the versions in `version_ids` as recorded, after a commit to the default table."""
        for table in self.existing:
            if table.must_record:
                table.recorded = max(table.recorded, table.target.version or 0)
                table.must_record = False

    def with_layout_columns(self, columns: Sequence[StructType]) -> list[StructType]:
        """Add missing partition and clustering columns to the columns of each table.

        A missing column gets its type from the first other table that has the column. If no table
        has the column, it isn't added.

        Args:
            columns: for each table, the columns that store the fields of its records.
        """
        layout_columns: dict[str, StructField] = {}
        for name in self._shared:
            fields = (f for s in columns for f in s if f.name.lower() == name)
            if (known := next(fields, None)) is not None:
                layout_columns[name] = known
        result = []
        for schema in columns:
            names = {name.lower() for name in schema.names}
            missing = (f for name, f in layout_columns.items() if name not in names)
            result.append(StructType((*schema, *missing)))
        return result

    @property
    def _transactions(self) -> Mapping[str, int]:
        snapshot = self.default.target.snapshot
        return {} if snapshot is None else snapshot.transactions

    def _registered(self) -> dict[str, tuple[RegisteredTable, RouteTable]]:
        """Return the registration and the `RouteTable` of each registered table.

        The keys are normalized paths.
        """
        registered = {}
        for entry in registered_tables(self._transactions).values():
            path = absolute_path(entry.path, self._topic.table_path)
            registered[normalized_table_path(path)] = (entry, self._routes.at(path))
        return registered

    def _new(self, entry: RegisteredTable, configured: RouteTable) -> RoutedTable:
        topic = self._topic.routed(configured)
        engine = for_path(topic.table_path, self._storage_options)
        target = TargetTable(engine, topic, self._kafka)
        return RoutedTable(
            topic=topic,
            target=target,
            policy=SchemaPolicy(topic, target, self._schema, shared=self._shared),
            engine=engine,
            relative=entry.path,
            value_name=configured.value_name,
            fingerprint=entry.fingerprint,
        )

    def _attach(self, path: str, table: RoutedTable, entry: RegisteredTable) -> None:
        """Add a table, after a check that it has the version that the default table has recorded.

        This method also finds the rows that an interrupted batch has written to the table.

        Raises:
            PipelineError: the table was deleted, replaced or rolled back.
        """
        target = table.target
        check_table(table.topic, entry, target.table_id, target.version)
        table.recorded = entry.versions.get(target.table_id or "", -1)
        table.is_registered = True
        table.is_stale = False
        self._tables[path] = table
        covered = self.default.target.covered
        ahead = {p: end for p, end in target.covered.items() if end > covered.get(p, 0)}
        table.must_record = bool(ahead) or (table.recorded < 0 and target.version is not None)
        if target.snapshot is None or not (ahead or table.recorded < 0):
            return
        partitions = self._kafka.bounds.keys() | target.covered.keys()
        starts = {p: covered.get(p, 0) for p in partitions}
        add_rows(self._rows, target.snapshot, self._kafka.name, starts)


def reserved_names(topic: Topic) -> frozenset[str]:
    """Return the values that can't be used as the names of their tables; see `value_name`.

    Without a hash in its name, the table of such a value would have the path of another table: the
    default table, an auxiliary table such as the dead letter table, or a table in
    `route-by.tables`.
    """
    routes = topic.routes
    if routes is None or routes.table_path is None:
        return frozenset()
    template = pattern_of(normalized_table_path(routes.table_path))
    taken = [normalized_table_path(topic.table_path), *auxiliary_tables(topic)]
    taken += [normalized_table_path(table.table_path) for table in routes.tables.values()]
    matches = (template.fullmatch(path) for path in taken)
    return frozenset(match[1] for match in matches if match is not None)


def layout_fields(topic: Topic) -> tuple[str, ...]:
    """Return the lowercase names of the record fields that determine partitions and clustering.

    These fields are the partition columns, the clustering columns and `event-time`. For a derived
    column, they are the fields that its expression reads.
    """
    config = topic.config
    destination = config.destination
    names = [*destination.partition_columns, *(p[0] for p in destination.clustering_paths)]
    if config.event_time is not None:
        names.append(config.event_time)
    derived = {name.lower(): e for name, e in config.processing.expressions.items()}
    fields: dict[str, None] = {}
    for name in map(str.lower, names):
        expression = derived.get(name)
        fields |= dict.fromkeys([name] if expression is None else names_in(expression))
    others = {f.name.lower() for f in (*KAFKA_COLUMNS, *KAFKA_INPUTS, *RECORD_COLUMNS)}
    return tuple(name for name in fields if name not in others)


def for_each_table(
    function: Callable[[RoutedTable], object], tables: Sequence[RoutedTable]
) -> None:
    """Call a function for each table, with up to 16 calls in parallel; see `run_parallel`."""
    for first in range(0, len(tables), _CONCURRENT_TABLES):
        run_parallel(function, tables[first : first + _CONCURRENT_TABLES])
