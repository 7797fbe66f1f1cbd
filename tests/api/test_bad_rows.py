"""Bad rows, through every entrance: an error that names what is wrong, and nothing written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    BayouError,
    ConstraintViolationError,
    EvaluationError,
    PredicateError,
    SchemaError,
)
from bayou.kernel import Operation, Table, Transaction, write_data
from support.refusals import good, make_table, refused

# Entrances for rows into a table that is there.


def by_write(path: str, rows: pa.Table) -> None:
    bayou.write(path, rows)


def by_overwrite(path: str, rows: pa.Table) -> None:
    bayou.write(path, rows, mode="overwrite")


def by_transaction(path: str, rows: pa.Table) -> None:
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    transaction = builder.build(engine)
    state = transaction.transaction_state(engine)
    transaction.commit(engine, write_data(engine, state, rows.to_batches()))


def by_steps(path: str, rows: pa.Table) -> None:
    """As a connector does that knows its rows' partition."""
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    transaction = snapshot.build_update_table_transaction("test/1", Operation.WRITE).build(engine)
    state = transaction.transaction_state(engine)
    values = {"part": rows.column("part")[0].as_py()}
    batches = Transaction.transform_logical_data(
        engine, state, rows.drop_columns(["part"]).to_batches(), values
    )
    context = Transaction.get_write_context(engine, state, values)
    statuses = engine.parquet.write_parquet_files(
        context.target_directory, batches, context.statistics_columns, context.options
    )
    actions = Transaction.generate_append_actions(engine, state, statuses, context)
    transaction.commit(engine, actions)


def by_merge(path: str, rows: pa.Table) -> None:
    merge = bayou.table(path).merge(rows, "target.rate = 12345.0")
    merge.when_not_matched_insert_all().execute()


ROW_ENTRANCES: dict[str, Callable[[str, pa.Table], None]] = {
    "write": by_write,
    "overwrite": by_overwrite,
    "transaction": by_transaction,
    "steps": by_steps,
    "merge": by_merge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRows:
    """Rows that a table with rules refuses.

    Attributes:
        words: parts of the message: column, constraint, value.
        but: entrances with another outcome; None: the rows are taken.
    """

    rows: Callable[[], pa.Table]
    error: type[BayouError]
    words: tuple[str, ...]
    but: Mapping[str, type[BayouError] | None] = field(default_factory=dict)
    words_but: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def invalid_text() -> pa.Array:
    data = pa.array([b"\xff\xfe"])
    return pa.Array.from_buffers(pa.string(), 1, data.buffers())


CAST = {"merge": EvaluationError}
"""MERGE casts, as delta-spark does; what can't be cast fails."""

LONG_PART = "x" * 254

BAD_ROWS: dict[str, BadRows] = {
    "another type": BadRows(
        rows=lambda: good(id=pa.array(["one"])),
        error=SchemaError,
        words=("'id'",),
        but=CAST,
    ),
    "a type that a merge alone casts": BadRows(
        rows=lambda: good(id=pa.array([3.0]), twice=pa.array([6])),
        error=SchemaError,
        words=("'id'", "long"),
        but={"merge": None},
    ),
    "another type in a struct": BadRows(
        rows=lambda: good(s=pa.array([{"strict": "one", "free": "x"}])),
        error=SchemaError,
        words=("s.strict",),
        but=CAST,
        words_but={"merge": ("strict",)},
    ),
    "another type in a list": BadRows(
        rows=lambda: good(list=pa.array([[{"strict": "one", "free": "x"}]])),
        error=SchemaError,
        words=("list.element.strict",),
        but=CAST,
        words_but={"merge": ("list",)},
    ),
    "a scalar for a struct": BadRows(
        rows=lambda: good(s=pa.array([1])),
        error=SchemaError,
        words=("'s'",),
    ),
    "null": BadRows(
        rows=lambda: good(id=pa.array([None], pa.int64()), twice=pa.array([None], pa.int64())),
        error=ConstraintViolationError,
        words=("'id'", "is NOT NULL", "1 of 1"),
    ),
    "null in a struct": BadRows(
        rows=lambda: good(s=pa.array([{"strict": None, "free": "x"}])),
        error=ConstraintViolationError,
        words=("'s.strict'", "is NOT NULL", "free = 'x'"),
    ),
    "null in a struct in a list": BadRows(
        rows=lambda: good(list=pa.array([[{"strict": None, "free": "x"}]])),
        error=ConstraintViolationError,
        words=("'list.element.strict'", "is NOT NULL"),
    ),
    "null in a map": BadRows(
        rows=lambda: good(map=pa.array([[("k", None)]], pa.map_(pa.string(), pa.int64()))),
        error=ConstraintViolationError,
        words=("'map.value'", "is NOT NULL"),
    ),
    "a missing column that is NOT NULL": BadRows(
        rows=lambda: good(id=None, twice=None),
        error=SchemaError,
        words=("'id'", "is NOT NULL"),
        but={
            "transaction": ConstraintViolationError,
            "steps": ConstraintViolationError,
            "merge": PredicateError,
        },
        words_but={"merge": ("'id'",)},
    ),
    "a broken CHECK": BadRows(
        rows=lambda: good(id=pa.array([-5]), twice=pa.array([-10])),
        error=ConstraintViolationError,
        words=("CHECK constraint positive", "id > 0", "id = -5"),
    ),
    "a broken invariant": BadRows(
        rows=lambda: good(age=pa.array([200], pa.int32())),
        error=ConstraintViolationError,
        words=("invariant of column age", "age < 150", "age = 200"),
    ),
    "a generated column's other value": BadRows(
        rows=lambda: good(twice=pa.array([7])),
        error=ConstraintViolationError,
        words=("generated column twice", "id * 2", "7"),
    ),
    "a text that is too long": BadRows(
        rows=lambda: good(code=pa.array(["abcdef"])),
        error=ConstraintViolationError,
        words=("'code'", "varchar(3)", "'abcdef'"),
    ),
    "a column twice": BadRows(
        rows=lambda: good().append_column("ID", pa.array([1])),
        error=SchemaError,
        words=("'ID'", "Rename"),
    ),
    "a field twice": BadRows(
        rows=lambda: good(
            s=pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], ["strict", "STRICT"])
        ),
        error=SchemaError,
        words=("'s.STRICT'", "Rename"),
    ),
    "a column that the table lacks": BadRows(
        rows=lambda: good(more=pa.array([1])),
        error=SchemaError,
        words=("'more'",),
        but={"merge": None},
    ),
    "a field that the table lacks": BadRows(
        rows=lambda: good(s=pa.array([{"strict": 1, "more": 1}])),
        error=SchemaError,
        words=("'s.more'",),
        words_but={"merge": ("'s'", "'more'")},
    ),
    "a type that Delta lacks": BadRows(
        rows=lambda: good(day=pa.array([1], pa.time64("us"))),
        error=SchemaError,
        words=("'day'", "time64[us]"),
    ),
    "a type of no order that Delta lacks, nested": BadRows(
        rows=lambda: good(s=pa.array([{"strict": 1, "free": dt.timedelta(1)}])),
        error=SchemaError,
        words=("'s.free'", "duration[us]"),
    ),
    "a decimal of more digits": BadRows(
        rows=lambda: good(amount=pa.array([Decimal("12345.50")], pa.decimal128(7, 2))),
        error=SchemaError,
        words=("'amount'", "decimal(5,2)"),
        but=CAST,
    ),
    "a decimal of more digits than any": BadRows(
        rows=lambda: good(amount=pa.array([Decimal("1.5")], pa.decimal256(50, 2))),
        error=SchemaError,
        words=("'amount'", "decimal256(50, 2)"),
    ),
    "a time finer than the table's": BadRows(
        rows=lambda: good(at=pa.array([1_001], pa.timestamp("ns", "UTC"))),
        error=SchemaError,
        words=("'at'", "1001"),
    ),
    "a time out of range": BadRows(
        rows=lambda: good(at=pa.array([2**60], pa.timestamp("s", "UTC"))),
        error=SchemaError,
        words=("'at'", str(2**60)),
    ),
    "a day that isn't whole": BadRows(
        rows=lambda: good(day=pa.array([1], pa.int64()).cast(pa.date64(), safe=False)),
        error=SchemaError,
        words=("'day'",),
    ),
    "a partition that is too long for a folder": BadRows(
        rows=lambda: good(part=pa.array([LONG_PART])),
        error=SchemaError,
        words=("'part'", "255"),
    ),
    "a partition that is too long once escaped": BadRows(
        rows=lambda: good(part=pa.array(["%" * 90])),
        error=SchemaError,
        words=("'part'", "%25%25"),
    ),
    "a partition that isn't UTF-8": BadRows(
        rows=lambda: good(part=invalid_text()),
        error=ArgumentError,
        words=("'part'", "isn't valid UTF-8"),
        but={"steps": None, "transaction": SchemaError},  # no Python text of it to give
        words_but={"transaction": ("'part'", "0xff")},
    ),
    "a text in a struct of another kind of null": BadRows(
        rows=lambda: good(s=pa.array([[1]])),
        error=SchemaError,
        words=("'s'",),
    ),
}


@pytest.mark.parametrize("entrance", ROW_ENTRANCES)
@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    tmp_path: Path, name: str, entrance: str
) -> None:
    path = str(tmp_path / "table")
    make_table(path)
    bad = BAD_ROWS[name]
    if name == "a partition that isn't UTF-8" and entrance == "steps":
        return
    error = bad.but.get(entrance, bad.error)
    rows = bad.rows()
    if error is None:
        ROW_ENTRANCES[entrance](path, rows)
        return
    words = bad.words_but.get(entrance, bad.words)
    refused(tmp_path, lambda: ROW_ENTRANCES[entrance](path, rows), error, words)


# Values that an UPDATE makes.


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"id": "-5"}, ConstraintViolationError, ("positive", "id = -5")),
        ({"id": "NULL"}, ConstraintViolationError, ("'id'", "is NOT NULL")),
        ({"s.strict": "NULL"}, ConstraintViolationError, ("'s.strict'", "is NOT NULL")),
        ({"code": "'abcdef'"}, ConstraintViolationError, ("varchar(3)", "'abcdef'")),
        ({"age": "200"}, ConstraintViolationError, ("age < 150", "200")),
        ({"twice": "7"}, ConstraintViolationError, ("generated column twice", "7")),
        ({"amount": "12345.5"}, EvaluationError, ("'amount'", "12345.5")),
        ({"age": "9876543210"}, EvaluationError, ("'age'", "9876543210")),
        ({"id": "'one'"}, EvaluationError, ("'id'", "'one'")),
        ({"rate": "1 / 0"}, EvaluationError, ("'rate'", "zero")),
        ({"day": "'nonsense'"}, EvaluationError, ("'day'", "'nonsense'")),
        ({"part": f"'{LONG_PART}'"}, SchemaError, ("'part'", "255")),
        ({"more": "1"}, SchemaError, ("'more'",)),
        ({"s": "1"}, PredicateError, ("'s'",)),
        ({"s.strict": "1", "s": "NULL"}, SchemaError, ("set the same column",)),
        ({}, ArgumentError, ("at least one",)),
        ({"rate": "more + 1"}, PredicateError, ("'more'",)),
        ({"rate": "rate +"}, PredicateError, ("rate +",)),
    ],
    ids=str,
)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_an_update_to_what_cannot_be_changes_nothing(
    tmp_path: Path, vectors: str, values: dict[str, str], error: type[BayouError], words: Any
) -> None:
    path = str(tmp_path / "table")
    make_table(path)
    bayou.table(path).alter.set_table_properties({"delta.enableDeletionVectors": vectors})
    refused(tmp_path, lambda: bayou.table(path).update(values), error, words)
