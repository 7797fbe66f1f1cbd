"""The two engines share no code: where they agree on random data, both are likely right."""

from __future__ import annotations

import io
import json
import math
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.kernel.engine import FileSplit, ParquetWriteOptions
from support.examples import examples

FLOATS = st.one_of(st.none(), st.floats(width=32), st.sampled_from([math.nan, 0.0, -0.0, math.inf]))
TEXTS = st.one_of(
    st.none(),
    st.text(max_size=50),
    st.builds(lambda c, n: c * n, st.sampled_from("aé😀\x7f\U0010ffff"), st.integers(30, 40)),
    st.builds(lambda n: "x" * n, st.sampled_from([1023, 1024, 5000])),
)
INTEGERS = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1))
ROW = st.fixed_dictionaries(
    {
        "i": INTEGERS,
        "f": FLOATS,
        "t": TEXTS,
        "s": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {"f": FLOATS, "t": TEXTS, "l": st.one_of(st.none(), st.lists(INTEGERS, max_size=3))}
            ),
        ),
    }
)
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
        (
            "s",
            pa.struct([("f", pa.float32()), ("t", pa.string()), ("l", pa.list_(pa.int64()))]),
        ),
    ]
)
SETTINGS = settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def plain(value: Any) -> Any:
    """NaN and the sign of zero as texts, so that `==` sees them."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


@SETTINGS
@given(rows=st.lists(ROW, min_size=1, max_size=20))
def test_both_engines_gather_the_same_statistics(tmp_path, rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    found = []
    for engine, root in (
        (ArrowEngine(), str(tmp_path)),
        (MemoryEngine(), f"memory://{uuid.uuid4()}/t"),
    ):
        (status,) = engine.parquet.write_parquet_files(
            root, [batch], SCHEMA.names, ParquetWriteOptions()
        )
        found.append(status.statistics)
    arrow, memory = found
    assert arrow is not None
    assert memory is not None
    assert arrow.num_records == memory.num_records == len(rows)
    assert plain(arrow.null_count) == plain(memory.null_count)
    assert arrow.min_values == memory.min_values
    assert arrow.max_values == memory.max_values


FILE_TYPE = st.recursive(
    st.sampled_from([pa.int32(), pa.int64(), pa.string(), pa.bool_()]),
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(lambda v: pa.map_(pa.string(), v), inner),
        st.builds(
            lambda names, types: pa.struct(list(zip(names, types, strict=False))),
            st.just(["a", "b", "c"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=5,
)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        fields = {kind.field(i).name: values_of(kind.field(i).type) for i in range(kind.num_fields)}
        return st.one_of(st.none(), st.fixed_dictionaries(fields))
    if pa.types.is_list(kind):
        return st.one_of(st.none(), st.lists(values_of(kind.value_type), max_size=3))
    if pa.types.is_map(kind):
        pairs = st.tuples(st.sampled_from("xyz"), values_of(kind.item_type))
        return st.one_of(st.none(), st.lists(pairs, max_size=2))
    if pa.types.is_integer(kind):
        return st.one_of(st.none(), st.integers(0, 100))
    return st.one_of(st.none(), st.booleans() if pa.types.is_boolean(kind) else st.text(max_size=3))


def narrowed(kind: Any) -> st.SearchStrategy[Any]:
    """A type that can be read from the other: fields left out, added and in another order."""
    if pa.types.is_struct(kind):
        kept = [
            st.tuples(st.just(kind.field(i).name), narrowed(kind.field(i).type))
            for i in range(kind.num_fields)
        ]
        added = st.just(("added", pa.struct([("x", pa.int64())])))
        return st.lists(st.one_of(added, *kept), min_size=1, unique_by=lambda f: f[0]).map(
            pa.struct
        )
    if pa.types.is_list(kind):
        return narrowed(kind.value_type).map(pa.list_)
    if pa.types.is_map(kind):
        return narrowed(kind.item_type).map(lambda v: pa.map_(pa.string(), v))
    return st.just(pa.int64() if pa.types.is_integer(kind) else kind)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Schema]:
    kind = draw(FILE_TYPE)
    values = draw(st.lists(values_of(kind), min_size=1, max_size=10))
    table = pa.table({"v": pa.array(values, kind), "other": range(len(values))})
    wanted = narrowed(kind)
    if pa.types.is_string(kind):
        wanted = st.one_of(wanted, st.just(pa.dictionary(pa.int32(), pa.string())))
    return table, pa.schema([("v", draw(wanted))])


@SETTINGS
@given(case=tables(), group=st.sampled_from([1, 3, 100]), batch_size=st.sampled_from([1, 2, 1000]))
def test_both_engines_read_the_same_rows(
    tmp_path, case: tuple[pa.Table, pa.Schema], group: int, batch_size: int
) -> None:
    table, wanted = case
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group, store_schema=False)
    found = []
    for engine, path in (
        (ArrowEngine(), f"{tmp_path}/file"),
        (MemoryEngine(), f"memory://{uuid.uuid4()}/file"),
    ):
        engine.files.put(path, sink.getvalue())
        split = FileSplit(path=path, size=len(sink.getvalue()))
        batches = list(engine.parquet.read_parquet_files([split], wanted, batch_size=batch_size))
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema.equals(wanted)
        found.append([row for batch in batches for row in batch.to_pylist()])
    assert found[0] == found[1]


JSON_VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(["NaN", "Infinity", "2024-01-05", "2024-01-05T10:00:00.123Z", "1.25"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int64(),
        pa.int8(),
        pa.float64(),
        pa.float32(),
        pa.string(),
        pa.bool_(),
        pa.decimal128(5, 2),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
        pa.list_(pa.float64()),
        pa.map_(pa.string(), pa.int64()),
    ],
    ids=str,
)
@SETTINGS
@given(values=st.lists(JSON_VALUE, min_size=1, max_size=5))
def test_both_engines_parse_the_same_values(kind: pa.DataType, values: list[Any]) -> None:
    texts = pa.array([json.dumps({"v": value, "x": 1}) for value in values], pa.string())
    schema = pa.schema([("v", kind)])
    rows = [engine.json.parse_json(texts, schema) for engine in (ArrowEngine(), MemoryEngine())]
    assert plain(rows[0].to_pylist()) == plain(rows[1].to_pylist())
