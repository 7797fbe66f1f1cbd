"""Settings of how records become rows and commits: derived columns, filter and batches."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    PositiveInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from bayou.errors import PredicateError
from bayou.ingest.config.base_section import Section
from bayou.kernel.expressions.model import (
    Column,
    Expression,
    Predicate,
    call,
    lit,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import replace_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.property_strings import byte_size

ByteSize: TypeAlias = Annotated[
    PositiveInt,
    BeforeValidator(lambda value: byte_size(value) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
]

_NOT_REPEATABLE = {
    "_ingestion_timestamp": "_kafka_timestamp",
    "_processed_at": "_kafka_timestamp",
}
"""Columns whose values change when a batch is repeated, each with the column to use instead."""
_RESERVED_PREFIXES = ("_kafka_", "_bayou_", "_change_", "_commit_")


class ProcessingConfig(Section):
    """Derived columns and filters of records, and how records are grouped into commits."""

    columns: dict[str, str] = Field(
        default={},
        description="Derived columns: for each name, an SQL expression on the fields of a record "
        "(after masks) and on _kafka_topic, _kafka_partition, _kafka_offset, _kafka_timestamp, "
        "_kafka_key and _kafka_headers. An expression can also read the derived columns above it. "
        "A derived column replaces the field with the same name. A record for which an expression "
        "fails becomes a dead letter.",
    )
    where: str | None = Field(
        default=None,
        description="SQL condition on fields and derived columns. Records for which the condition "
        "is FALSE or NULL are filtered out and counted. If it is FALSE, the record isn't "
        "validated. If it is NULL, the record is validated: an invalid record becomes a dead "
        "letter, a valid one is filtered out.",
    )
    on_filtered: Literal["skip", "delete"] = Field(
        default="skip",
        description="With enable-upsert, what happens to the row of a key if a record of the key "
        "is filtered out: skip retains the row, delete deletes the row if the row is older than "
        "the record.",
    )
    drop: tuple[str, ...] = Field(
        default=(),
        description="Top-level fields that aren't written to the table. Expressions and "
        "event-time can read them.",
    )
    batch_size: PositiveInt = Field(
        default=100_000, description="Maximum number of records in a commit."
    )
    max_batch_bytes: ByteSize | None = Field(
        default=None,
        description="Maximum total size of the records in a commit (keys, values and headers): a "
        "number of bytes, or a size such as 128mb. batch-size also applies. If a partition has new "
        "records, a commit has at least one of them, even above the limit. Default: no limit.",
    )
    flush_interval: Annotated[float, Field(gt=0)] = Field(
        default=60,
        description="Seconds that the first waiting record waits before a batch with fewer records "
        "than batch-size is committed.",
    )
    max_retries: Annotated[int, Field(ge=0)] = Field(
        default=3,
        description="Number of retries if a batch fails or brokers don't answer. After the last "
        "retry, the topic stops with an error.",
    )
    restart_interval: Annotated[float, Field(ge=0)] = Field(
        default=300,
        description="Seconds until a topic is restarted, if it stopped with an error of brokers, "
        "store or Spark. 0: the topic stays stopped. When all topics have stopped, the run ends.",
    )

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, value: dict[str, str]) -> dict[str, str]:
        known: dict[str, str] = {}
        for name, sql in value.items():
            if not name.strip():
                raise ValueError("a derived column has an empty name; name it")
            if _is_reserved(name):
                raise ValueError(f"{name}: the pipeline uses this name; choose another one")
            if name.lower() in known:
                raise ValueError(
                    f"{known[name.lower()]} and {name} are the same column name, because names "
                    "are case-insensitive; rename one of them"
                )
            known[name.lower()] = name
            check_expression(sql, f"{name}: ")
        return value

    @field_validator("where")
    @classmethod
    def _check_where(cls, value: str | None) -> str | None:
        if value is not None:
            check_expression(value)
        return value

    @field_validator("drop")
    @classmethod
    def _check_drop(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(name.strip() for name in value):
            raise ValueError("a name is empty; remove it")
        for name in value:
            if _is_reserved(name):
                raise ValueError(
                    f"{name} isn't a field of records, but a column that the pipeline adds; remove "
                    f"{name} from drop"
                )
        return value

    @model_validator(mode="after")
    def _check_dropped_fields(self) -> ProcessingConfig:
        derived = {name.lower(): name for name in self.columns}
        for name in self.drop:
            if name.lower() in derived:
                raise ValueError(
                    f"drop: the derived column {name} already replaces the field {name}; remove "
                    f"{name} from drop"
                )
        return self

    @property
    def expressions(self) -> dict[str, Expression]:
        """The expression of each derived column, with other derived columns expanded."""
        expanded: dict[str, Expression] = {}
        for name, sql in self.columns.items():
            expanded[name] = _expanded(parsed_expression(sql), expanded)
        return expanded

    @property
    def condition(self) -> Predicate | None:
        """The condition of `where`, with derived columns expanded; None if it isn't set."""
        if self.where is None:
            return None
        condition = _expanded(parsed_expression(self.where), self.expressions)
        assert isinstance(condition, Predicate)  # the parser returns only subclasses of Predicate
        return condition

    def expanded(self, expression: Expression) -> Expression:
        """Return the expression; each derived column is replaced by its defining expression."""
        return _expanded(expression, self.expressions)

    @property
    def where_reads_derived_columns(self) -> bool:
        """Whether the condition `where` reads a derived column."""
        if self.where is None:
            return False
        derived = {name.lower() for name in self.columns}
        return not derived.isdisjoint(names_in(parsed_expression(self.where)))

    @property
    def unstored(self) -> frozenset[str]:
        """Lowercase names of fields that `drop` removes or that a derived column replaces."""
        return frozenset(name.lower() for name in (*self.drop, *self.columns))

    @property
    def inputs(self) -> frozenset[str]:
        """Lowercase names of the top-level columns that `where` and the derived columns read."""
        condition = self.condition
        expressions = [*self.expressions.values(), *([] if condition is None else [condition])]
        return frozenset(name for expression in expressions for name in names_in(expression))


def _is_reserved(name: str) -> bool:
    return name.lower().startswith(_RESERVED_PREFIXES) or name.lower() in _NOT_REPEATABLE


@functools.lru_cache(maxsize=256)
def parsed_expression(sql: str) -> Expression:
    """Parse an SQL expression."""
    return parse_expression(sql)


def _expanded(expression: Expression, derived: Mapping[str, Expression]) -> Expression:
    """Replace each derived column in an expression by the expression that defines it."""
    by_name = {name.lower(): inner for name, inner in derived.items()}

    def expand(column: Column) -> Expression:
        inner = by_name.get(column.path[0].lower())
        if inner is None:
            return column
        if isinstance(inner, Column):
            return Column((*inner.path, *column.path[1:]))
        for name in column.path[1:]:
            inner = call(".", inner, lit(name))
        return inner

    return replace_columns(expression, expand) if by_name else expression


def names_in(expression: Expression) -> Iterator[str]:
    """Yield the lowercase names of the top-level columns that an expression reads."""
    return (path[0].lower() for path in referenced_columns(expression))


def check_expression(sql: str, prefix: str = "") -> None:
    """Check that an expression is valid, and that a repeated batch gives the same result.

    Raises:
        ValueError: the expression can't be parsed, or it reads a column such as `_processed_at`,
            whose value changes when a batch is repeated.
    """
    try:
        names = set(names_in(parsed_expression(sql)))
    except PredicateError as error:
        raise ValueError(f"{prefix}{error.message.rstrip('.')}") from error
    for column, instead in _NOT_REPEATABLE.items():
        if column in names:
            raise ValueError(
                f"{prefix}the value of {column} changes when a batch is repeated; use {instead}"
            )
