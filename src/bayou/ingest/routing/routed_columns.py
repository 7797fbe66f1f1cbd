"""The columns of all tables of a topic for one batch, and the rules that route the batch's records.

A batch can have fields without a column, or values whose table isn't known. In this case, columns
and tables are added to `RoutedColumns`, and the batch is read again. This is repeated until the
batch has no new fields and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bayou.ingest.batch.expressions import RowExpressions, route_value, row_filter
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.table_definition import lacks_layout_columns
from bayou.ingest.config import Topic
from bayou.ingest.decode import DecodePlan
from bayou.ingest.decode.formats import RecordFormat
from bayou.ingest.routing.routed_tables import RoutedTable, RoutedTables, layout_fields
from bayou.ingest.routing.router import DEFAULT_TABLE, RecordRouter, RecordRouting
from bayou.ingest.schema.policy import expression_errors
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.kernel import Transaction
from bayou.protocol.schema import StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedOutput:
    """A table to which a batch can write rows.

    Attributes:
        transaction: the transaction that commits the table's rows. The offsets of the batch are
            added to it just before the commit. It is None if the table can't be created yet,
            because the types of its partition or clustering columns aren't known.
        added: names of the columns that the transaction adds to the table.
    """

    table: RoutedTable
    layout: RowLayout
    reading: RecordReading
    transaction: Transaction | None
    added: tuple[str, ...]


class RoutedColumns:
    """The columns of a topic's tables in one batch.

    Args:
        read_at: the ingestion timestamp of the batch's rows, in microseconds since the epoch.
    """

    def __init__(
        self, topic: Topic, tables: RoutedTables, schema: RecordSchema, read_at: int
    ) -> None:
        self._topic = topic
        self._tables = tables
        self._schema = schema
        self._read_at = read_at
        all_tables = (tables.default, *tables.routed)
        self._columns = {table: table.policy.columns() for table in all_tables}

    def outputs(self) -> tuple[RoutedOutput, ...]:
        """Return the tables. The first is the default table, the table of `destination.table-path`.

        The number of a table is its index in the result.
        """
        complete = self._tables.with_layout_columns(list(self._columns.values()))
        return tuple(map(self._output, self._columns, complete))

    def routing(self, outputs: Sequence[RoutedOutput]) -> RecordRouting:
        """Return the rules that determine the table of each record.

        Args:
            outputs: the result of the method `outputs`.

        Raises:
            PipelineError: an expression can't be evaluated with the fields of the records.
        """
        default = outputs[DEFAULT_TABLE]
        return record_routing(
            self._topic,
            self._tables,
            [output.table for output in outputs],
            self._tables.default.policy.plan(default.layout),
            format=self._schema.format,
            read_at=self._read_at,
        )

    def extend(
        self,
        outputs: Sequence[RoutedOutput],
        *,
        routing_fields: StructType,
        new_fields: Sequence[StructType],
        values: Mapping[str, int],
    ) -> bool:
        """Add columns and tables; return whether the batch must be read again.

        Args:
            outputs: the result of the method `outputs` for the batch that was read.
            routing_fields: fields that the router reads, but for which there is no column yet.
            new_fields: for each table, the fields of its records for which it has no column.
            values: for each value whose table isn't known, the number of records with the value.
        """
        if routing_fields.fields:
            self._widen(self._tables.default, routing_fields)
            return True
        for output, fields in zip(outputs, new_fields, strict=True):
            if fields.fields:
                self._widen(output.table, fields)
        if values:
            self._tables.add(values)
            for table in self._tables.routed:
                if table not in self._columns:
                    self._columns[table] = table.policy.columns()
        return bool(values) or any(fields.fields for fields in new_fields)

    def _widen(self, table: RoutedTable, new_fields: StructType) -> None:
        self._columns[table] = table.policy.widened(self._columns[table], new_fields)

    def _output(self, table: RoutedTable, columns: StructType) -> RoutedOutput:
        layout = table.policy.layout(columns)
        reading = table.policy.reading(layout, self._read_at)
        # The router has already filtered the records.
        unfiltered = replace(reading.expressions, where=None)
        transaction: Transaction | None = None
        added: tuple[str, ...] = ()
        if table.target.version is not None or not lacks_layout_columns(table.topic, layout.schema):
            transaction, added = table.target.begin(layout, {})
        return RoutedOutput(
            table=table,
            layout=layout,
            reading=replace(reading, expressions=unfiltered),
            transaction=transaction,
            added=added,
        )


def all_columns(schemas: Iterable[StructType]) -> StructType:
    """Merge the columns of several tables.

    If tables have the same column with different types, the type in the first table is used.
    """
    columns: dict[str, StructField] = {}
    for schema in schemas:
        for field in schema:
            columns.setdefault(field.name.lower(), field)
    return StructType(tuple(columns.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRecordsRead:
    """The rows of several tables, from records that were read in this process.

    Attributes:
        rows: for each table number, the batches of the table's rows. Each batch is paired with the
            index of the batch of records from which it was decoded.
        dead_letters: batches of dead letters. Each batch is paired with the index of the batch of
            records from which it was created.
        filtered: number of records that `where` has filtered out.
    """

    outputs: tuple[RoutedOutput, ...]
    rows: Mapping[int, Sequence[tuple[int, pa.RecordBatch]]]
    dead_letters: Sequence[tuple[int, pa.RecordBatch]]
    filtered: int


def read_routed(
    columns: RoutedColumns, batches: Callable[[], Iterable[pa.RecordBatch]]
) -> RoutedRecordsRead:
    """Decode records in this process; repeat until there are no more new fields and values.

    Args:
        columns: the columns of the tables. Columns and tables are added to this object.
        batches: function that returns the batches of records, with the columns of the Kafka source.
    """
    while True:
        outputs = columns.outputs()
        router = RecordRouter(columns.routing(outputs))
        readers = [RecordReader(output.reading) for output in outputs]
        rows: dict[int, list[tuple[int, pa.RecordBatch]]] = {}
        dead_letters: list[tuple[int, pa.RecordBatch]] = []
        for batch_number, batch in enumerate(batches()):
            routed = router.split(batch)
            if routed.dead_letters is not None:
                dead_letters.append((batch_number, routed.dead_letters))
            for number, records in routed.tables.items():
                for good, bad in readers[number].read(records):
                    if good is not None:
                        rows.setdefault(number, []).append((batch_number, good))
                    if bad is not None:
                        dead_letters.append((batch_number, bad))
        if not columns.extend(
            outputs,
            routing_fields=router.new_fields,
            new_fields=[reader.new_fields for reader in readers],
            values=router.new_values,
        ):
            return RoutedRecordsRead(
                outputs=outputs, rows=rows, dead_letters=dead_letters, filtered=router.filtered
            )


def record_routing(
    topic: Topic,
    tables: RoutedTables,
    outputs: Sequence[RoutedTable],
    plan: DecodePlan,
    *,
    format: RecordFormat,
    read_at: int,
) -> RecordRouting:
    """Return the rules that determine the table of each record of a batch.

    Args:
        outputs: the tables; the number of a table is its index in this sequence.
        plan: the plan for decoding records of the default table.
        read_at: the ingestion timestamp, in microseconds since the epoch.

    Raises:
        PipelineError: an expression can't be evaluated with the columns of the plan.
    """
    routes = topic.routes
    assert routes is not None
    with expression_errors(topic):
        value = route_value(topic.config, plan.columns)
        where = row_filter(topic.config, plan.columns)
    assert value is not None
    known = {field.name.lower() for field in plan.columns}
    read = {*value.fields, *(() if where is None else where.fields)}
    unseen = {*value.unseen, *(() if where is None else where.unseen)}
    # Decode fields that partition or cluster tables here, because they must have the same types in
    # all tables.
    layout = {name for name in layout_fields(topic) if name not in known}
    read |= layout
    columns = StructType(tuple(f for f in plan.columns if f.name.lower() in read))
    discover = bool(unseen or layout)
    numbers = {table: number for number, table in enumerate(outputs)}

    def number_of(value: str) -> int | None:
        table = tables.find(value)
        return None if table is None else numbers.get(table)

    named = {
        table.value_name: (number, table.fingerprint)
        for number, table in enumerate(outputs)
        if table.value_name is not None and not table.is_listed
    }
    unknown: int | str | None = None
    if routes.table_path is None:
        is_default = routes.on_unmatched == "default-table"
        unknown = DEFAULT_TABLE if is_default else "has no table, and on-unmatched is dead-letter"
    elif tables.is_full:
        unknown = f"has no table, because max-tables ({routes.max_tables}) is reached"
    return RecordRouting(
        plan=replace(
            plan,
            columns=columns,
            json_schema=None,
            only=frozenset(read),
            discover=discover,
            ignore=not discover,
            needed=frozenset(),  # if an expression of the router needs a field, it is discovered
            widens=False,
            inputs=frozenset(),
            max_new_fields=None,
        ),
        format=replace(format, json_schema=None),
        expressions=RowExpressions(
            where=where, masks=topic.config.column_masks, ingestion_timestamp=read_at
        ),
        value=value,
        listed={value: number_of(value) for value in routes.tables},
        named=named,
        reserved=tables.reserved,
        refused=dict(tables.refused),
        unknown=unknown,
        null=DEFAULT_TABLE if routes.on_null == "default-table" else None,
        ingestion_timestamp=read_at,
    )
