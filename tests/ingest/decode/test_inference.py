"""Types that no schema names: the order of records decides nothing."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.ingest.decode.inference import infer_field, merge_fields
from bayou.protocol.schema import BOOLEAN, DOUBLE, LONG, STRING, StructType

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


@settings(max_examples=100, deadline=None)
@given(st.lists(values, min_size=2, max_size=4))
def test_conflicting_types_are_decided_the_same_way_in_any_order(records):
    shapes = [shape(together(order)) for order in permutations(records)]
    assert all(found == shapes[0] for found in shapes)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"f": inner}])
def test_what_lies_deeper_than_a_column_may_be_is_json_text(wrap):
    value = 1
    for _ in range(200):
        value = wrap(value)
    kind, depth = together([value]).fields[0].data_type, 0
    while kind != STRING:
        kind = kind.element_type if wrap(1) == [1] else kind.fields[0].data_type
        depth += 1
    assert depth in (0, 32)


def test_the_stricter_type_stays():
    def kind(*records):
        return together(records).fields[0].data_type

    assert kind("a", 1) == kind(1, "a") == LONG
    assert kind(1, 1.5) == kind(1.5, 1) == DOUBLE
    assert kind(True, "a") == BOOLEAN
    assert kind("a", None) == STRING
    assert kind("a", {"b": 1}) == kind({"b": 1}, "a")
