from __future__ import annotations

import datetime as dt
import subprocess
import sys
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.errors import ArgumentError, SerializationError
from bayou.kernel import FilteredColumnarBatch, Row, ScanFile
from bayou.kernel.scan.scan_file import SCAN_SCHEMA
from bayou.protocol.actions import AddFile
from support.examples import examples

POINT = pa.struct([("x", pa.int8())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}),
        pa.field(
            "where", pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.int8())]))])
        ),
        pa.field("tags", pa.map_(pa.string(), pa.list_(pa.struct([("n", pa.int32())])))),
        pa.field("by_point", pa.map_(POINT, pa.string())),
        pa.field("when", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(38, 2)),
    ]
)
VALUES: dict[str, Any] = {
    "id": 7,
    "where": {"city": "Roma", "at": {"x": 1}},
    "tags": [("a", [{"n": 1}, None]), ("b", None)],
    "by_point": [({"x": 2}, "two")],
    "when": dt.datetime(2024, 1, 5, 10, tzinfo=dt.UTC),
    "price": Decimal("12345678901234567890123456789012345.67"),
}


def test_values_are_found_by_name_and_structs_are_rows() -> None:
    row = Row.of(SCHEMA, VALUES)
    assert row["id"] == 7
    assert row["where"]["city"] == "Roma"
    assert row["where"]["at"]["x"] == 1
    assert row["where"].schema.names == ["city", "at"]
    assert row["tags"]["a"][0]["n"] == 1
    assert row["tags"]["a"][1] is None
    assert row["tags"]["b"] is None
    assert row["by_point"][0][0]["x"] == 2
    assert row["when"] == VALUES["when"]
    assert row["price"] == VALUES["price"]
    assert row.to_dict() | {"tags": 0} == VALUES | {"tags": 0}


def test_null_is_none_at_every_level() -> None:
    schema = pa.schema([("s", pa.struct([("x", pa.int64())])), ("l", pa.list_(pa.int64()))])
    assert Row.of(schema, {}).to_dict() == {"s": None, "l": None}
    assert Row.of(schema, {"s": {}, "l": [None]}).to_dict() == {"s": {"x": None}, "l": [None]}


def test_an_unknown_name_and_one_that_stands_twice_are_refused() -> None:
    with pytest.raises(ArgumentError, match="fields are id, where"):
        Row.of(SCHEMA, VALUES)["ID"]
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ArgumentError, match="'a'"):
        Row(twice)["a"]


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="schema"):
        Row.of(pa.schema([("a", pa.int8())]), {"a": 300})
    with pytest.raises(ArgumentError, match="schema"):
        Row.of(pa.schema([("a", pa.int8())]), {"a": "x"})


def test_rows_are_equal_where_schema_and_values_are() -> None:
    assert Row.of(SCHEMA, VALUES) == Row.of(SCHEMA, VALUES)
    assert Row.of(SCHEMA, VALUES) != Row.of(SCHEMA, VALUES | {"id": 8})
    assert Row.of(SCHEMA, VALUES) != Row.of(
        SCHEMA.remove_metadata().set(0, pa.field("id", pa.int64())), VALUES
    )


def test_a_batch_gives_the_selected_rows_only() -> None:
    batch = pa.RecordBatch.from_pydict({"i": [1, 2, 3], "s": [{"x": 1}, None, {"x": 3}]})
    filtered = FilteredColumnarBatch(batch, pa.array([True, False, True]))
    with filtered.rows() as rows:
        assert [(row["i"], row["s"]["x"]) for row in rows] == [(1, 1), (3, 3)]
    assert [row["i"] for row in FilteredColumnarBatch(batch).rows()] == [1, 2, 3]
    assert list(FilteredColumnarBatch(batch, pa.array([False] * 3)).rows()) == []


def test_a_row_of_no_columns_is_still_a_row() -> None:
    row = Row.of(pa.schema([]), {})
    assert Row.from_bytes(row.to_bytes()).to_dict() == {}


def test_a_scan_file_is_a_row_too() -> None:
    add = AddFile(
        path="a=1/x%20y.parquet",
        partition_values={"a": "1"},
        size=10,
        modification_time=5,
        data_change=True,
        stats='{"numRecords":1}',
    )
    file = ScanFile(table_root="/t", add=add)
    assert file.schema.equals(SCAN_SCHEMA)
    assert file["tableRoot"] == "/t"
    assert file["add"]["path"] == "a=1/x%20y.parquet"
    assert file["add"]["partitionValues"] == {"a": "1"}
    assert ScanFile.from_bytes(file.to_bytes()) == file


@pytest.mark.process
def test_another_process_reads_the_row() -> None:
    program = (
        "import sys; from bayou.kernel import Row;"
        "row = Row.from_bytes(sys.stdin.buffer.read());"
        "print(row['where']['city'], row.schema.field('id').metadata[b'comment'].decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=Row.of(SCHEMA, VALUES).to_bytes(),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"Roma the key\n"


@pytest.mark.parametrize("data", [b"", b"\x00", b"row", ScanFile.from_bytes.__doc__.encode()])
def test_what_is_no_row_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="aren't a row"):
        Row.from_bytes(data)


def _leaf_types() -> st.SearchStrategy[pa.DataType]:
    return st.sampled_from(
        [
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.bool_(),
            pa.string(),
            pa.large_string(),
            pa.binary(),
            pa.date32(),
            pa.timestamp("us"),
            pa.timestamp("us", "UTC"),
            pa.decimal128(38, 18),
            pa.decimal128(5, 0),
            pa.null(),
        ]
    )


def _fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    name = st.text(min_size=0, max_size=5)
    metadata = st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
    field = st.builds(lambda n, t, m: pa.field(n, t, metadata=m), name, types, metadata)
    return st.lists(field, max_size=4, unique_by=lambda f: f.name)


TYPES = st.recursive(
    _leaf_types(),
    lambda inner: st.one_of(
        _fields(inner).map(pa.struct),
        inner.map(pa.list_),
        st.builds(pa.map_, _leaf_types().filter(lambda t: not pa.types.is_null(t)), inner),
    ),
    max_leaves=6,
)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    types = pa.types
    if types.is_null(kind):
        return st.none()
    return st.none() | _present(kind, types)


def _present(kind: Any, types: Any) -> st.SearchStrategy[Any]:
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return st.fixed_dictionaries({f.name: _values(f.type) for f in fields})
    if types.is_map(kind):
        return st.lists(
            st.tuples(_present(kind.key_type, types), _values(kind.item_type)), max_size=3
        )
    if types.is_list(kind):
        return st.lists(_values(kind.value_type), max_size=3)
    if types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        return st.integers(-bound, bound - 1)
    if types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if types.is_boolean(kind):
        return st.booleans()
    if types.is_binary(kind):
        return st.binary(max_size=5)
    if types.is_date(kind):
        return st.dates()
    if types.is_timestamp(kind):
        return st.datetimes(timezones=st.just(dt.UTC) if kind.tz else st.none())
    if types.is_decimal(kind):
        bound = 10**kind.precision
        return st.integers(-bound + 1, bound - 1).map(
            lambda n: Decimal(n).scaleb(-kind.scale, Context(prec=60))
        )
    return st.text(max_size=5)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    schema = pa.schema(draw(_fields(TYPES)))
    return Row.of(schema, {f.name: draw(_values(f.type)) for f in schema})


@settings(max_examples=examples(300))
@given(rows())
def test_any_row_of_any_schema_comes_back_from_its_bytes(row: Row) -> None:
    back = Row.from_bytes(row.to_bytes())
    assert back.schema.equals(row.schema, check_metadata=True)
    assert repr(back) == repr(row)  # NaN is equal to itself there
    assert back.to_bytes() == row.to_bytes()


@settings(max_examples=examples(200))
@given(rows(), st.data())
def test_bytes_that_were_cut_or_flipped_are_a_row_or_refused(row: Row, data: st.DataObject) -> None:
    original = row.to_bytes()
    position = data.draw(st.integers(0, len(original) - 1))
    flipped = bytes([original[position] ^ data.draw(st.integers(1, 255))])
    for damaged in (original[:position], original[:position] + flipped + original[position + 1 :]):
        with suppress(SerializationError):
            repr(Row.from_bytes(damaged))
