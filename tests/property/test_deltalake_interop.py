"""Tables that Bayou and `deltalake` write in turn, read by both, value for value."""

from __future__ import annotations

import datetime as dt
import math
import struct
import tempfile
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import deltalake
import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table, col, lit
from bayou.kernel.expressions.model import Comparison
from bayou.kernel.expressions.resolution import resolve
from support.examples import examples

DAY = (dt.date(1, 1, 1), dt.date(9999, 12, 31))
MOMENT = (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
AWKWARD_TEXT = st.sampled_from(
    [
        "",
        " ",
        "a b",
        "a/b",
        "50%",
        "%20",
        "a=b",
        "x:y",
        "#?&",
        "ä\u0301",
        "漢字",
        "😀",
        "'\"",
        "{}",
        "~",
    ]
)


@dataclass(frozen=True)
class Column:
    type: pa.DataType
    values: st.SearchStrategy[Any]
    comparable: bool = True


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def digits(value: Decimal) -> int:
    """How many there are between the first and the last that isn't zero."""
    return len("".join(map(str, value.as_tuple().digits)).strip("0"))


def with_safe_bounds(value: Decimal) -> Decimal:
    """The value, or a shorter one where a double near it is short: taken as an exact bound."""
    below = above = float(value)
    near = [below]
    for _ in range(4):  # deltalake rounds more than once
        below, above = math.nextafter(below, -math.inf), math.nextafter(above, math.inf)
        near += [below, above]
    if digits(value) <= 12 or all(digits(Decimal(repr(double))) > 12 for double in near):
        return value
    return Context(prec=12).plus(value)


COLUMNS = {
    "i8": Column(pa.int8(), integers(8)),
    "i16": Column(pa.int16(), integers(16)),
    "i32": Column(pa.int32(), integers(32)),
    "i64": Column(pa.int64(), integers(64)),
    "f32": Column(pa.float32(), st.floats(width=32)),
    "f64": Column(pa.float64(), st.floats()),
    "dec": Column(pa.decimal128(10, 2), st.decimals(-99_999_999, 99_999_999, places=2)),
    "wide": Column(
        pa.decimal128(38, 18),
        st.decimals(Decimal(-(10**19)), Decimal(10**19), places=18).map(with_safe_bounds),
    ),
    "flag": Column(pa.bool_(), st.booleans()),
    "text": Column(pa.string(), TEXT | st.just("x" * 33) | st.just("é" * 5000)),
    "raw": Column(pa.binary(), st.binary(max_size=40), comparable=False),
    "day": Column(pa.date32(), st.dates(*DAY)),
    "at": Column(
        pa.timestamp("us", "UTC"), st.datetimes(*MOMENT).map(lambda d: d.replace(tzinfo=dt.UTC))
    ),
    "local": Column(pa.timestamp("us"), st.datetimes(*MOMENT)),
    "inner": Column(
        pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())}),
        st.fixed_dictionaries(
            {
                "a": st.none() | integers(32),
                "b": st.none() | st.lists(st.none() | TEXT, max_size=3),
            }
        ),
        comparable=False,
    ),
    "list": Column(
        pa.list_(pa.float64()), st.lists(st.none() | st.floats(), max_size=3), comparable=False
    ),
    "map": Column(
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(TEXT, st.none() | integers(64), max_size=3).map(lambda d: list(d.items())),
        comparable=False,
    ),
    "deep": Column(
        pa.list_(pa.struct({"m": pa.map_(pa.string(), pa.struct({"d": pa.date32()}))})),
        st.lists(
            st.fixed_dictionaries(
                {
                    "m": st.none()
                    | st.dictionaries(
                        TEXT, st.fixed_dictionaries({"d": st.none() | st.dates(*DAY)}), max_size=2
                    ).map(lambda d: list(d.items()))
                }
            ),
            max_size=2,
        ),
        comparable=False,
    ),
}
PARTITIONS = {
    "p_text": Column(pa.string(), AWKWARD_TEXT),
    "p_int": Column(pa.int32(), integers(32)),
    "p_day": Column(pa.date32(), st.dates(*DAY)),
    "p_flag": Column(pa.bool_(), st.booleans()),
    # deltalake 1.6 writes -0.01 as "0.-1", and reads no other form of it either.
    "p_dec": Column(pa.decimal128(10, 2), st.decimals(0, 99_999_999, places=2)),
}


@dataclass(frozen=True)
class Step:
    writer: str
    mode: str
    rows: pa.Table
    checkpoint: bool


@dataclass(frozen=True)
class Plan:
    steps: list[Step]
    partition_by: list[str]
    filters: list[tuple[str, str, Any]]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, max_size=6))
    partitions = draw(st.lists(st.sampled_from(sorted(PARTITIONS)), unique=True, max_size=2))
    columns = {n: COLUMNS.get(n) or PARTITIONS[n] for n in names + partitions}
    steps: list[Step] = []
    count = 0
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 5))
        values = {
            name: pa.array(
                draw(st.lists(st.none() | c.values, min_size=size, max_size=size)), c.type
            )
            for name, c in columns.items()
        }
        rows = pa.table({"n": pa.array(range(count, count + size), pa.int64()), **values})
        count += size
        steps.append(
            Step(
                writer=draw(st.sampled_from(["bayou", "deltalake"])),
                mode=draw(st.sampled_from(["append", "append", "overwrite"])),
                rows=rows,
                checkpoint=draw(st.booleans()),
            )
        )
    comparable = [n for n, c in columns.items() if c.comparable]
    return Plan(
        steps=steps,
        partition_by=partitions,
        filters=[
            (name, draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])), value)
            for name in comparable
            for value in [draw(columns[name].values)]
        ]
        + [
            (name, draw(st.sampled_from(["=", "<", "<=", ">", ">="])), value)
            for name in comparable
            for value in steps[0].rows.column(name).to_pylist()[:2]
            if value is not None
        ],
    )


def write(path: str, step: Step, partition_by: list[str]) -> None:
    if step.writer == "bayou":
        bayou.write(path, step.rows, mode=step.mode, partition_by=partition_by)
    else:
        deltalake.write_deltalake(path, step.rows, mode=step.mode, partition_by=partition_by)
    if step.checkpoint:
        engine = ArrowEngine()
        Table.for_path(engine, path).checkpoint(engine)


def values(table: pa.Table) -> dict[int, Any]:
    """Rows by their number, in a form that tells -0.0 from 0.0 and knows NaN to be NaN."""
    rows = {row["n"]: comparable(row) for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows


def comparable(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if value != value else struct.pack(">d", value)
        case dict():
            return {k: comparable(v) for k, v in value.items()}
        case list() | tuple():
            return [comparable(v) for v in value]
        case dt.datetime():
            return value.replace(tzinfo=None), value.tzinfo is None
        case _:
            return value


def unlisted_nans(steps: list[Step], name: str) -> set[int]:
    """The numbers of the rows that deltalake wrote with NaN in a column."""
    written = (values(step.rows) for step in steps if step.writer == "deltalake")
    return {number for rows in written for number, row in rows.items() if row[name] == "NaN"}


def expected_rows(steps: list[Step], partition_by: list[str]) -> dict[int, Any]:
    rows: dict[int, Any] = {}
    for step in steps:
        rows = values(step.rows) | ({} if step.mode == "overwrite" else rows)
    for row in rows.values():
        for name in partition_by:
            row[name] = None if row[name] == "" else row[name]
    return rows


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(plan=plans())
def test_both_read_what_either_writes(plan):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/table"
        for i, step in enumerate(plan.steps):
            note(f"{step.writer} {step.mode} {step.rows.to_pylist()}")
            write(path, step, plan.partition_by)
            expected = expected_rows(plan.steps[: i + 1], plan.partition_by)
            assert values(bayou.table(path).to_arrow()) == expected
            assert values(pa.table(deltalake.DeltaTable(path).to_pyarrow_table())) == expected
        check_filters(path, plan)


def check_filters(path: str, plan: Plan) -> None:
    table = bayou.table(path)
    snapshot = table.snapshot()
    everything = table.to_arrow().combine_chunks()
    expressions = ArrowEngine().expressions
    for name, op, value in plan.filters:
        predicate = resolve(Comparison(op, col(name), lit(value)), snapshot.schema)
        note(str(predicate))
        (batch,) = everything.to_batches()
        evaluator = expressions.predicate_evaluator(snapshot.schema, predicate)
        matching = everything.filter(evaluator.eval(batch))
        found, expected = values(table.to_arrow(filter=predicate)), values(matching)
        # deltalake leaves NaN out of the statistics; see docs/design/decisions.md.
        missing = expected.keys() - found.keys()
        assert found == {number: expected[number] for number in expected.keys() - missing}
        assert missing <= unlisted_nans(plan.steps, name)
