"""Statistics of what is written, for random rows: bounds hold, nulls are counted, no row is lost.

The reference looks at Python values only: Spark's order (texts by their UTF-8 bytes, NaN above
everything), instants cut to milliseconds as delta-spark writes them.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou.kernel import Predicate, col, lit
from bayou.kernel.expressions.model import IsNull, Not
from support.examples import examples

EXAMPLES = examples(100)

TEXT = st.text(alphabet="aé\x7f\x80\ud7ff\uffff😀\U0010ffff", max_size=12) | st.sampled_from(
    ["", "x" * 32, "x" * 33, "\U0010ffff" * 33, "x" * 31 + "\U0010ffff" * 2, "y" * 5000, "\0"]
)
FLOAT = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, -1.25, 5e-324, 1e300])
MOMENT = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999))
INNER = st.fixed_dictionaries(
    {"i": st.none() | st.integers(-9, 9), "t": st.none() | TEXT, "l": st.none() | st.lists(TEXT)}
)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f32": (pa.float32(), st.floats(width=32) | FLOAT.filter(lambda f: f not in (5e-324, 1e300))),
    "f64": (pa.float64(), FLOAT),
    "dec": (pa.decimal128(10, 2), st.decimals(-99_999_999, 99_999_999, places=2)),
    "wide": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "text": (pa.string(), TEXT),
    "flag": (pa.bool_(), st.booleans()),
    "raw": (pa.binary(), st.binary(max_size=3)),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us", "UTC"), MOMENT.map(lambda m: m.replace(tzinfo=dt.UTC))),
    "local": (pa.timestamp("us"), MOMENT),
    "s": (
        pa.struct({"i": pa.int32(), "t": pa.string(), "l": pa.list_(pa.string())}),
        INNER,
    ),
    "m": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(TEXT, st.integers(0, 3), max_size=2).map(lambda d: list(d.items())),
    ),
}
LEAVES = [(n,) for n in TYPES if n not in ("s", "m")] + [("s", "i"), ("s", "t"), ("s", "l"), ("m",)]
WITHOUT_BOUNDS = {("flag",), ("raw",), ("s", "l"), ("m",)}
MOMENTS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z?)")


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 6))
    columns = {}
    for name, (kind, some) in TYPES.items():
        values = draw(st.sampled_from([some, st.none() | some, st.none()]))
        columns[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
    return pa.table(columns)


def written(rows: pa.Table, **properties: str) -> tuple[str, dict[str, Any]]:
    path = f"memory://{uuid.uuid4().hex}"
    bayou.write(path, rows, configuration={f"delta.{k}": v for k, v in properties.items()})
    (text,) = bayou.table(path).snapshot().files()["stats"].to_pylist()
    return path, json.loads(text, parse_float=Decimal)


def values_of(rows: pa.Table, path: tuple[str, ...]) -> list[Any]:
    found = rows.column(path[0]).to_pylist()
    for step in path[1:]:
        found = [None if value is None else value[step] for value in found]
    return found


def at(tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = tree
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def leaves_of(tree: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves_of(value, (*prefix, name))
        else:
            yield (*prefix, name)


def key(value: Any) -> Any:
    """By what Spark orders values."""
    match value:
        case str():
            return value.encode()
        case float():
            return (1, 0.0) if math.isnan(value) else (0, value)
        case _:
            return value


def bound(text: Any, like: Any) -> Any:
    """What stands in the JSON, as a value of the column."""
    match like:
        case dt.datetime():
            assert MOMENTS.fullmatch(text).group(1) == ("Z" if like.tzinfo else "")
            return dt.datetime.fromisoformat(text)
        case dt.date():
            return dt.date.fromisoformat(text)
        case float():
            return float(text)
        case Decimal():
            return Decimal(text)
        case _:
            assert type(text) is type(like)
            return text


MILLISECOND = dt.timedelta(milliseconds=1)


def reaches(value: Any, most: Any) -> bool:
    """Whether a maximum holds; those of times are cut to milliseconds, which readers know."""
    if isinstance(value, dt.datetime):
        return value - most < MILLISECOND
    return key(value) <= key(most)


@settings(max_examples=EXAMPLES)
@given(rows=tables(), prefix=st.sampled_from([0, 1, 2, 32]))
def test_bounds_hold_for_every_value_and_nulls_are_counted(rows: pa.Table, prefix: int) -> None:
    _, stats = written(rows, dataSkippingStringPrefixLength=str(prefix))
    assert set(stats) == {"numRecords", "minValues", "maxValues", "nullCount"}
    assert stats["numRecords"] == rows.num_rows
    assert sorted(leaves_of(stats["nullCount"])) == sorted(LEAVES)
    for path in LEAVES:
        values = values_of(rows, path)
        present = [v for v in values if v is not None]
        assert at(stats["nullCount"], path) == len(values) - len(present)
        least, most = at(stats["minValues"], path), at(stats["maxValues"], path)
        if path in WITHOUT_BOUNDS or not present:
            assert least is None
            assert most is None
            continue
        if least is not None:
            low = bound(least, present[0])
            assert all(key(low) <= key(v) for v in present)
            assert not isinstance(low, str) or len(low) <= prefix
        if most is not None:
            high = bound(most, present[0])
            assert all(reaches(v, high) for v in present)
            assert not isinstance(high, str) or len(high) <= prefix + 1


@settings(max_examples=EXAMPLES // 2)
@given(rows=tables(), count=st.integers(-1, len(LEAVES)))
def test_only_the_first_columns_have_statistics(rows: pa.Table, count: int) -> None:
    _, stats = written(rows, dataSkippingNumIndexedCols=str(count))
    wanted = set(LEAVES if count < 0 else in_order()[:count])
    assert set(leaves_of(stats["nullCount"])) == wanted
    assert {*leaves_of(stats["minValues"]), *leaves_of(stats["maxValues"])} <= wanted


@settings(max_examples=EXAMPLES // 2)
@given(rows=tables(), named=st.lists(st.sampled_from(LEAVES), unique=True))
def test_the_columns_that_are_named_have_statistics(
    rows: pa.Table, named: list[tuple[str, ...]]
) -> None:
    named = [path for path in named if len(path) > 1 or path not in WITHOUT_BOUNDS]
    text = ", ".join(".".join(f"`{step}`" for step in path) for path in named)
    _, stats = written(rows, dataSkippingStatsColumns=text, dataSkippingNumIndexedCols="1")
    assert set(leaves_of(stats["nullCount"])) == set(named)


def in_order() -> list[tuple[str, ...]]:
    return [leaf for name in TYPES for leaf in LEAVES if leaf[0] == name]


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def predicate(path: tuple[str, ...], sign: str, value: Any) -> Predicate:
    column, literal = col(*path), lit(value)
    match sign:
        case "=":
            return column == literal
        case "<":
            return column < literal
        case "<=":
            return column <= literal
        case ">":
            return column > literal
        case _:
            return column >= literal


@settings(max_examples=EXAMPLES)
@given(rows=tables(), data=st.data())
def test_no_file_with_a_matching_row_is_skipped(rows: pa.Table, data: st.DataObject) -> None:
    path, _ = written(rows)
    snapshot = bayou.table(path).snapshot()
    for leaf in LEAVES:
        values = values_of(rows, leaf)
        present = [v for v in values if v is not None]
        nulls = IsNull(col(*leaf))
        assert len(present) == len(values) or snapshot.files(filter=nulls).num_rows == 1
        assert not present or snapshot.files(filter=Not(nulls)).num_rows == 1
        if leaf in WITHOUT_BOUNDS or not present:
            continue
        other = data.draw(st.sampled_from(present))
        sign = data.draw(st.sampled_from(sorted(OPERATORS)))
        if any(OPERATORS[sign](key(v), key(other)) for v in present):
            assert snapshot.files(filter=predicate(leaf, sign, other)).num_rows == 1
