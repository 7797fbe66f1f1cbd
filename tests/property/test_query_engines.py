"""Queries of DuckDB, Polars and pyarrow over tables, against the same queries over all rows.

The engines get the rows of `to_arrow` as tables of their own, which nothing skips. The tables have
deletion vectors, mapped columns, partitions and extreme values, and are written by Bayou, or by
deltalake, whose statistics don't mention NaN.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bayou
from support.examples import examples

UTC = dt.UTC
FAR = 631_139_040_000_000_000  # us; the year 21970, which Python's datetime doesn't have
TYPES: dict[str, pa.DataType] = {
    "p": pa.string(),
    "l": pa.int64(),
    "i": pa.int32(),
    "d": pa.float64(),
    "f": pa.float32(),
    "m": pa.decimal128(10, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "da": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
    "bin": pa.binary(),
    "st": pa.struct([("a", pa.int64())]),
}
VALUES: dict[str, list[Any]] = {
    "p": ["a", "b", "a/b"],
    "l": [0, 1, -3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "i": [0, 1, -3, 2**31 - 1],
    "d": [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 5.0],
    "f": [math.nan, math.inf, 0.0, 0.1, 5.0, 16777216.0],
    "m": [Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99"), Decimal("5.00")],
    "s": ["", "a", "ab", "B", "ö", "a" * 40, "\U0001f600", "it's"],
    "b": [True, False],
    "da": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "ts": [0, -62_135_596_800_000_000, 1_704_067_200_000_001, 253_402_300_799_999_999, FAR],
    "n": [0, -62_135_596_800_000_000, 1_704_067_200_000_001, FAR],
    "bin": [b"", b"a", b"\xff\x00"],
    "st": [None, {"a": None}, {"a": 1}, {"a": 5}],
}
CONSTANTS: dict[str, list[Any]] = {
    **{name: VALUES[name] for name in ("p", "s", "b", "da", "bin")},
    "l": [*VALUES["l"], 0.5, 1.0, float(2**53)],
    "i": [0, 1, 5, 2**31 - 1, 0.5],
    "d": [*VALUES["d"], 5, 1],
    "f": [*VALUES["f"], 5],
    "m": [Decimal("1.50"), Decimal("1.505"), Decimal(5), 5],
    "ts": [
        dt.datetime(1, 1, 1, tzinfo=UTC),
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
    "n": [
        dt.datetime(1, 1, 1),
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 1, 1, 0, 0, 0, 1),
    ],
    "st": [1, 3, 5],
}
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Comparison:
    column: str
    op: str
    constant: Any

    def sql(self) -> str:
        return f"{sql_column(self.column)} {self.op} {sql_constant(self.constant)}"

    def expression(self, column: Callable[[str], Any], constant: Callable[..., Any]) -> Any:
        value = constant(self.constant, self.column)
        return OPERATORS[self.op](column(self.column), value)


@dataclass(frozen=True)
class IsNull:
    column: str

    def sql(self) -> str:
        return f"{sql_column(self.column)} IS NULL"

    def expression(self, column: Callable[[str], Any], constant: Callable[..., Any]) -> Any:
        return column(self.column).is_null()


@dataclass(frozen=True)
class In:
    column: str
    constants: tuple[Any, ...]

    def sql(self) -> str:
        listed = ", ".join(map(sql_constant, self.constants))
        return f"{sql_column(self.column)} IN ({listed})"

    def expression(self, column: Callable[[str], Any], constant: Callable[..., Any]) -> Any:
        found = column(self.column)
        if isinstance(found, pl.Expr):
            return found.is_in(list(self.constants))
        return found.isin(list(self.constants))


@dataclass(frozen=True)
class StartsWith:
    prefix: str

    def sql(self) -> str:
        return f"starts_with(s, {sql_constant(self.prefix)})"

    def expression(self, column: Callable[[str], Any], constant: Callable[..., Any]) -> Any:
        found = column("s")
        if isinstance(found, pl.Expr):
            return found.str.starts_with(self.prefix)
        return pc.starts_with(found, self.prefix)


@dataclass(frozen=True)
class Not:
    operand: Any

    def sql(self) -> str:
        return f"NOT ({self.operand.sql()})"

    def expression(self, column: Callable[[str], Any], constant: Callable[..., Any]) -> Any:
        return ~self.operand.expression(column, constant)


@dataclass(frozen=True)
class Junction:
    word: str
    operands: tuple[Any, ...]

    def sql(self) -> str:
        return f" {self.word} ".join(f"({operand.sql()})" for operand in self.operands)

    def expression(self, column: Callable[[str], Any], constant: Callable[..., Any]) -> Any:
        parts = [operand.expression(column, constant) for operand in self.operands]
        return functools.reduce(operator.and_ if self.word == "AND" else operator.or_, parts)


def sql_column(name: str) -> str:
    return "st.a" if name == "st" else name


def sql_constant(value: Any) -> str:
    match value:
        case bool() | int() | Decimal():
            return str(value)
        case float():
            return f"'{value}'::DOUBLE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
        case dt.datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case _:
            return f"DATE '{value.isoformat()}'"


def conditions() -> st.SearchStrategy[Any]:
    def leaf(name: str) -> st.SearchStrategy[Any]:
        constants = st.sampled_from(CONSTANTS[name])
        one_type = [v for v in CONSTANTS[name] if type(v) is type(CONSTANTS[name][0])]
        return st.one_of(
            st.builds(Comparison, st.just(name), st.sampled_from(list(OPERATORS)), constants),
            st.builds(Comparison, st.just(name), st.sampled_from(list(OPERATORS)), constants),
            st.builds(IsNull, st.just(name)),
            st.builds(
                In, st.just(name), st.lists(st.sampled_from(one_type), min_size=1).map(tuple)
            ),
        )

    leaves = st.sampled_from(list(TYPES)).flatmap(leaf)
    leaves |= st.builds(StartsWith, st.sampled_from(["a", "aa", "B", "it'"]))

    def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        operands = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.builds(Not, inner) | st.builds(Junction, st.sampled_from(["AND", "OR"]), operands)

    return st.recursive(leaves, compound, max_leaves=4)


ROWS = st.fixed_dictionaries({n: st.none() | st.sampled_from(v) for n, v in VALUES.items()})
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=4)


def arrow_rows(rows: Sequence[dict[str, Any]], first_id: int) -> pa.Table:
    arrays: dict[str, Any] = {"id": pa.array(range(first_id, first_id + len(rows)), pa.int64())}
    for name, data_type in TYPES.items():
        values = [row[name] for row in rows]
        if pa.types.is_timestamp(data_type):
            arrays[name] = pa.array(values, pa.int64()).cast(data_type)
        else:
            arrays[name] = pa.array(values, data_type)
    return pa.table(arrays)


PARTITIONS = ("p", "i", "d", "m", "b", "da")
KINDS = ("plain", "vectors", "mapped", "deltalake", *(f"by {name}" for name in PARTITIONS))


def write_table(path: str, kind: str, files: Sequence[Sequence[dict[str, Any]]]) -> None:
    properties = {
        "vectors": {"delta.enableDeletionVectors": "true"},
        "mapped": {"delta.columnMapping.mode": "name"},
    }.get(kind)
    count = 0
    for rows in files:
        data = arrow_rows(rows, count)
        if kind == "deltalake":
            deltalake.write_deltalake(path, data, mode="append")
        else:
            partitions = [kind.removeprefix("by ")] if kind.startswith("by ") else None
            bayou.write(path, data, partition_by=partitions, configuration=properties)
        count += len(rows)
    if kind == "vectors":
        bayou.table(path).delete("id % 3 = 1")


@pytest.fixture(scope="module")
def native() -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@given(files=FILES, kind=st.sampled_from(KINDS), condition=conditions())
@settings(max_examples=examples(80), deadline=None)
def test_duckdb_returns_the_rows_that_it_returns_for_a_table_of_its_own(
    native: Any, files: Any, kind: str, condition: Any
) -> None:
    with tempfile.TemporaryDirectory() as path:
        write_table(path, kind, files)
        native.register("rows", bayou.table(path).to_arrow())
        native.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM rows")
        query = f"SELECT id FROM t WHERE {condition.sql()} ORDER BY id"
        expected = native.sql(query).fetchall()
        assert bayou.sql(query, t=bayou.table(path)).fetchall() == expected


@given(files=FILES, kind=st.sampled_from(KINDS), condition=conditions())
@settings(max_examples=examples(80), deadline=None)
def test_polars_returns_the_rows_that_it_returns_for_a_frame_of_its_own(
    files: Any, kind: str, condition: Any
) -> None:
    def column(name: str) -> pl.Expr:
        return pl.col("st").struct.field("a") if name == "st" else pl.col(name)

    expression = condition.expression(column, lambda value, _: value)
    with tempfile.TemporaryDirectory() as path:
        write_table(path, kind, files)
        frame = pl.from_arrow(bayou.table(path).to_arrow())
        assert isinstance(frame, pl.DataFrame)
        try:
            expected = frame.lazy().filter(expression).select("id").sort("id").collect()
        except pl.exceptions.PolarsError:
            assume(False)  # Polars doesn't compare these types
        found = bayou.scan_polars(path).filter(expression).select("id").sort("id").collect()
        assert found["id"].to_list() == expected["id"].to_list()


@given(files=FILES, kind=st.sampled_from(KINDS), condition=conditions())
@settings(max_examples=examples(80), deadline=None)
def test_pyarrow_returns_the_rows_that_it_returns_for_a_table_of_its_own(
    files: Any, kind: str, condition: Any
) -> None:
    def column(name: str) -> Any:
        return pc.field("st", "a") if name == "st" else pc.field(name)

    def constant(value: Any, name: str) -> Any:
        return pa.scalar(value, TYPES[name]) if isinstance(value, dt.datetime) else value

    expression = condition.expression(column, constant)
    with tempfile.TemporaryDirectory() as path:
        write_table(path, kind, files)
        memory: Any = pads.InMemoryDataset
        rows = memory(bayou.table(path).to_arrow())
        try:
            expected = rows.to_table(["id"], filter=expression)
        except pa.ArrowException:
            assume(False)  # pyarrow doesn't compare these types
        found = bayou.table(path).to_pyarrow_dataset().to_table(["id"], filter=expression)
        assert found.column("id").to_pylist() == expected.column("id").to_pylist()
