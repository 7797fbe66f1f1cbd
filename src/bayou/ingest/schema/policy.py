"""The schema policy of a topic: the columns of its rows, and fields without a column.

| `schema-policy` | a field without a column |
|---|---|
| `evolve` | becomes a nullable column in the commit of its rows |
| `freeze` | is dropped; the commit reports it |
| `dead-letter` | makes its record a dead letter |
"""

from __future__ import annotations

from collections.abc import Sequence

from bayou.errors import PipelineError
from bayou.ingest.batch.masks import has_field, mask_problem
from bayou.ingest.batch.record_reader import RecordReading
from bayou.ingest.batch.rows import TIME_PARTS, RowLayout
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.config import Topic
from bayou.ingest.decode import DecodePlan, leaf_count, widened
from bayou.ingest.decode.formats import RecordFormat
from bayou.ingest.schema.new_columns import with_new_columns, within_limit
from bayou.ingest.schema.topic_format import validated_by
from bayou.ingest.upsert import DELETED, FORCED
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

__all__ = [
    "SchemaPolicy",
    "check_keys",
    "check_masks",
    "schema_change_tags",
    "unfit_key",
    "unseen_masks",
]


def check_keys(topic: Topic, layout: RowLayout) -> None:
    """Check upsert keys against the columns of a record, unless no columns are known yet.

    Raises:
        PipelineError: a column doesn't exist, or can't be compared.
    """
    if topic.upsert_keys is None or not layout.record.fields:
        return
    keys = topic.upsert_keys
    for name in (*keys.columns, *([keys.ordering] if keys.ordering else [])):
        reason = unfit_key(name, layout.record)
        if reason is not None:
            what = "ordering-column" if name == keys.ordering else "key-columns"
            raise PipelineError(
                f"topic {topic.key!r}: {what}: {reason}. Name fields of the records.",
                topic=topic.key,
            )


def unfit_key(name: str, columns: StructType) -> str | None:
    """Return why a column can't be a key or ordering column, None if it can."""
    field = next((f for f in columns if f.name == name), None)
    if field is None:
        return f"{name!r} isn't a field of the records"
    if not isinstance(field.data_type, PrimitiveType | DecimalType):
        return f"{name!r} is a {field.data_type}, which can't be compared"
    return None


def schema_change_tags(left_out: Sequence[str], new_columns: Sequence[str]) -> dict[str, str]:
    """Return the commit info of dropped fields and new columns."""
    info = {"leftOut": ", ".join(left_out), "newColumns": ", ".join(new_columns)}
    return {name: paths for name, paths in info.items() if paths}


def check_masks(topic: Topic, columns: StructType) -> None:
    """Check masks against the columns of a record; missing fields are skipped.

    Raises:
        PipelineError: a mask can't be applied to its column.
    """
    reason = _unfit_masks(topic, columns)
    if reason is not None:
        raise PipelineError(f"topic {topic.key!r}: masks: {reason}.", topic=topic.key)


def _unfit_masks(topic: Topic, columns: StructType) -> str | None:
    schema = to_arrow_schema(columns)
    reasons = (mask_problem(schema, path, mask) for path, mask in topic.config.column_masks.items())
    return next((reason for reason in reasons if reason is not None), None)


def unseen_masks(topic: Topic, columns: StructType) -> tuple[str, ...]:
    """Return the paths of masks that match no column; empty while no columns are known.

    With `flatten`, `drop` masks are skipped, because a dropped object has no column.
    """
    config = topic.config
    if not columns.fields:
        return ()
    schema = to_arrow_schema(columns)
    return tuple(
        path
        for path, mask in config.masks.items()
        if not (config.flatten is not None and mask == "drop")
        and not any(has_field(schema, column) for column in config.column_paths(path))
    )


class SchemaPolicy:
    """The schema policy of one topic, which determines the columns of its rows.

    Args:
        topic: the topic.
        target: the opened target table.
        json_schema: text of the topic's schema file, None for none.
        schema_columns: the columns of the schema file.
    """

    def __init__(
        self,
        topic: Topic,
        target: TargetTable,
        *,
        json_schema: str | None,
        schema_columns: StructType,
    ) -> None:
        self._topic = topic
        self._target = target
        self._json_schema = json_schema
        self._schema_columns = schema_columns
        self._refused_names: frozenset[str] = frozenset()
        self._unmaskable: frozenset[str] = frozenset()
        self._over_limit: frozenset[str] = frozenset()
        self._full = False  # no room for any new column in this batch
        self._leaves: int | None = None  # of the table, before the columns of this batch

    def columns(self) -> StructType:
        """Return the columns of record fields, including those of the schema file.

        Called at the start of each batch: resets the fields that the previous batch refused.

        Raises:
            PipelineError: the schema file doesn't fit the table.
        """
        self._unmaskable = self._over_limit = frozenset()
        self._full = False
        known = self._target.columns
        merged = self._target.merged(known, self._schema_columns)
        if known.fields and merged != known and self._topic.config.policy != "evolve":
            new = [n for n in merged.names if n not in known.names]
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file has fields that {self._target.path} "
                f"doesn't have ({', '.join(new) or 'nested or wider fields'}). Set schema-policy: "
                "evolve (or enable-schema-evolution: true) to add them, or remove them from the "
                "schema-file.",
                topic=self._topic.key,
            )
        self._leaves = leaf_count(merged) if known.fields else None
        return merged

    def layout(self, columns: StructType) -> RowLayout:
        """Return the table's columns for records with these fields.

        Raises:
            PipelineError: the event time, a timestamp, a mask or a key doesn't fit its column.
        """
        config = self._topic.config
        layout = RowLayout.of(
            columns,
            config.destination.partition_columns,
            config.event_time,
            self._topic.more_columns,
        )
        check_keys(self._topic, layout)
        check_masks(self._topic, columns)
        self._check_timestamps(columns)
        if layout.time_parts and config.event_time is not None and columns.fields:
            field = columns.get(config.event_time)
            if field is None or field.data_type not in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
                kind = "isn't a field" if field is None else f"has type {field.data_type}"
                raise PipelineError(
                    f"topic {self._topic.key!r}: event-time {config.event_time!r} {kind}. Name a "
                    "field with the format date-time or date in the schema-file, or set its format "
                    "in timestamp-formats.",
                    topic=self._topic.key,
                )
        return layout

    def _check_timestamps(self, columns: StructType) -> None:
        """Check that columns of timestamps are timestamps, or strings, which store ISO 8601."""
        for name in self._topic.config.column_timestamps:
            field = columns.get(name)
            if field is not None and field.data_type not in (TIMESTAMP, STRING):
                raise PipelineError(
                    f"topic {self._topic.key!r}: timestamp-formats: {name!r} is a "
                    f"{field.data_type} in {self._target.path}, which can't store timestamps. "
                    "Remove it from timestamp-formats, or set another table-path.",
                    topic=self._topic.key,
                )

    def plan(self, layout: RowLayout) -> DecodePlan:
        """Return how records become rows of a layout; without columns all fields are new."""
        policy = self._topic.config.policy
        taken = layout.taken
        if not layout.record.fields and self._target.version is None:
            # It isn't known yet whether the records have fields with these names.
            taken -= frozenset(layout.time_parts)
        return DecodePlan(
            columns=layout.record,
            json_schema=validated_by(self._topic, self._json_schema),
            discover=(policy == "evolve" and not self._full) or not layout.record.fields,
            ignore=policy == "freeze" and bool(layout.record.fields),
            widens=policy == "evolve" and self._target.widens,
            taken=taken
            | self._refused_names
            | self._unmaskable
            | self._over_limit
            | {DELETED, FORCED},
            over_limit=self._over_limit,
            max_new_fields=None if self._leaves is None else self._max_new_columns,
        )

    def reading(self, layout: RowLayout, format: RecordFormat, read_at: int) -> RecordReading:
        """Return how the topic's records are read as rows of a layout.

        Args:
            layout: the result of `layout`.
            format: the format of the values.
            read_at: ingestion timestamp of all rows, in microseconds since the epoch.
        """
        return RecordReading(
            plan=self.plan(layout),
            layout=layout,
            ingestion_timestamp=read_at,
            format=format,
            masks=self._topic.config.column_masks,
            upsert=self._topic.upsert_keys,
            debezium=self._topic.config.decode == "debezium",
            partition_columns=self._topic.config.destination.partition_columns,
            folders=self._target.folders_show_values,
        )

    def widened(self, columns: StructType, new_fields: StructType) -> StructType:
        """Return the columns with new fields; an invalid column is refused from now on.

        A field beyond `max-new-columns` is refused for the rest of the batch.
        """
        if self._target.widens:
            columns = widened(columns, new_fields)
        new_fields = self._within_limit(columns, new_fields)
        if not self._masks_restrict:
            columns, refused = with_new_columns(columns, new_fields, self._with_column)
            self._refused_names |= refused
            return columns
        valid, invalid = with_new_columns(columns, new_fields, self._with_column)
        columns, refused = with_new_columns(columns, valid, self._with_masked_column)
        self._refused_names |= invalid
        self._unmaskable |= refused
        return columns

    def without_limit(self) -> None:
        """Let this batch add any number of columns; call it after `columns`."""
        self._leaves = None

    @property
    def _max_new_columns(self) -> int:
        return self._topic.config.destination.delta_config.max_new_columns

    def _within_limit(self, columns: StructType, new_fields: StructType) -> StructType:
        if self._leaves is None:
            return new_fields
        room = max(0, self._max_new_columns - (leaf_count(columns) - self._leaves))
        accepted, refused = within_limit(columns, new_fields, room)
        self._over_limit |= refused
        self._full = bool(refused) and leaf_count(accepted) == room
        return accepted

    @property
    def _masks_restrict(self) -> bool:
        """Whether masks restrict new columns; a table's first columns are checked elsewhere."""
        return bool(self._topic.config.masks) and self._target.version is not None

    def _with_masked_column(self, columns: StructType, field: StructField) -> StructType | None:
        wider = self._with_column(columns, field)
        return None if wider is None or _unfit_masks(self._topic, wider) is not None else wider

    def _with_column(self, columns: StructType, field: StructField) -> StructType | None:
        partitions = self._topic.config.destination.partition_columns
        time_parts = {name.lower() for name in partitions if name in TIME_PARTS}
        if field.name.lower() in time_parts and field.name not in partitions:
            return None  # the pipeline adds this partition column
        return self._target.with_column(columns, field)
