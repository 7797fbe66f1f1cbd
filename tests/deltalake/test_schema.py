"""The schema classes: JSON, Arrow and equality, compared with those of deltalake."""

import deltalake.schema
import pyarrow as pa
import pytest

from bayou.deltalake import schema
from bayou.deltalake.exceptions import DeltaError


def example(module):
    return module.Schema(
        [
            module.Field("id", "long", nullable=False, metadata={"unit": "m"}),
            module.Field("price", module.PrimitiveType("decimal(10,2)")),
            module.Field("tags", module.ArrayType("string", contains_null=False)),
            module.Field("props", module.MapType("string", module.ArrayType("double"))),
            module.Field("at", module.StructType([module.Field("x", "timestamp_ntz")])),
        ]
    )


def test_json_and_text_are_those_of_deltalake():
    ours, theirs = example(schema), example(deltalake.schema)
    assert ours.to_json() == theirs.to_json()
    assert repr(ours) == repr(theirs)
    for mine, other in zip(ours.fields, theirs.fields, strict=True):
        assert mine.to_json() == other.to_json()
        assert mine.type.to_json() == other.type.to_json()
        assert mine.type.type == other.type.type
        assert schema.Field.from_json(mine.to_json()) == mine
        assert type(mine.type).from_json(mine.type.to_json()) == mine.type


def test_arrow_and_back():
    ours = example(schema)
    arrow = pa.schema(ours)
    assert arrow == ours.to_arrow()
    assert arrow.names == [field.name for field in ours.fields]
    assert schema.Schema.from_arrow(example(deltalake.schema)) == schema.Schema.from_arrow(arrow)
    for field in ours.fields:
        assert pa.field(field.to_arrow()).type == field.type.to_arrow()
        assert type(field.type).from_arrow(field.type.to_arrow()).type == field.type.type
        assert schema.Field.from_arrow(field).name == field.name


def test_schemas_are_equal_by_value():
    one = schema.Field("a", "long")
    assert one == schema.Field("a", schema.PrimitiveType("long"))
    assert one != schema.Field("a", "long", nullable=False)
    assert schema.Schema([one]) == schema.StructType([one])
    assert len({schema.PrimitiveType("long"), schema.PrimitiveType("long")}) == 1
    assert schema.VariantType() == schema.Field("v", "variant").type


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: schema.Field("a", "foo"), ValueError),
        (lambda: schema.Field("a", 3), TypeError),
        (lambda: schema.PrimitiveType("array"), ValueError),
        (lambda: schema.PrimitiveType.from_arrow(pa.list_(pa.int64())), TypeError),
        (lambda: schema.ArrayType.from_json('"long"'), TypeError),
        (lambda: schema.Schema([]).to_arrow(as_large_types=True), ValueError),
    ],
)
def test_a_wrong_type_is_one_error(call, error):
    with pytest.raises(error, match=r"^\w+: .*\.$") as caught:
        call()
    assert isinstance(caught.value, DeltaError)
