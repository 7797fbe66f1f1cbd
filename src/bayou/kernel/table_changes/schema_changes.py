"""What a change of metadata means to someone who reads a table commit after commit.

Which changes of schema a range of changes can be read across: those that only add columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bayou.kernel.log.table_state import TableState
from bayou.kernel.table_features.column_mapping import (
    ColumnMappingMode,
    column_mapping_mode,
    physical_name,
)
from bayou.kernel.table_features.reader_support import check_readable, table_schema
from bayou.protocol import features
from bayou.protocol.actions import Metadata, Protocol
from bayou.protocol.schema import (
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructType,
)
from bayou.protocol.type_changes import is_readable_change

__all__ = [
    "MetadataChange",
    "TableShape",
    "changes_between",
    "incompatibility",
    "partition_schema",
    "read_problem",
    "same_metadata",
    "same_protocol",
    "schema_of",
    "widens_types",
    "with_metadata",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The schema that a table has at a version, and how its columns are mapped."""

    schema: StructType
    mode: ColumnMappingMode


def incompatibility(earlier: TableShape, later: TableShape) -> str | None:
    """Why rows written under one schema can't be read with a later one; None where they can.

    As delta-spark has it: the later schema may have more columns, and columns may become nullable;
    nothing else may differ. Column mapping, whose names alone tell a rename from a new column, may
    be turned on in between and not off.
    """
    return _mapping_change(earlier, later) or _schema_change(earlier.schema, later.schema, "")


def _mapping_change(earlier: TableShape, later: TableShape) -> str | None:
    if later.mode == "none":
        return None if earlier.mode == "none" else "column mapping was turned off"
    if earlier.mode not in ("none", later.mode):
        return f"the column mapping mode changed from {earlier.mode} to {later.mode}"
    names = dict(_physical_paths(later.schema, ()))
    # Turning the mapping on keeps the names: those of the files are then the physical ones.
    for path, name in _physical_paths(earlier.schema, ()):
        if path not in names:
            return f"column {name!r} was dropped, or replaced by one of the same name"
        if names[path] != name:
            return f"column {name!r} was renamed to {names[path]!r}"
    return None


def _physical_paths(
    data_type: DataType, prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(physical path, logical name) of every field, nested ones included."""
    match data_type:
        case StructType(fields):
            for field in fields:
                path = (*prefix, physical_name(field))
                yield path, field.name
                yield from _physical_paths(field.data_type, path)
        case ArrayType():
            yield from _physical_paths(data_type.element_type, (*prefix, "element"))
        case MapType():
            yield from _physical_paths(data_type.key_type, (*prefix, "key"))
            yield from _physical_paths(data_type.value_type, (*prefix, "value"))
        case _:
            return


def _schema_change(earlier: StructType, later: StructType, prefix: str) -> str | None:
    known = {field.name.lower(): field for field in later}
    for field in earlier:
        name = prefix + field.name
        other = known.get(field.name.lower())
        if other is None:
            return f"column {name!r} was dropped"
        if other.name != field.name:
            return f"column {name!r} was renamed to {prefix + other.name!r}"
        change = _null_change(name, field.nullable, other.nullable) or _type_change(
            field.data_type, other.data_type, name
        )
        if change is not None:
            return change
    return None


def _type_change(earlier: DataType, later: DataType, name: str) -> str | None:
    match earlier, later:
        case (StructType(), StructType()):
            return _schema_change(earlier, later, f"{name}.")
        case (ArrayType(), ArrayType()):
            name = f"{name}.element"
            return _null_change(name, earlier.contains_null, later.contains_null) or _type_change(
                earlier.element_type, later.element_type, name
            )
        case (MapType(), MapType()):
            nulls = earlier.value_contains_null, later.value_contains_null
            return (
                _null_change(f"{name}.value", *nulls)
                or _type_change(earlier.key_type, later.key_type, f"{name}.key")
                or _type_change(earlier.value_type, later.value_type, f"{name}.value")
            )
        case _:
            if earlier in (VOID, later):
                return None
            return f"column {name!r} changed its type from {earlier} to {later}"


def _null_change(name: str, earlier: bool, later: bool) -> str | None:
    """Rows with nulls don't fit what forbids them."""
    return f"{name!r} can no longer be null" if earlier and not later else None


_PREFIX = "delta."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange:
    """What isn't an addition between two versions' metadata.

    Attributes:
        renamed: `'old' -> 'new'` of columns with a mapping.
        dropped: names of columns with a mapping.
        widened: `'name': from -> to`.
        other: any other change that takes something away, in words; None for none.
    """

    renamed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    other: str | None = None

    def __bool__(self) -> bool:
        return bool(self.renamed or self.dropped or self.widened or self.other)


def changes_between(table: str, old: Metadata, new: Metadata) -> MetadataChange:
    """What of the old columns is gone, renamed, or has another type in the new ones.

    Columns are told by their physical names where the new metadata maps them; else only types
    that were widened are looked at.
    """
    before, after = _shape(table, old), _shape(table, new)
    was, now = dict(_columns(before.schema, (), "")), dict(_columns(after.schema, (), ""))
    widened = tuple(
        f"'{name}': {kind} -> {now[path][1]}"
        for path, (name, kind) in was.items()
        if path in now and is_readable_change(kind, now[path][1])
    )
    if after.mode == "none":
        other = None if before.mode == "none" else "column mapping was turned off"
        return MetadataChange(widened=widened, other=other)
    gone = [path for path in was if path not in now]
    return MetadataChange(
        renamed=tuple(
            f"'{name}' -> '{now[path][0]}'"
            for path, (name, _) in was.items()
            if path in now and name.rpartition(".")[2] != now[path][0].rpartition(".")[2]
        ),
        dropped=tuple(f"'{was[path][0]}'" for path in gone if path[:-1] not in gone),
        widened=widened,
        other=_partition_change(table, old, new),
    )


def read_problem(table: str, data: Metadata, read: Metadata, *, widens: bool = False) -> str | None:
    """Why rows written under one metadata can't be read with the schema of another.

    Args:
        data: that of the rows.
        read: that of the reader; it may have more columns.
        widens: whether narrower types of the rows are fine.
    """
    before, after = _shape(table, data), _shape(table, read)
    if widens:
        before = replace(before, schema=_widened(before.schema, after.schema))
    return incompatibility(before, after) or _partition_change(table, data, read)


def schema_of(table: str, metadata: Metadata) -> StructType:
    """The schema that metadata describes; raises as loading the table does."""
    return table_schema(table, metadata)


def partition_schema(metadata: Metadata) -> StructType:
    """The partition columns of metadata, in their order."""
    schema = StructType.from_json(metadata.schema_string)
    fields = {field.name: field for field in schema}
    return StructType(tuple(fields[name] for name in metadata.partition_columns))


def same_metadata(left: Metadata, right: Metadata) -> bool:
    """Whether schema, partition columns and Delta's own properties are the same."""
    return (
        StructType.from_json(left.schema_string) == StructType.from_json(right.schema_string)
        and list(left.partition_columns) == list(right.partition_columns)
        and _own_properties(left) == _own_properties(right)
    )


def same_protocol(left: Protocol, right: Protocol) -> bool:
    """Whether two protocols ask for the same, in whatever order."""
    return (
        left.min_reader_version == right.min_reader_version
        and left.min_writer_version == right.min_writer_version
        and set(left.reader_features or ()) == set(right.reader_features or ())
        and set(left.writer_features or ()) == set(right.writer_features or ())
    )


def widens_types(protocol: Protocol) -> bool:
    """Whether the table may change its columns' types (PROTOCOL.md, Type Widening)."""
    named = features.reader_features(protocol)
    return features.TYPE_WIDENING in named or features.TYPE_WIDENING_PREVIEW in named


def with_metadata(state: TableState, metadata: Metadata, protocol: Protocol) -> TableState:
    """A version under other metadata: how its files are read with a schema of another time.

    Raises:
        UnsupportedFeatureError: the protocol asks for what isn't supported.
    """
    schema = table_schema(state.path, metadata)
    check_readable(state.path, protocol, metadata, schema, managed=state.catalog is not None)
    return TableState(
        segment=state.log_segment,
        replay=state.replay_state,
        contents=state.checkpoint_contents,
        stated_totals=state.stated_totals,
        catalog=state.catalog,
        in_commit_timestamp=state.in_commit_timestamp,
        protocol=protocol,
        metadata=metadata,
        schema=schema,
        transactions=state.transaction_actions,
        domains=state.domain_actions,
    )


def _shape(table: str, metadata: Metadata) -> TableShape:
    schema = table_schema(table, metadata)
    return TableShape(schema=schema, mode=column_mapping_mode(metadata.configuration))


def _own_properties(metadata: Metadata) -> dict[str, str]:
    return {k: v for k, v in metadata.configuration.items() if k.startswith(_PREFIX)}


def _partition_change(table: str, old: Metadata, new: Metadata) -> str | None:
    was, now = _physical_partitions(table, old), _physical_partitions(table, new)
    if was == now:
        return None
    return f"the partition columns changed from {list(was)} to {list(now)}"


def _physical_partitions(table: str, metadata: Metadata) -> tuple[str, ...]:
    names = {field.name: physical_name(field) for field in table_schema(table, metadata)}
    return tuple(names.get(name, name) for name in metadata.partition_columns)


def _columns(
    data_type: DataType, prefix: tuple[str, ...], name: str
) -> Iterator[tuple[tuple[str, ...], tuple[str, DataType]]]:
    """(physical path, (logical name, type)) of every field, and of elements, keys and values."""
    match data_type:
        case StructType(fields):
            for field in fields:
                path = (*prefix, physical_name(field))
                full = f"{name}.{field.name}" if name else field.name
                yield path, (full, field.data_type)
                yield from _columns(field.data_type, path, full)
        case ArrayType():
            yield (*prefix, "element"), (f"{name}.element", data_type.element_type)
            yield from _columns(data_type.element_type, (*prefix, "element"), f"{name}.element")
        case MapType():
            for part, kind in (("key", data_type.key_type), ("value", data_type.value_type)):
                yield (*prefix, part), (f"{name}.{part}", kind)
                yield from _columns(kind, (*prefix, part), f"{name}.{part}")
        case _:
            return


def _widened(narrow: StructType, wide: StructType) -> StructType:
    """The narrow schema with the wide one's types where those hold all of its values."""
    known = {field.name: field for field in wide}
    return StructType(
        tuple(
            field
            if field.name not in known
            else field.with_data_type(_widened_type(field.data_type, known[field.name].data_type))
            for field in narrow
        )
    )


def _widened_type(narrow: DataType, wide: DataType) -> DataType:
    match narrow, wide:
        case StructType(), StructType():
            return _widened(narrow, wide)
        case ArrayType(), ArrayType():
            element = _widened_type(narrow.element_type, wide.element_type)
            return replace(narrow, element_type=element)
        case MapType(), MapType():
            return replace(
                narrow,
                key_type=_widened_type(narrow.key_type, wide.key_type),
                value_type=_widened_type(narrow.value_type, wide.value_type),
            )
        case _:
            return wide if is_readable_change(narrow, wide) else narrow
