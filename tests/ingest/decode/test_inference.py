"""Types that no schema names: the order of records decides nothing."""

from __future__ import annotations

import json
from itertools import permutations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.ingest.decode import DecodePlan, JsonDecoder, additions
from bayou.ingest.decode.inference import infer_field, merge_fields
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.schema import BOOLEAN, DOUBLE, LONG, STRING, StructType
from support.examples import examples

values = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "x", 2**70]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=5,
)


def together(records):
    found = StructType()
    for value in records:
        field = infer_field("f", value)
        found = merge_fields(found, () if field is None else (field,))
    return found


def shape(kind):
    """A type with the fields of its structs in the order of their names."""
    if isinstance(kind, StructType):
        return sorted((f.name, shape(f.data_type), str(f.metadata)) for f in kind)
    element = getattr(kind, "element_type", None)
    return str(kind) if element is None else ["array", shape(element)]


@settings(max_examples=examples(100))
@given(st.lists(values, min_size=2, max_size=4))
def test_conflicting_types_are_decided_the_same_way_in_any_order(records):
    shapes = [shape(together(order)) for order in permutations(records)]
    assert all(found == shapes[0] for found in shapes)


@pytest.mark.parametrize(
    ("wrap", "levels"), [(lambda inner: [inner], 0), (lambda inner: {"f": inner}, 32)]
)
def test_what_lies_deeper_than_a_column_may_be_is_json_text(wrap, levels):
    value = 1
    for _ in range(200):
        value = wrap(value)
    kind = together([value]).fields[0].data_type
    for _ in range(levels):
        kind = kind.fields[0].data_type
    assert kind == STRING


def taken_in(shares):
    """The columns of a batch whose records tasks share, and the records that became rows."""
    columns = StructType()
    while True:
        plan = DecodePlan(columns=columns, json_schema=None, discover=True)
        results = [JsonDecoder(plan).decode(pa.array(share, pa.binary())) for share in shares]
        new = StructType()
        for result in results:
            new = merge_fields(new, result.new_fields)
        if not new.fields:
            break
        for _, field in additions(columns, new):
            columns = merge_schemas("t", columns, StructType((field,)))
    rows = [
        share[position]
        for share, result in zip(shares, results, strict=True)
        for position in result.positions.to_pylist()
    ]
    return shape(columns), sorted(rows)


@settings(max_examples=examples(100))
@given(st.data())
def test_how_tasks_share_the_records_of_a_batch_decides_nothing(data):
    fields = st.dictionaries(st.sampled_from("fg"), values, min_size=1)
    records = [json.dumps(r).encode() for r in data.draw(st.lists(fields, min_size=2, max_size=6))]
    shuffled = data.draw(st.permutations(records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=2)))
    shares = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    assert taken_in(shares) == taken_in([records])


def test_the_stricter_type_stays():
    def kind(*records):
        return together(records).fields[0].data_type

    assert kind("a", 1) == kind(1, "a") == LONG
    assert kind(1, 1.5) == kind(1.5, 1) == DOUBLE
    assert kind(True, "a") == BOOLEAN
    assert kind("a", None) == STRING
    assert kind("a", {"b": 1}) == kind({"b": 1}, "a")
