"""Schema enforcement and schema evolution.

Column names are case-insensitive. As in delta-spark, an append doesn't cast: the rows must have the
types of the table's columns (`DELTA_FAILED_TO_MERGE_FIELDS`). There are three exceptions:

- Parquet stores byte, short and int in the same way. A short column accepts bytes, and an int
  column accepts bytes and shorts. If a column has a narrower type than the rows, schema evolution
  changes the column to the type of the rows.
- With type widening, schema evolution can also change a column to other wider types.
- Schema evolution can change a column of type void, which has only nulls, to any type.

A MERGE casts values to the column's type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bayou.errors import SchemaError
from bayou.protocol import properties
from bayou.protocol.column_metadata import (
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    IDENTITY_START_KEY,
)
from bayou.protocol.schema import (
    BINARY,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    nested_types,
)
from bayou.protocol.type_widening import INT32_TYPES, AutomaticWidening, WideningRule

_FORBIDDEN_CHARACTERS = " ,;{}()\n\t="

_METADATA_PREFIX = "_metadata."
"""Prefix of the names of metadata columns, such as `_metadata.file_path`."""


def check_new_table(
    table: str,
    schema: StructType,
    partition_columns: tuple[str, ...],
    *,
    mapped: bool = False,
) -> None:
    """Check the schema and the partition columns of a new table.

    Args:
        mapped: whether column mapping is enabled, so that names may contain any character.
    """
    if not schema.fields:
        raise SchemaError(
            f"{table}: a table can't be created without columns. Add a column.", table=table
        )
    check_names(table, schema, "", mapped=mapped)
    for column in schema:
        _check_no_void_elements(table, column.data_type, column.name)
    for name in partition_columns:
        field = next((f for f in schema if f.name == name), None)
        if field is None:
            other = schema.get(name)
            hint = f" Did you mean {other.name!r}?" if other is not None else ""
            raise SchemaError(
                f"{table}: partition column {name!r} doesn't exist; the columns are "
                f"{', '.join(schema.names)}.{hint}",
                table=table,
                column=name,
            )
        if isinstance(
            field.data_type, StructType | ArrayType | MapType | GeometryType | GeographyType
        ) or (
            isinstance(field.data_type, PrimitiveType)
            and field.data_type.name in ("variant", "void")
        ):
            raise SchemaError(
                f"{table}: column {name!r} of type {field.data_type} can't be a partition column "
                "(DELTA_INVALID_PARTITION_COLUMN_TYPE). Use a column of a primitive type.",
                table=table,
                column=name,
            )
    if len(set(partition_columns)) != len(partition_columns):
        raise SchemaError(
            f"{table}: a partition column is listed twice. List each column once.", table=table
        )
    if len(partition_columns) == len(schema):
        raise SchemaError(
            f"{table}: all columns are partition columns, but data files need at least one column "
            "(DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION). Partition by fewer columns.",
            table=table,
        )


def check_fits(table: str, current: StructType, incoming: StructType) -> None:
    """Check that rows with the schema `incoming` can be written without schema evolution.

    Args:
        current: the table's schema.
    """
    merged = merge_schemas(table, current, incoming, mapped=True, merges_int32=True)
    if merged != current:
        existing = {path for path, _ in _paths(current, "")}
        new = [path for path, _ in _paths(merged, "") if path not in existing]
        for changed in map(".".join, widened_columns(current, merged)):
            raise SchemaError(
                f"{table}: column {changed!r} has the type void or a narrower type than the data "
                "(DELTA_METADATA_MISMATCH). Cast or drop the column of the data, or write with "
                "merge_schema=True (in Spark, the option mergeSchema) to change the column's type.",
                table=table,
                column=changed,
            )
        raise SchemaError(
            f"{table}: the table has no column {', '.join(map(repr, new))}; it has "
            f"{', '.join(current.names)} (DELTA_METADATA_MISMATCH). Drop the column from the data, "
            "or write with merge_schema=True (in Spark, the option mergeSchema) to add it.",
            table=table,
            column=new[0],
        )


def check_names(table: str, schema: StructType, prefix: str = "", *, mapped: bool) -> None:
    """Check the names of columns and nested fields.

    Args:
        prefix: path of the enclosing struct, followed by a dot; "" for top-level columns.
        mapped: whether column mapping is enabled, so that names may contain any character.
    """
    if prefix and not schema.fields:
        path = prefix.removesuffix(".")
        raise SchemaError(
            f"{table}: column {path!r} is a struct without fields, which Parquet doesn't "
            "support. Add a field, or drop the column.",
            table=table,
            column=path,
        )
    seen: set[str] = set()
    for field in schema:
        path = prefix + field.name
        if field.name.lower() in seen:
            raise SchemaError(
                f"{table}: column {path!r} is defined twice; names are case-insensitive "
                "(DELTA_DUPLICATE_COLUMNS_FOUND). Rename one of the columns.",
                table=table,
                column=path,
            )
        seen.add(field.name.lower())
        if not prefix and field.name.lower().startswith(_METADATA_PREFIX):
            raise SchemaError(
                f"{table}: column name {path!r} starts with {_METADATA_PREFIX!r}, which is "
                "reserved for metadata columns. Rename the column.",
                table=table,
                column=path,
            )
        if "\0" in field.name:
            raise SchemaError(
                f"{table}: column name {path!r} contains a null character, which Arrow doesn't "
                "support. Rename the column.",
                table=table,
                column=path,
            )
        invalid = [] if mapped else sorted({c for c in field.name if c in _FORBIDDEN_CHARACTERS})
        if invalid or not field.name:
            problem = (
                f"contains {', '.join(map(repr, invalid))}, which requires column mapping"
                if invalid
                else "is empty"
            )
            raise SchemaError(
                f"{table}: column name {path!r} {problem} "
                "(DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES). Rename the column.",
                table=table,
                column=path,
            )
        for name, nested in _structs_in(field.data_type, path):
            check_names(table, nested, f"{name}.", mapped=mapped)


def merge_schemas(
    table: str,
    current: StructType,
    incoming: StructType,
    *,
    mapped: bool = False,
    widening: WideningRule | None = None,
    merges_int32: bool = False,
    from_parquet_files: bool = False,
) -> StructType:
    """Return `current` with the additional columns and nested fields of `incoming`, as nullable.

    Args:
        mapped: whether column mapping is enabled, so that names may contain any character.
        widening: rule that decides which columns are widened to their types in `incoming`. If None,
            type widening isn't used.
        merges_int32: whether byte, short and int merge into the wider type, even without type
            widening.
        from_parquet_files: whether both schemas are from Parquet files that become a table. If
            True, byte, short and int merge into the wider type, and names are case-sensitive.
    """
    check_names(table, incoming, "", mapped=mapped)
    merge = SchemaMerge(
        table=table,
        widening=widening,
        merges_int32=merges_int32,
        from_parquet_files=from_parquet_files,
    )
    return merge.merged(current, incoming)


def widening_rule(configuration: Mapping[str, str], mode: AutomaticWidening) -> WideningRule | None:
    """Return the rule for widening columns; None if `delta.enableTypeWidening` isn't true."""
    if not properties.TYPE_WIDENING.read(configuration):
        return None
    iceberg = "iceberg" in properties.UNIVERSAL_FORMATS.read(configuration)
    return WideningRule(mode=mode, iceberg_only=iceberg)


def widened_type(current: DataType, incoming: DataType, rule: WideningRule) -> DataType:
    """Return the type that a column of type `current` gets when rows are written to it.

    The result is `current`, with each primitive type widened to the type in `incoming` if `rule`
    allows this change. Struct fields that only `incoming` has aren't added.

    Args:
        incoming: type of the column in the written rows.
    """
    match current, incoming:
        case StructType(), StructType():
            fields = [(field, incoming.get(field.name)) for field in current]
            return StructType(
                tuple(
                    field
                    if other is None
                    else field.with_data_type(widened_type(field.data_type, other.data_type, rule))
                    for field, other in fields
                )
            )
        case ArrayType(), ArrayType():
            element = widened_type(current.element_type, incoming.element_type, rule)
            return replace(current, element_type=element)
        case MapType(), MapType():
            key = widened_type(current.key_type, incoming.key_type, rule)
            value = widened_type(current.value_type, incoming.value_type, rule)
            return replace(current, key_type=key, value_type=value)
        case _:
            return incoming if rule.allows(current, incoming) else current


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMerge:
    """Merges the schema of rows into a table's schema.

    A column of type void gets the type that it has in the rows.

    Attributes:
        widening: rule that decides which columns are widened to the types that they have in the
            rows. If None, type widening isn't used.
        casts: whether values are cast to the types of their columns, as in a MERGE. If True, the
            rows may lack NOT NULL columns. If False, the rows must have the types of the columns,
            or types that the other attributes allow.
        merges_int32: whether byte, short and int merge into the wider type, even without type
            widening.
        from_parquet_files: whether both schemas are from Parquet files that become a table. If
            True, byte, short and int merge into the wider type, and names are case-sensitive.
    """

    table: str
    widening: WideningRule | None = None
    casts: bool = False
    merges_int32: bool = False
    from_parquet_files: bool = False

    def merged(self, current: StructType, incoming: StructType) -> StructType:
        """Return the table's columns, followed by the rows' new columns as nullable columns."""
        return self._merge_structs(current, incoming, "")

    def _merge_structs(self, current: StructType, incoming: StructType, prefix: str) -> StructType:
        by_name = {f.name.lower(): f for f in incoming}
        fields: list[StructField] = []
        for field in current:
            path = prefix + field.name
            other = by_name.pop(field.name.lower(), None)
            if other is not None:
                if self.from_parquet_files and other.name != field.name:
                    raise SchemaError(
                        f"{self.table}: column {path!r} is named {prefix + other.name!r} in "
                        "another file, but the column names of Parquet files are case-sensitive. "
                        "Rewrite one of the files so that both have the same column name.",
                        table=self.table,
                        column=path,
                    )
                fields.append(
                    field.with_data_type(self._merge_types(field.data_type, other.data_type, path))
                )
                continue
            if not self.casts and not field.nullable and not _is_generated(field):
                raise SchemaError(
                    f"{self.table}: column {path!r} is NOT NULL, but the data doesn't have it "
                    "(DELTA_MISSING_NOT_NULL_COLUMN_VALUE). Add the column to the data.",
                    table=self.table,
                    column=path,
                )
            fields.append(field)
        fields.extend(self._new_field(f, prefix + f.name) for f in by_name.values())
        return StructType(tuple(fields))

    @property
    def _merges_int32(self) -> bool:
        return self.merges_int32 or self.from_parquet_files

    def _new_field(self, field: StructField, path: str) -> StructField:
        _check_no_void_elements(self.table, field.data_type, path)
        return replace(field, nullable=True)

    def _merge_types(self, current: DataType, incoming: DataType, path: str) -> DataType:
        match current, incoming:
            case _ if current == VOID:
                _check_no_void_elements(self.table, incoming, path)
                return incoming
            case StructType(), StructType():
                return self._merge_structs(current, incoming, f"{path}.")
            case ArrayType(), ArrayType():
                element = self._merge_types(
                    current.element_type, incoming.element_type, f"{path}.element"
                )
                return replace(current, element_type=element)
            case MapType(), MapType():
                key = self._merge_types(current.key_type, incoming.key_type, f"{path}.key")
                value = self._merge_types(current.value_type, incoming.value_type, f"{path}.value")
                return replace(current, key_type=key, value_type=value)
            case _ if self.widening is not None and self.widening.allows(current, incoming):
                return incoming
            case _ if self.casts or current == incoming or is_stored_form(current, incoming):
                return current
            case _ if current in INT32_TYPES and incoming in INT32_TYPES and self._merges_int32:
                return max(current, incoming, key=INT32_TYPES.index)
            case _ if incoming == VOID:
                return current  # a column of any type can contain nulls
            case _:
                raise SchemaError(
                    f"{self.table}: column {path!r} has type {current}, but the data has "
                    f"{incoming}; the types can't be merged (DELTA_FAILED_TO_MERGE_FIELDS). Cast "
                    "the data first.",
                    table=self.table,
                    column=path,
                )


def widened_columns(before: StructType, after: StructType) -> list[tuple[str, ...]]:
    """Return the paths of columns and nested fields whose types differ.

    A path contains `element`, `key` and `value` for the levels of arrays and maps.
    """
    return list(_widened(before, after, ()))


def _widened(before: DataType, after: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match before, after:
        case StructType(), StructType():
            for field in before:
                other = after.get(field.name)
                if other is not None:
                    yield from _widened(field.data_type, other.data_type, (*path, field.name))
        case ArrayType(), ArrayType():
            yield from _widened(before.element_type, after.element_type, (*path, "element"))
        case MapType(), MapType():
            yield from _widened(before.key_type, after.key_type, (*path, "key"))
            yield from _widened(before.value_type, after.value_type, (*path, "value"))
        case _ if before != after:
            yield path


def is_stored_form(current: DataType, incoming: DataType) -> bool:
    """Whether Arrow represents values of the type `current` by values of the type `incoming`.

    Arrow represents a variant by a struct, and a geometry or geography by binary. The result is
    False for all other types.
    """
    if isinstance(current, GeometryType | GeographyType):
        return incoming == BINARY
    return (
        current == VARIANT
        and isinstance(incoming, StructType)
        and {f.name: f.data_type for f in incoming} == {"metadata": BINARY, "value": BINARY}
    )


def _check_no_void_elements(table: str, data_type: DataType, path: str) -> None:
    """Check that a type contains no array of void and no map with keys or values of void."""
    for outer in (data_type, *(inner for _, inner, _ in nested_types(data_type))):
        if not isinstance(outer, ArrayType | MapType):
            continue
        if any(inner == VOID for _, inner, _ in nested_types(outer)):
            raise SchemaError(
                f"{table}: column {path!r} can't have the type {data_type}, because void isn't "
                "supported in arrays and maps (DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE). Cast "
                "or drop the column.",
                table=table,
                column=path,
            )


def _is_generated(field: StructField) -> bool:
    return any(
        key in field.metadata
        for key in (GENERATION_EXPRESSION_KEY, IDENTITY_START_KEY, CURRENT_DEFAULT_KEY)
    )


def _structs_in(data_type: DataType, path: str) -> list[tuple[str, StructType]]:
    match data_type:
        case StructType():
            return [(path, data_type)]
        case ArrayType():
            return _structs_in(data_type.element_type, f"{path}.element")
        case MapType():
            return [
                *_structs_in(data_type.key_type, f"{path}.key"),
                *_structs_in(data_type.value_type, f"{path}.value"),
            ]
        case _:
            return []


def _paths(schema: StructType, prefix: str) -> list[tuple[str, StructField]]:
    paths: list[tuple[str, StructField]] = []
    for field in schema:
        path = prefix + field.name
        paths.append((path, field))
        for name, nested in _structs_in(field.data_type, path):
            paths.extend(_paths(nested, f"{name}."))
    return paths
