"""Does a schema fit a table, and what does the table's become with new columns.

Names match without regard to case; types must be equal, as delta-spark asks of an append: it
doesn't cast (`DELTA_FAILED_TO_MERGE_FIELDS`). A MERGE does. With type widening columns take a wider
type along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bayou.errors import SchemaError
from bayou.protocol.column_rules import (
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    IDENTITY_START_KEY,
)
from bayou.protocol.schema import (
    BINARY,
    BYTE,
    INTEGER,
    SHORT,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from bayou.protocol.type_changes import widens_by_itself

__all__ = [
    "SchemaMerge",
    "check_fits",
    "check_names",
    "check_new_table",
    "is_variant",
    "merge_schemas",
    "widened_columns",
]

_FORBIDDEN_CHARACTERS = " ,;{}()\n\t="

_OF_ROWS = "_metadata."
"""How the names begin under which a row's file, position and id can be read."""


def check_new_table(
    table: str,
    schema: StructType,
    partition_columns: tuple[str, ...],
    *,
    mapped: bool = False,
) -> None:
    """Check schema and partitioning of a table to be made.

    Args:
        mapped: it has column mapping, so that any character may stand in a name.

    Raises:
        SchemaError: no column, duplicate names (without regard to case), characters in a name that
            need column mapping, a partition column that isn't there or can't be one.
    """
    if not schema.fields:
        raise SchemaError(f"{table} can't be created without a column.", table=table)
    check_names(table, schema, "", mapped=mapped)
    for name in partition_columns:
        field = next((f for f in schema if f.name == name), None)
        if field is None:
            other = schema.get(name)
            hint = f" Did you mean {other.name!r}?" if other is not None else ""
            raise SchemaError(
                f"{table} can't be partitioned by {name!r}: there is no such column among "
                f"{', '.join(schema.names)}.{hint}",
                table=table,
                column=name,
            )
        if isinstance(field.data_type, StructType | ArrayType | MapType) or (
            isinstance(field.data_type, PrimitiveType)
            and field.data_type.name in ("variant", "void")
        ):
            raise SchemaError(
                f"{table} can't be partitioned by {name!r}: a column of type {field.data_type} "
                "can't be a partition column.",
                table=table,
                column=name,
            )
    if len(set(partition_columns)) != len(partition_columns):
        raise SchemaError(f"{table}: a partition column is named twice.", table=table)
    if len(partition_columns) == len(schema):
        raise SchemaError(
            f"{table} can't be partitioned by all of its columns; a data file needs one.",
            table=table,
        )


def check_fits(table: str, current: StructType, incoming: StructType) -> None:
    """Check that rows of one schema can be put into a table of another without a change.

    Raises:
        SchemaError: an unknown column, another type, or a missing column that may not be null.
    """
    merged = merge_schemas(table, current, incoming, mapped=True)
    if merged != current:
        have = {path for path, _ in _paths(current, "")}
        new = [path for path, _ in _paths(merged, "") if path not in have]
        raise SchemaError(
            f"{table} has no column {', '.join(map(repr, new))}; the table has "
            f"{', '.join(current.names)}. Leave it out, or allow the schema to grow (mergeSchema, "
            "with_schema_evolution).",
            table=table,
            column=new[0],
        )


def check_names(table: str, schema: StructType, prefix: str = "", *, mapped: bool) -> None:
    """Check the names of columns, at every depth.

    Args:
        mapped: the table has column mapping, so that any character may stand in a name.

    Raises:
        SchemaError: two names that differ in case only, an empty one, or a character that needs
            column mapping; a null character; a struct without a field.
    """
    if prefix and not schema.fields:
        path = prefix.removesuffix(".")
        raise SchemaError(
            f"{table}: column {path!r} is a struct without a field, which no Parquet file can "
            "hold. Give it one, or leave the column out.",
            table=table,
            column=path,
        )
    seen: set[str] = set()
    for field in schema:
        path = prefix + field.name
        if field.name.lower() in seen:
            raise SchemaError(
                f"{table}: column {path!r} is there twice (names differ in case only, or not at "
                "all). Rename one.",
                table=table,
                column=path,
            )
        seen.add(field.name.lower())
        if not prefix and field.name.lower().startswith(_OF_ROWS):
            raise SchemaError(
                f"{table} can't have a column {path!r}: by such names rows tell where they are. "
                "Rename the column.",
                table=table,
                column=path,
            )
        if "\0" in field.name:
            raise SchemaError(
                f"{table}: column name {path!r} has a null character, which Arrow's schemas can't "
                "hold. Rename the column.",
                table=table,
                column=path,
            )
        bad = [] if mapped else sorted({c for c in field.name if c in _FORBIDDEN_CHARACTERS})
        if bad or not field.name:
            raise SchemaError(
                f"{table}: column name {path!r} "
                + (f"has {', '.join(map(repr, bad))}, which needs" if bad else "is empty, which")
                + (" column mapping. Rename the column." if bad else " can't be."),
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
    widens: bool = False,
    of_files: bool = False,
) -> StructType:
    """The table's schema with the columns that it lacks, put last, nullable; nested ones too.

    Args:
        mapped: the table has column mapping, so that any character may stand in a name.
        widens: a column takes the wider type that the rows have (`delta.enableTypeWidening`).
        of_files: see `SchemaMerge`.

    Raises:
        SchemaError: a column of another type, or a missing column that may not be null.
    """
    check_names(table, incoming, "", mapped=mapped)
    return SchemaMerge(table=table, widens=widens, of_files=of_files).merged(current, incoming)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMerge:
    """How a table's schema takes in that of rows.

    Attributes:
        widens: columns take wider types.
        casts: values are cast to the type of their column, and rows needn't have every column, as
            in a MERGE; else types must be equal.
        of_files: both are schemas of Parquet files that become one table: of byte, short and int
            the wider one counts, and names must be the same in the same case.
    """

    table: str
    widens: bool = False
    casts: bool = False
    of_files: bool = False

    def merged(self, current: StructType, incoming: StructType) -> StructType:
        """The table's columns, then those that only the rows have, nullable.

        Raises:
            SchemaError: a column of another type, a missing column that may not be null, or a new
                one of nothing but nulls.
        """
        return self._struct(current, incoming, "")

    def _struct(self, current: StructType, incoming: StructType, prefix: str) -> StructType:
        by_name = {f.name.lower(): f for f in incoming}
        fields: list[StructField] = []
        for field in current:
            path = prefix + field.name
            other = by_name.pop(field.name.lower(), None)
            if other is not None:
                if self.of_files and other.name != field.name:
                    raise SchemaError(
                        f"{self.table} has a column {path!r}, which a file spells "
                        f"{prefix + other.name!r}; files are read by the names of their columns.",
                        table=self.table,
                        column=path,
                    )
                fields.append(
                    field.with_data_type(self._type(field.data_type, other.data_type, path))
                )
                continue
            if not self.casts and not field.nullable and not _is_made(field):
                raise SchemaError(
                    f"Column {path!r} of {self.table} may not be null, and the data doesn't have "
                    "it.",
                    table=self.table,
                    column=path,
                )
            fields.append(field)
        fields.extend(self._new(f, prefix + f.name) for f in by_name.values())
        return StructType(tuple(fields))

    def _new(self, field: StructField, path: str) -> StructField:
        if field.data_type == VOID:
            raise SchemaError(
                f"Column {path!r} can't be added to {self.table}: the data has nothing but nulls "
                "for it, which say no type"
                + (" (DELTA_MERGE_ADD_VOID_COLUMN)" if self.casts else "")
                + ". Cast it, or leave it out.",
                table=self.table,
                column=path,
            )
        return replace(field, nullable=True)

    def _type(self, current: DataType, incoming: DataType, path: str) -> DataType:
        match current, incoming:
            case StructType(), StructType():
                return self._struct(current, incoming, f"{path}.")
            case ArrayType(), ArrayType():
                element = self._type(current.element_type, incoming.element_type, f"{path}.element")
                return replace(current, element_type=element)
            case MapType(), MapType():
                key = self._type(current.key_type, incoming.key_type, f"{path}.key")
                value = self._type(current.value_type, incoming.value_type, f"{path}.value")
                return replace(current, key_type=key, value_type=value)
            case _ if self.widens and widens_by_itself(current, incoming):
                return incoming
            case _ if self.casts or current == incoming or is_variant(current, incoming):
                return current
            case _ if self.of_files and current in _INT32 and incoming in _INT32:
                return max(current, incoming, key=_INT32.index)
            case _ if incoming == VOID:
                return current  # nothing but nulls goes with any type
            case _:
                raise SchemaError(
                    f"Column {path!r} of {self.table} has type {current}, the data has {incoming}; "
                    "they can't be merged (DELTA_FAILED_TO_MERGE_FIELDS). Cast the data first.",
                    table=self.table,
                    column=path,
                )


_INT32: tuple[DataType, ...] = (BYTE, SHORT, INTEGER)
"""What Parquet holds as 32-bit integers, from the narrowest to the widest."""


def widened_columns(before: StructType, after: StructType) -> list[tuple[str, ...]]:
    """Paths of the columns and fields whose type is another one, `element` and such among them."""
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


def is_variant(current: DataType, incoming: DataType) -> bool:
    """Whether rows bring a variant as what it is in Arrow without a name: a struct of two."""
    return (
        current == VARIANT
        and isinstance(incoming, StructType)
        and {f.name: f.data_type for f in incoming} == {"metadata": BINARY, "value": BINARY}
    )


def _is_made(field: StructField) -> bool:
    """Whether a column gets values where the rows have none."""
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
    found: list[tuple[str, StructField]] = []
    for field in schema:
        path = prefix + field.name
        found.append((path, field))
        for name, nested in _structs_in(field.data_type, path):
            found.extend(_paths(nested, f"{name}."))
    return found
