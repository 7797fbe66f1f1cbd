"""The schema policy of a topic, which determines the columns of its rows.

| `schema-policy` | effect on a field without a column |
|---|---|
| `evolve` | becomes a nullable column in the commit of its rows |
| `freeze` | is dropped; the commit reports it |
| `dead-letter` | makes its record a dead letter |
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence

from bayou.errors import PipelineError, PredicateError
from bayou.ingest.batch.expressions import (
    RowExpression,
    RowExpressions,
    derived_columns,
    needed_fields,
    route_value,
    row_filter,
)
from bayou.ingest.batch.masks import has_field, mask_problem
from bayou.ingest.batch.record_reader import RecordReading
from bayou.ingest.batch.row_layout import TIME_PARTS, RowLayout
from bayou.ingest.batch.target.target_state import TargetState
from bayou.ingest.config import Topic
from bayou.ingest.decode import DecodePlan, leaf_count, widened
from bayou.ingest.events import BatchReport
from bayou.ingest.schema.new_columns import with_new_columns, within_limit
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.ingest.upsert import BARE, DELETED, FORCED, SUPERSEDED
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import (
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from bayou.protocol.type_widening import is_automatic_widening


def check_keys(topic: Topic, layout: RowLayout) -> None:
    """Check that the key columns and the ordering column exist and can be compared.

    If the columns of the records aren't known yet, nothing is checked.
    """
    if topic.upsert_keys is None or not layout.record.fields:
        return
    keys = topic.upsert_keys
    for name in (*keys.columns, *([keys.ordering] if keys.ordering else [])):
        reason = unfit_key(name, layout.record)
        if reason is not None:
            what = "ordering-column" if name == keys.ordering else "key-columns"
            raise PipelineError(
                f"topic {topic.key!r}: {what}: {reason}. Set {what} "
                "to fields of the records with a primitive type.",
                topic=topic.key,
            )


def unfit_key(name: str, columns: StructType) -> str | None:
    """Return why a field can't be a key column or an ordering column; None if it can be."""
    field = next((f for f in columns if f.name == name), None)
    if field is None:
        return f"{name!r} isn't a field of the records"
    if not isinstance(field.data_type, PrimitiveType | DecimalType):
        return f"{name!r} is a {field.data_type}, which can't be compared"
    return None


def commit_tags(report: BatchReport, new_columns: Sequence[str]) -> dict[str, str]:
    """Return the tags for the `commitInfo` of a batch.

    The tags contain the names of ignored fields, the names of new columns, and the number of
    records that were filtered out.
    """
    info = {
        "leftOut": ", ".join(report.ignored),
        "newColumns": ", ".join(new_columns),
        "filtered": str(report.filtered or ""),
    }
    return {name: paths for name, paths in info.items() if paths}


def check_masks(topic: Topic, columns: StructType) -> None:
    """Check that each mask can be applied to the type of its column, if the column exists."""
    reason = _unfit_masks(topic, columns)
    if reason is not None:
        raise PipelineError(f"topic {topic.key!r}: masks: {reason}.", topic=topic.key)


def _unfit_masks(topic: Topic, columns: StructType) -> str | None:
    schema = to_arrow_schema(columns)
    reasons = (mask_problem(schema, path, mask) for path, mask in topic.config.column_masks.items())
    return next((reason for reason in reasons if reason is not None), None)


def unseen_masks(topic: Topic, columns: StructType) -> tuple[str, ...]:
    """Return the paths of masks that match no column.

    The result is empty if no columns are known yet. With `flatten`, paths with the mask `drop` are
    never returned, because a dropped object has no column.
    """
    config = topic.config
    if not columns.fields:
        return ()
    schema = to_arrow_schema(columns)
    return tuple(
        path
        for path, mask in config.masks.items()
        if path.lower() not in config.skipped_fields
        and not (config.flatten is not None and mask == "drop")
        and not any(has_field(schema, column) for column in config.column_paths(path))
    )


def read_columns(topic: Topic, columns: StructType) -> StructType:
    """Remove the columns of fields that are neither stored nor read by an expression."""
    skipped = topic.config.skipped_fields
    return StructType(tuple(f for f in columns if f.name.lower() not in skipped))


def row_layout(
    topic: Topic, columns: StructType, table: StructType, *, widens: bool = False
) -> RowLayout:
    """Return the layout of a topic's rows.

    Derived columns whose type isn't known yet are omitted.

    Args:
        columns: the columns of the record fields that are known so far; can be empty.
        table: the table's schema; empty if there is no table.
        widens: whether columns of the table can change to a wider type.

    Raises:
        PipelineError: an expression can't be evaluated with these columns, or its type can't be
            cast to the type of the table's column.
    """
    config = topic.config
    processing = config.processing
    derived: list[StructField] = []
    for name, expression in _derived(topic, columns).items():
        known = table.get(name)
        kind = expression.data_type
        if known is None:
            if kind is not None:
                derived.append(StructField(name=name, data_type=kind))
            continue
        if kind is None or not (widens and is_automatic_widening(known.data_type, kind)):
            kind = known.data_type
        with expression_errors(topic):
            expression.cast(kind)
        derived.append(StructField(name=known.name, data_type=kind))
    dropped = {name.lower() for name in processing.drop}
    return RowLayout.of(
        columns,
        config.destination.partition_columns,
        config.event_time,
        topic.metadata_columns,
        unstored=processing.unstored,
        derived=StructType(tuple(derived)),
        dropped=StructType(tuple(f for f in table if f.name.lower() in dropped)),
    )


def row_expressions(topic: Topic, layout: RowLayout, read_at: int) -> RowExpressions:
    """Return a topic's expressions, which can be evaluated for the columns of a layout.

    Args:
        read_at: the ingestion timestamp, in microseconds since the epoch.
    """
    by_name = {n.lower(): e for n, e in _derived(topic, layout.record).items()}
    with expression_errors(topic):
        return RowExpressions(
            columns=tuple((f, by_name[f.name.lower()].cast(f.data_type)) for f in layout.derived),
            where=row_filter(topic.config, layout.record),
            masks=topic.config.column_masks,
            ingestion_timestamp=read_at,
        )


def _derived(topic: Topic, columns: StructType) -> dict[str, RowExpression]:
    """Resolve the expressions of derived columns; empty if no columns are known yet."""
    if not columns.fields:
        return {}
    with expression_errors(topic):
        return derived_columns(topic.config, columns)


@contextlib.contextmanager
def expression_errors(topic: Topic) -> Iterator[None]:
    """Context manager that converts a `PredicateError` to a `PipelineError` naming the topic."""
    try:
        yield
    except PredicateError as error:
        raise PipelineError(
            f"topic {topic.key!r}: an expression doesn't fit the columns: {error.message}",
            topic=topic.key,
        ) from error


_MAX_FIRST_COLUMNS = 5_000
"""Maximum number of columns of the first batch of a table. `max-new-columns` can be larger.

A batch with more columns could exceed the memory of a worker.
"""


class SchemaPolicy:
    """The schema policy of one table, which determines the columns of the table's rows.

    Args:
        shared: lowercase names of fields whose columns must have the same type in all tables of
            `route-by`. A new table gets these types from another table.
    """

    def __init__(
        self,
        topic: Topic,
        target: TargetState,
        schema: RecordSchema,
        *,
        shared: Collection[str] = (),
    ) -> None:
        self._topic = topic
        self._inferred_first = topic.config.route_inputs | {*shared}
        self._target = target
        self._schema = schema
        self._refused_names: frozenset[str] = frozenset()
        self._unusable: frozenset[str] = frozenset()
        self._over_limit: frozenset[str] = frozenset()
        self._full = False  # whether this batch can add no more columns
        self._leaves = 0  # the table's leaf columns before this batch
        self._limit: int | None = None  # maximum number of new leaf columns of this batch

    def columns(self) -> StructType:
        """Return the columns of record fields, from the table and the schema file.

        Must be called at the start of each batch, because it resets the number of new columns, and
        the fields that `widened` refused only in the previous batch.
        """
        self._unusable = self._over_limit = frozenset()
        self._full = False
        known = self._target.columns
        merged = self._target.merged(known, self._record_columns)
        stored = self._stored(merged)
        if known.fields and stored != self._stored(known) and self._topic.config.policy != "evolve":
            new = [n for n in stored.names if n not in known.names]
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file has fields that {self._target.path} "
                f"doesn't have ({', '.join(new) or 'nested or wider fields'}). Set schema-policy: "
                "evolve (or enable-schema-evolution: true) to add them, or remove them from the "
                "schema-file.",
                topic=self._topic.key,
            )
        self._leaves = leaf_count(merged)
        self._limit = self._topic.config.destination.delta_config.max_new_columns
        if self._infers_columns(known):
            self._limit = max(self._limit, _MAX_FIRST_COLUMNS)
        return merged

    @property
    def _record_columns(self) -> StructType:
        return read_columns(self._topic, self._schema.columns)

    def _stored(self, columns: StructType) -> StructType:
        unstored = self._topic.config.processing.unstored
        return StructType(tuple(f for f in columns if f.name.lower() not in unstored))

    def layout(self, columns: StructType) -> RowLayout:
        """Return the layout of the table's rows.

        Args:
            columns: the columns of record fields.
        """
        config = self._topic.config
        layout = row_layout(self._topic, columns, self._target.schema, widens=self._target.widens)
        check_keys(self._topic, layout)
        check_masks(self._topic, columns)
        self._check_timestamps(columns)
        if layout.time_parts and config.event_time is not None and columns.fields:
            field = layout.derived.get(config.event_time) or columns.get(config.event_time)
            if field is None or field.data_type not in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
                kind = "isn't a field" if field is None else f"has type {field.data_type}"
                raise PipelineError(
                    f"topic {self._topic.key!r}: event-time {config.event_time!r} {kind}. Set "
                    "event-time to a field that has the format date-time or date in the "
                    "schema-file, or set the field's format in timestamp-formats.",
                    topic=self._topic.key,
                )
        return layout

    def _check_timestamps(self, columns: StructType) -> None:
        """Check that columns with a timestamp format have the type timestamp or string."""
        for name in self._topic.config.column_timestamps:
            field = columns.get(name)
            if field is not None and field.data_type not in (TIMESTAMP, STRING):
                raise PipelineError(
                    f"topic {self._topic.key!r}: timestamp-formats: {name!r} is a "
                    f"{field.data_type} in {self._target.path}, and this type can't store "
                    "timestamps. Remove the field from timestamp-formats, or set another "
                    "table-path.",
                    topic=self._topic.key,
                )

    def plan(self, layout: RowLayout) -> DecodePlan:
        """Return the plan for decoding records to the columns of a layout.

        If the layout has no columns yet, all fields of the records are new fields.
        """
        policy = self._topic.config.policy
        infers = self._infers_columns(layout.record)
        reserved = layout.reserved_names | self._target.reserved_names
        reserved -= self._topic.config.processing.unstored
        if not layout.record.fields and self._target.version is None:
            # Allow fields named `year`, `month` or `day`: they replace the columns that are
            # derived from the event time.
            reserved -= frozenset(layout.time_parts)
        return DecodePlan(
            columns=layout.record,
            json_schema=self._schema.validated_by,
            discover=(policy == "evolve" and not self._full) or infers,
            ignore=policy == "freeze" and not infers,
            needed=needed_fields(self._topic.config, layout.record),
            widens=policy == "evolve" and self._target.widens,
            reserved=reserved
            | self._refused_names
            | self._unusable
            | self._over_limit
            | {BARE, DELETED, FORCED, SUPERSEDED},
            over_limit=self._over_limit,
            inputs=self._topic.config.input_fields,
            skipped=self._topic.config.skipped_fields,
            max_new_fields=self._limit,
        )

    def _infers_columns(self, columns: StructType) -> bool:
        """Whether the columns are inferred from this batch, regardless of `schema-policy`.

        The columns of the fields that `where` and `route-by` read are inferred first. While the
        layout has only these columns, the other columns are inferred from the records that become
        rows of this table. The table may exist already, because a batch without rows can create it.
        """
        if self._schema.columns.fields:
            return not columns.fields
        return all(field.name.lower() in self._inferred_first for field in columns)

    def reading(self, layout: RowLayout, read_at: int) -> RecordReading:
        """Return the settings for converting the topic's records to rows of a layout.

        Args:
            read_at: the ingestion timestamp of all rows, in microseconds since the epoch.
        """
        return RecordReading(
            plan=self.plan(layout),
            layout=layout,
            ingestion_timestamp=read_at,
            format=self._schema.format,
            masks=self._topic.config.column_masks,
            expressions=row_expressions(self._topic, layout, read_at),
            upsert=self._topic.upsert_keys,
            debezium=self._topic.config.decode == "debezium",
            deletes_filtered=self._topic.config.deletes_filtered,
            partition_columns=self._topic.config.destination.partition_columns,
            folders=self._target.folders_show_values,
        )

    def widened(self, columns: StructType, new_fields: StructType) -> StructType:
        """Add new fields to columns, and widen the types of columns if the table has type widening.

        A field that can't become a column is refused in all batches. A field is refused only in
        this batch if it exceeds `max-new-columns`, or if a mask or an expression can't be applied
        to it.
        """
        if self._target.widens:
            columns = widened(columns, new_fields)
        new_fields = self._within_limit(columns, new_fields)
        if not self._is_restricted:
            columns, refused = with_new_columns(columns, new_fields, self._with_column)
            self._refused_names |= refused
            return columns
        valid, invalid = with_new_columns(columns, new_fields, self._with_column)
        columns, refused = with_new_columns(columns, valid, self._with_usable_column)
        self._refused_names |= invalid
        self._unusable |= refused
        return columns

    def without_limit(self) -> None:
        """Remove the limit `max-new-columns` for this batch. Must be called after `columns`."""
        self._limit = None

    def _within_limit(self, columns: StructType, new_fields: StructType) -> StructType:
        if self._limit is None:
            return new_fields
        room = max(0, self._limit - (leaf_count(columns) - self._leaves))
        accepted, refused = within_limit(columns, new_fields, room)
        self._over_limit |= refused
        self._full = bool(refused) and leaf_count(accepted) == room
        return accepted

    @property
    def _is_restricted(self) -> bool:
        """Whether a new field is refused if a mask or an expression can't be applied to it.

        If the table doesn't exist yet, such a field gets a column instead, and `layout` raises an
        error that stops the topic. A new table of `route-by` is an exception: the field is refused,
        because a record with a new value must not stop the topic.
        """
        config = self._topic.config
        is_read = bool(config.masks or config.processing.inputs or config.route_inputs)
        is_first = self._target.version is None and self._topic.routed_table is None
        return is_read and not is_first

    def _with_usable_column(self, columns: StructType, field: StructField) -> StructType | None:
        wider = self._with_column(columns, field)
        if wider is None or _unfit_masks(self._topic, wider) is not None:
            return None
        try:
            layout = row_layout(self._topic, wider, self._target.schema, widens=self._target.widens)
            row_expressions(self._topic, layout, 0)
            with expression_errors(self._topic):
                route_value(self._topic.config, layout.record)
        except PipelineError:
            return None
        return wider

    def _with_column(self, columns: StructType, field: StructField) -> StructType | None:
        partitions = self._topic.config.destination.partition_columns
        time_parts = {name.lower() for name in partitions if name in TIME_PARTS}
        if field.name.lower() in time_parts and field.name not in partitions:
            return None  # a partition column that the pipeline adds
        return self._target.with_column(columns, field)
