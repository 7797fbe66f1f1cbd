"""docs/design/facts.md, DML and writers: an append doesn't cast, names match in any case."""

from __future__ import annotations

import pytest

from bayou.errors import SchemaError
from bayou.kernel.transaction.schema_evolution import (
    SchemaMerge,
    check_fits,
    check_new_table,
    merge_schemas,
    widened_columns,
)
from bayou.protocol.schema import (
    BINARY,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from bayou.protocol.type_widening import AutomaticWidening, WideningRule


def schema(**columns: DataType) -> StructType:
    return StructType(tuple(StructField(name=n, data_type=t) for n, t in columns.items()))


def array(element: DataType, contains_null: bool = True) -> ArrayType:
    return ArrayType(element_type=element, contains_null=contains_null)


def test_new_columns_are_put_last_and_nullable():
    incoming = StructType(
        (StructField(name="new", data_type=LONG, nullable=False), *schema(ID=INTEGER))
    )
    merged = merge_schemas("t", schema(id=INTEGER, name=STRING), incoming)
    assert merged.names == ("id", "name", "new")
    assert merged.fields[2].nullable


def test_new_nested_fields_are_found_in_structs_lists_and_maps():
    def nested(inner: StructType) -> StructType:
        return schema(
            s=inner,
            l=array(inner),
            m=MapType(key_type=STRING, value_type=inner, value_contains_null=True),
        )

    merged = merge_schemas("t", nested(schema(x=LONG)), nested(schema(x=LONG, y=STRING)))
    assert merged == nested(schema(x=LONG, y=STRING))


def test_the_tables_names_metadata_and_nullability_stay():
    current = StructType(
        (StructField(name="Id", data_type=array(LONG, False), metadata={"comment": "key"}),)
    )
    assert merge_schemas("t", current, schema(iD=array(LONG))) == current


@pytest.mark.parametrize(
    ("current", "incoming", "column"),
    [
        (schema(a=INTEGER), schema(a=LONG), "a"),
        (schema(a=LONG), schema(a=INTEGER), "a"),
        (schema(a=LONG), schema(a=DOUBLE), "a"),
        (schema(a=LONG), schema(a=array(LONG)), "a"),
        (schema(s=schema(x=LONG)), schema(s=schema(x=STRING)), "s.x"),
        (schema(a=array(LONG)), schema(a=array(STRING)), "a.element"),
    ],
)
def test_another_type_is_never_cast(current, incoming, column):
    with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS") as caught:
        merge_schemas("/lake/t", current, incoming)
    assert caught.value.column == column
    assert caught.value.table == "/lake/t"


def test_a_missing_column_that_may_not_be_null_is_named():
    current = StructType((StructField(name="id", data_type=LONG, nullable=False),))
    with pytest.raises(SchemaError, match="is NOT NULL") as caught:
        check_fits("t", current, schema(other=LONG))
    assert caught.value.column == "id"


def test_a_column_that_is_there_twice_is_named():
    with pytest.raises(SchemaError, match="is defined twice"):
        check_fits("t", schema(a=LONG), schema(a=LONG, A=LONG))


def test_columns_and_nested_fields_that_the_table_lacks_are_named():
    current = schema(id=LONG, s=schema(x=LONG))
    with pytest.raises(SchemaError, match="'s.y', 'new'; it has id, s") as caught:
        check_fits("t", current, schema(id=LONG, s=schema(x=LONG, y=LONG), new=LONG))
    assert caught.value.column == "s.y"


def test_fewer_columns_fit():
    check_fits("t", schema(id=LONG, name=STRING), schema(name=STRING))


@pytest.mark.parametrize(
    ("current", "incoming", "merged"),
    [
        (INTEGER, LONG, LONG),
        (FLOAT, DOUBLE, DOUBLE),
        (DATE, TIMESTAMP_NTZ, TIMESTAMP_NTZ),
        (DecimalType(5, 2), DecimalType(7, 3), DecimalType(7, 3)),
        (array(INTEGER), array(LONG), array(LONG)),
        (schema(x=SHORT), schema(X=INTEGER), schema(x=INTEGER)),
    ],
    ids=str,
)
def test_columns_become_wider_where_types_widen(current, incoming, merged):
    def columns(kind: DataType) -> StructType:
        return schema(a=kind)

    found = merge_schemas("t", columns(current), columns(incoming), widening=WideningRule())
    assert found == columns(merged)
    (path,) = widened_columns(columns(current), found)
    assert path[0] == "a"
    casting = SchemaMerge(table="t", casts=True, widening=WideningRule())
    assert casting.merged(columns(current), columns(incoming)) == columns(merged)
    assert casting.merged(columns(merged), columns(current)) == columns(merged)
    with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        merge_schemas("t", columns(merged), columns(current), widening=WideningRule())


@pytest.mark.parametrize(
    ("current", "incoming"),
    [(INTEGER, DOUBLE), (INTEGER, DecimalType(10, 0)), (LONG, STRING), (LONG, DOUBLE)],
    ids=str,
)
def test_some_rows_dont_turn_whole_numbers_into_others(current, incoming):
    with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        merge_schemas("t", schema(a=current), schema(a=incoming), widening=WideningRule())
    casting = SchemaMerge(table="t", casts=True, widening=WideningRule())
    assert casting.merged(schema(a=current), schema(a=incoming)) == schema(a=current)


@pytest.mark.parametrize(
    ("mode", "iceberg_only", "allowed"),
    [
        (AutomaticWidening.ALWAYS, False, [DOUBLE, DecimalType(11, 1), LONG]),
        (AutomaticWidening.SAME_FAMILY_TYPE, False, [LONG]),
        (AutomaticWidening.NEVER, False, []),
        (AutomaticWidening.ALWAYS, True, [LONG]),
    ],
)
def test_the_mode_selects_the_type_changes(mode, iceberg_only, allowed):
    rule = WideningRule(mode=mode, iceberg_only=iceberg_only)
    merge = SchemaMerge(table="t", casts=True, widening=rule)
    for wider in (DOUBLE, DecimalType(11, 1), LONG, STRING):
        merged = merge.merged(schema(a=INTEGER), schema(a=wider))
        assert merged == schema(a=wider if wider in allowed else INTEGER)


def test_a_struct_of_two_byte_strings_goes_into_a_variant():
    rows = schema(v=schema(value=BINARY, metadata=BINARY))
    assert merge_schemas("t", schema(v=VARIANT), rows) == schema(v=VARIANT)
    with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        merge_schemas("t", schema(v=VARIANT), schema(v=schema(value=BINARY)))


@pytest.mark.parametrize("casts", [False, True])
@pytest.mark.parametrize(
    "incoming", [INTEGER, schema(x=LONG, nothing=VOID), array(STRING), DecimalType(5, 2), VOID]
)
def test_a_column_of_type_void_gets_the_type_of_the_rows(incoming, casts):
    merge = SchemaMerge(table="t", casts=casts)
    table = schema(v=VOID, s=schema(v=VOID))
    merged = merge.merged(table, schema(v=incoming, s=schema(v=incoming)))
    assert merged == schema(v=incoming, s=schema(v=incoming))


def test_without_evolution_a_column_of_type_void_takes_only_nulls():
    check_fits("t", schema(id=LONG, v=VOID), schema(id=LONG, v=VOID))
    with pytest.raises(SchemaError, match=r"'s\.v' has the type void .*DELTA_METADATA_MISMATCH"):
        check_fits("t", schema(s=schema(v=VOID)), schema(s=schema(v=LONG)))


@pytest.mark.parametrize("casts", [False, True])
def test_a_column_with_nulls_of_unknown_type_is_added_as_void(casts):
    merge = SchemaMerge(table="t", casts=casts)
    merged = merge.merged(schema(s=schema(x=LONG)), schema(s=schema(y=VOID), v=VOID))
    assert merged == schema(s=schema(x=LONG, y=VOID), v=VOID)


@pytest.mark.parametrize(
    "data_type",
    [
        array(VOID),
        array(schema(x=LONG, y=VOID)),
        MapType(key_type=STRING, value_type=VOID),
        schema(a=array(VOID)),
    ],
)
def test_void_is_refused_inside_arrays_and_maps(data_type):
    refused = pytest.raises(SchemaError, match="DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE")
    with refused:
        merge_schemas("t", schema(id=LONG), schema(v=data_type))
    with refused:
        merge_schemas("t", schema(v=VOID), schema(v=data_type))
    with refused:
        check_new_table("t", schema(id=LONG, v=data_type), ())


@pytest.mark.parametrize(
    ("current", "incoming", "merged"),
    [
        (BYTE, SHORT, SHORT),
        (SHORT, INTEGER, INTEGER),
        (INTEGER, BYTE, INTEGER),
        (schema(x=BYTE), schema(x=INTEGER), schema(x=INTEGER)),
        (array(INTEGER), array(SHORT), array(INTEGER)),
    ],
)
def test_byte_short_and_int_merge_into_the_wider_type(current, incoming, merged):
    table, rows = schema(v=current), schema(v=incoming)
    assert merge_schemas("t", table, rows, merges_int32=True) == schema(v=merged)
    if merged == current:
        check_fits("t", table, rows)
    else:
        with pytest.raises(SchemaError, match=r"narrower type .*\(DELTA_METADATA_MISMATCH\)"):
            check_fits("t", table, rows)
