"""The tables of a topic with `route-by`, as the driver sees them.

The *default table* is the table of `destination.table-path`. It covers the offsets of all tables,
because a batch commits to it last. A routed table can be *ahead*: it has rows of a batch that was
interrupted before the commit to the default table. These rows are left out when the batch is
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest.background_task import run_parallel
from bayou.ingest.batch.expressions import KAFKA_INPUTS
from bayou.ingest.batch.rows import KAFKA_COLUMNS, RECORD_COLUMNS
from bayou.ingest.batch.target.foreign_files import foreign_file
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.batch.target.topic_tables import TopicTables
from bayou.ingest.config import Topic
from bayou.ingest.config.configuration import auxiliary_tables
from bayou.ingest.config.processing import names_in
from bayou.ingest.config.routing import RouteTable, pattern_of
from bayou.ingest.config.table_paths import normalized_table_path
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.routing.registry import (
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
from bayou.ingest.seen_offsets import TopicOffsets
from bayou.kernel.engine import Engine
from bayou.protocol.schema import StructField, StructType

_CONCURRENT_TABLES = 16
_MAX_OFFSET = 2**62


@dataclass(slots=True, kw_only=True, eq=False)
class RoutedTable:
    """One table of a topic.

    Attributes:
        topic: the topic with this table as its only table.
        relative: the path by which the table is registered; empty for the default table.
        value_name: see `RouteTable`.
        fingerprint: see `RouteTable`.
        recorded: the last version that the default table has recorded; -1 if it has none.
        is_registered: whether the default table has registered this table.
        is_stale: whether the table must be read again before the next batch.
        must_record: whether the next commit to the default table records the table's version.
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
        """Whether `route-by.tables` lists the table, or it is the default table."""
        return self.fingerprint == 0


class RoutedTables:
    """The default table and the routed tables of one topic.

    Args:
        topic: the topic, with `route-by`.
        tables: has the default table, which the caller opens.
        schema: the schema of the topic's records.

    Attributes:
        refused: for each value whose table can't be created, the reason.
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
        """The routed tables that are known, in no particular order; some don't exist yet."""
        return tuple(self._tables.values())

    @property
    def existing(self) -> tuple[RoutedTable, ...]:
        """The routed tables that exist."""
        return tuple(t for t in self.routed if t.target.version is not None)

    def open(self) -> None:
        """Read the registered tables, and find the rows that are ahead of the default table.

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
        """Read the tables that the last batch has written, and tables that others registered."""
        known = self._registered()
        for path in self._tables.keys() - known.keys():
            del self._tables[path]  # a value was new in a batch that has no row of it
        for path in known.keys() - self._tables.keys():
            table = self._new(*known[path])
            table.target.open()
            self._attach(path, table, known[path][0])
        stale = [table for table in self._tables.values() if table.is_stale]
        for_each_table(lambda table: table.target.refresh(), stale)
        for table in stale:
            table.is_stale = False

    def find(self, value: str) -> RoutedTable | None:
        """Return the known table of a value; None if it has none."""
        table = self._routes.table(value, self.reserved)
        return None if table is None else self._tables.get(normalized_table_path(table.path))

    def add(self, values: Mapping[str, int]) -> None:
        """Add the tables of new values until `max-tables` is reached, frequent values first.

        Args:
            values: number of records of each value.
        """
        for value in sorted(values, key=lambda v: (-values[v], v)):
            configured = self._routes.table(value, self.reserved)
            assert configured is not None  # otherwise the value isn't reported as new
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
        """Open the table of a new value; return why the value can't have it, or None.

        The value of a record can be the name of any folder beside the tables. It must neither stop
        the topic nor let VACUUM delete other files.
        """
        try:
            table.target.open()
        except PipelineError as error:
            return f"has no table: {error.message}"
        path = table.topic.table_path
        file = foreign_file(table.topic, table.engine) if table.target.version is None else None
        if file is None:
            return None
        return f"has no table: {path} isn't a table, but has other files, such as {file}"

    @property
    def is_full(self) -> bool:
        """Whether `max-tables` is reached."""
        created = sum(not table.is_listed for table in self._tables.values())
        return created >= self._routes.max_tables

    def known_rows(self, spans: Mapping[int, OffsetSpan]) -> dict[int, frozenset[int]]:
        """Return the offsets in `spans` of rows that are ahead of the default table."""
        found: dict[int, frozenset[int]] = {}
        for partition, span in spans.items():
            rows = self._rows.get(partition)
            if rows and (within := rows & BitMap64(range(span.start, span.end))):
                found[partition] = frozenset(within)
        return found

    def register(self, tables: Iterable[RoutedTable]) -> None:
        """Register tables that will be created; the default table exists.

        Raises:
            CommitConflictError: another topic has registered tables at the same time.
        """
        new = [table for table in tables if not table.is_registered]
        if not new:
            return
        ids = {registration_id(self._kafka, table.relative): table.fingerprint for table in new}
        count = self._transactions.get(REGISTRATIONS, 0) + 1
        self.default.target.record({REGISTRATIONS: count, **ids})
        for table in new:
            table.is_registered = True

    def written_ids(self, table: RoutedTable) -> dict[str, int]:
        """Return the transaction identifier that each commit to a routed table increments."""
        snapshot = table.target.snapshot
        known = {} if snapshot is None else snapshot.transactions
        application = written_id(self._kafka)
        return {application: known.get(application, -1) + 1}

    def written(self, table: RoutedTable) -> None:
        """Note that a batch has committed rows to a routed table."""
        table.is_stale = table.must_record = True

    def version_ids(self) -> dict[str, int]:
        """Return the identifiers that record versions of tables in the default table."""
        ids: dict[str, int] = {}
        for table in self.existing:
            version, table_id = table.target.version, table.target.table_id
            if table.must_record and version is not None and version > table.recorded:
                assert table_id is not None
                ids[version_id(self._kafka, table.relative, table_id)] = version
        return ids

    def recorded(self) -> None:
        """Note that the default table has recorded the `version_ids`."""
        for table in self.existing:
            if table.must_record:
                table.recorded = max(table.recorded, table.target.version or 0)
                table.must_record = False

    def with_layout_columns(self, columns: Sequence[StructType]) -> list[StructType]:
        """Add missing columns that the layout of all tables needs, with their types in others.

        Args:
            columns: the columns of the record fields of each table.
        """
        found: dict[str, StructField] = {}
        for name in self._shared:
            fields = (f for s in columns for f in s if f.name.lower() == name)
            if (known := next(fields, None)) is not None:
                found[name] = known
        result = []
        for schema in columns:
            names = {name.lower() for name in schema.names}
            more = (f for name, f in found.items() if name not in names)
            result.append(StructType((*schema, *more)))
        return result

    @property
    def _transactions(self) -> Mapping[str, int]:
        snapshot = self.default.target.snapshot
        return {} if snapshot is None else snapshot.transactions

    def _registered(self) -> dict[str, tuple[RegisteredTable, RouteTable]]:
        """Return the registered tables by normalized path."""
        found = {}
        for entry in registered_tables(self._transactions).values():
            path = absolute_path(entry.path, self._topic.table_path)
            found[normalized_table_path(path)] = (entry, self._routes.at(path))
        return found

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
        """Add a table that was read: check its version, and find its rows that are ahead."""
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
        first = min((covered.get(p, 0) for p in self._kafka.bounds), default=0)
        rows = TopicOffsets()
        within = OffsetSpan(start=first, end=_MAX_OFFSET)
        rows.read(target.snapshot, self._kafka.name, prefix="_kafka_", within=within)
        for partition in rows.partitions:
            known = self._rows.setdefault(partition, BitMap64())
            start = covered.get(partition, 0)
            known |= BitMap64(o for o in rows.of(partition).once if o >= start)


def reserved_names(topic: Topic) -> frozenset[str]:
    """Return the names of values whose tables would be other tables of a topic."""
    routes = topic.routes
    if routes is None or routes.table_path is None:
        return frozenset()
    template = pattern_of(normalized_table_path(routes.table_path))
    taken = [normalized_table_path(topic.table_path), *auxiliary_tables(topic)]
    taken += [normalized_table_path(table.table_path) for table in routes.tables.values()]
    matches = (template.fullmatch(path) for path in taken)
    return frozenset(match[1] for match in matches if match is not None)


def layout_fields(topic: Topic) -> tuple[str, ...]:
    """Return the lowercase names of the fields that the layout of each table needs.

    These are the fields of partition columns, clustering columns and `event-time`. A derived column
    is replaced by the fields that it reads.
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
    """Call a function for each table, a few at the same time; see `run_parallel`."""
    for first in range(0, len(tables), _CONCURRENT_TABLES):
        run_parallel(function, tables[first : first + _CONCURRENT_TABLES])
