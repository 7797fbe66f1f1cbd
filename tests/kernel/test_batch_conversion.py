"""From rows as a connector has them to rows as data files hold them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from bayou.errors import ConstraintViolationError, SchemaError
from bayou.kernel.arrow.types import from_arrow_schema, to_arrow_schema
from bayou.kernel.batch_conversion import conform_to_schema
from bayou.protocol.schema import StructType


def conformed(schema: pa.Schema, data: pa.Table) -> pa.RecordBatch:
    table_schema = from_arrow_schema(schema)
    (batch,) = data.combine_chunks().to_batches()
    found = conform_to_schema("/lake/t", table_schema, batch)
    found.validate(full=True)
    assert found.schema.equals(to_arrow_schema(table_schema))
    return found


def test_columns_take_the_tables_order_and_names():
    schema = pa.schema([("Id", pa.int64()), ("name", pa.string()), ("other", pa.date32())])
    data = pa.table({"NAME": ["x"], "id": pa.array([1], pa.int64())})
    assert conformed(schema, data).to_pylist() == [{"Id": 1, "name": "x", "other": None}]


def test_an_exact_name_goes_before_one_in_another_case():
    struct = pa.struct([("a", pa.int64()), ("A", pa.int64())])
    data = pa.table({"s": pa.array([{"A": 1, "a": 2}], struct)})
    (batch,) = data.to_batches()
    schema = from_arrow_schema(pa.schema([("s", pa.struct([("a", pa.int64())]))]))
    with pytest.raises(SchemaError, match=r"has column 's.A' twice"):
        conform_to_schema("t", schema, batch)


@pytest.mark.parametrize(
    ("array", "arrow_type", "values"),
    [
        (pa.array(["x"], pa.large_string()), pa.string(), ["x"]),
        (pa.array(["x"], pa.string_view()), pa.string(), ["x"]),
        (pa.array(["x", "x"]).dictionary_encode(), pa.string(), ["x", "x"]),
        (pa.array([b"xy"], pa.binary(2)), pa.binary(), [b"xy"]),
        (pa.array([7], pa.uint8()), pa.int16(), [7]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (
            pa.array([1_000], pa.timestamp("ns")),
            pa.timestamp("us"),
            [dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
        ),
        (
            pa.array([0], pa.timestamp("s", "Asia/Tokyo")),
            pa.timestamp("us", "UTC"),
            [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
        ),
        (pa.array([None, None], pa.null()), pa.int64(), [None, None]),
        (pa.array([[1], None], pa.large_list(pa.int32())), pa.list_(pa.int32()), [[1], None]),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), pa.list_(pa.int32()), [[1, 2]]),
        (pa.RunEndEncodedArray.from_arrays([2], ["x"]), pa.string(), ["x", "x"]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
            pa.binary(),
            [b"0" * 16],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_other_representations_of_a_type_are_taken(array, arrow_type, values):
    found = conformed(pa.schema([("x", arrow_type)]), pa.table({"x": array}))
    assert found.column("x").to_pylist() == values


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.string(), pa.date32()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.time64("us"), pa.int64()),
        (pa.list_(pa.int32()), pa.int32()),
    ],
    ids=str,
)
def test_another_type_is_refused_with_the_column(have, want):
    for kind, wanted, column in (
        (have, want, "x"),
        (pa.list_(have), pa.list_(want), "x.element"),
        (pa.map_(pa.string(), have), pa.map_(pa.string(), want), "x.value"),
        (pa.struct([("y", have)]), pa.struct([("y", want)]), "x.y"),
    ):
        with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS") as caught:
            conformed(pa.schema([("x", wanted)]), pa.table({"x": pa.array([None], kind)}))
        assert caught.value.column == column


def test_a_time_finer_than_the_tables_is_not_cut():
    data = pa.table({"x": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(SchemaError, match="a value doesn't fit"):
        conformed(pa.schema([("x", pa.timestamp("us"))]), data)


def test_a_column_that_the_table_lacks_is_refused():
    with pytest.raises(SchemaError, match="no column 'y'; it has x") as caught:
        conformed(pa.schema([("x", pa.int64())]), pa.table({"x": [1], "y": [2]}))
    assert caught.value.column == "y"


def test_no_columns_at_all_are_rows_of_nulls():
    batch = pa.record_batch({"x": [1, 2, 3]}).select([])
    schema = from_arrow_schema(pa.schema([("a", pa.int64())]))
    assert conform_to_schema("t", schema, batch).column("a").to_pylist() == [None] * 3


def test_a_null_that_may_not_be_is_refused_with_the_column():
    schema = pa.schema([pa.field("x", pa.int64(), False)])
    with pytest.raises(ConstraintViolationError, match="1 of 2 values") as caught:
        conformed(schema, pa.table({"x": [1, None]}))
    assert caught.value.constraint == "NOT NULL x"


def test_a_missing_column_that_may_not_be_null_is_refused():
    schema = pa.schema([pa.field("x", pa.int64(), False), pa.field("y", pa.int64())])
    with pytest.raises(ConstraintViolationError, match="the data doesn't have it"):
        conformed(schema, pa.table({"y": [1]}))


STRICT = pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.int64())])
STRICT_ELEMENT = pa.field("element", pa.int64(), False)
STRICT_MAP = pa.map_(pa.string(), pa.field("value", pa.int64(), False))
LOOSE_MAP = pa.map_(pa.string(), pa.int64())
LOOSE = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.int64())])


def test_below_a_null_struct_nothing_is_null():
    data = pa.table({"s": pa.array([{"x": 1, "y": None}, None], LOOSE)})
    found = conformed(pa.schema([("s", STRICT)]), data)
    assert found.column("s").to_pylist() == [{"x": 1, "y": None}, None]


def test_a_null_inside_of_a_struct_that_may_not_be_is_refused():
    data = pa.table({"s": pa.array([{"x": 1}, {"y": 2}, None], LOOSE)})
    with pytest.raises(ConstraintViolationError, match=r"'s.x'"):
        conformed(pa.schema([("s", STRICT)]), data)


@pytest.mark.parametrize(
    ("strict", "loose", "value"),
    [
        (pa.list_(STRICT_ELEMENT), pa.list_(pa.int64()), [1, None]),
        (STRICT_MAP, LOOSE_MAP, [("k", None)]),
        (pa.list_(pa.field("element", STRICT)), pa.list_(LOOSE), [{"x": None, "y": 1}]),
    ],
    ids=["list", "map", "struct in a list"],
)
def test_nulls_in_lists_and_maps_that_may_not_be_are_refused(strict, loose, value):
    data = pa.table({"x": pa.array([value], loose)})
    with pytest.raises(ConstraintViolationError, match="is NOT NULL"):
        conformed(pa.schema([("x", strict)]), data)


def test_structs_in_lists_and_maps_match_by_name_as_columns_do():
    have = pa.struct([("B", pa.large_string()), ("a", pa.int64())])
    want = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.date32())])
    data = pa.table(
        {
            "l": pa.array([[{"B": "x", "a": 1}], None], pa.list_(have)),
            "m": pa.array([[("k", {"B": "y", "a": 2})], []], pa.map_(pa.large_string(), have)),
        }
    )
    schema = pa.schema([("l", pa.list_(want)), ("m", pa.map_(pa.string(), want))])
    assert conformed(schema, data).to_pylist() == [
        {"l": [{"a": 1, "b": "x", "c": None}], "m": [("k", {"a": 2, "b": "y", "c": None})]},
        {"l": None, "m": []},
    ]


def test_slices_of_lists_and_maps_keep_their_rows_and_forget_the_others():
    data = pa.table(
        {
            "l": pa.array([[None], [1, 2], None, [], [3]], pa.large_list(pa.int64())),
            "m": pa.array([[("k", None)], [("a", 1)], None, [], [("b", 2)]], LOOSE_MAP),
        }
    )
    schema = pa.schema([("l", pa.list_(STRICT_ELEMENT)), ("m", STRICT_MAP)])
    assert conformed(schema, data.slice(1)).to_pylist() == [
        {"l": [1, 2], "m": [("a", 1)]},
        {"l": None, "m": None},
        {"l": [], "m": []},
        {"l": [3], "m": [("b", 2)]},
    ]


def test_slices_of_batches_keep_their_rows():
    data = pa.table(
        {"s": pa.array([{"x": n, "y": None} if n % 2 else None for n in range(9)], LOOSE)}
    )
    found = conformed(pa.schema([("s", LOOSE)]), data.slice(3, 3))
    assert found.column("s").to_pylist() == [{"x": 3, "y": None}, None, {"x": 5, "y": None}]


def test_a_table_without_columns_takes_no_rows():
    (batch,) = pa.table({"x": [1]}).to_batches()
    with pytest.raises(SchemaError):
        conform_to_schema("t", StructType(), batch)
