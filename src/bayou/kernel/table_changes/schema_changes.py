"""Schema and metadata changes between versions, and checks whether incremental reads allow them."""

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
from bayou.protocol.type_widening import is_readable_change


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """Schema and column mapping mode of a table at a version."""

    schema: StructType
    mode: ColumnMappingMode


def incompatibility(earlier: TableShape, later: TableShape) -> str | None:
    """Return why rows of `earlier` can't be read with the schema of `later`; None if they can.

    As in delta-spark, columns may be added and may become nullable. A void column may get another
    type. Other changes of columns are incompatible.

    Column mapping may be enabled, but not disabled: without physical names, a renamed column can't
    be distinguished from a new column.
    """
    return _mapping_change(earlier, later) or _schema_change(earlier.schema, later.schema, "")


def _mapping_change(earlier: TableShape, later: TableShape) -> str | None:
    if later.mode == "none":
        return None if earlier.mode == "none" else "column mapping was disabled"
    if earlier.mode not in ("none", later.mode):
        return f"the column mapping mode changed from {earlier.mode} to {later.mode}"
    names = dict(_physical_paths(later.schema, ()))
    # When column mapping is enabled, the existing names become the physical names.
    for path, name in _physical_paths(earlier.schema, ()):
        if path not in names:
            return f"column {name!r} was dropped, or replaced by another column of the same name"
        if names[path] != name:
            return f"column {name!r} was renamed to {names[path]!r}"
    return None


def _physical_paths(
    data_type: DataType, prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (physical path, logical name) of every field, including nested fields."""
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
    by_name = {field.name.lower(): field for field in later}
    for field in earlier:
        name = prefix + field.name
        other = by_name.get(field.name.lower())
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
    return f"column {name!r} can no longer be null" if earlier and not later else None


def moved_column(earlier: StructType, later: StructType) -> str | None:
    """Return the name of a column whose physical name differs between two schemas.

    The result is None if there is no such column.

    If the column mapping mode is `none`, the schemas must not contain physical names; remove them
    with `without_mapping`.
    """
    paths = {name: path for path, (name, _) in _columns(later, (), "")}
    columns = _columns(earlier, (), "")
    return next((name for path, (name, _) in columns if paths.get(name, path) != path), None)


_PREFIX = "delta."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange:
    """Incompatible changes between two `metaData` actions. `bool(...)` is False if there are none.

    Attributes:
        renamed: `'old' -> 'new'` for each renamed column.
        dropped: `'name'` of each dropped column.
        widened: `'name': from -> to` for each column with a wider type.
        other: description of another incompatible change, such as other partition columns; None if
            there is none.
    """

    renamed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    other: str | None = None

    def __bool__(self) -> bool:
        return bool(self.renamed or self.dropped or self.widened or self.other)


def changes_between(table: str, old: Metadata, new: Metadata) -> MetadataChange:
    """Return the incompatible changes from `old` to `new`.

    Renamed columns, dropped columns and changes of the partition columns are found only if the
    table has column mapping.
    """
    before, after = _shape(table, old), _shape(table, new)
    old_columns = dict(_columns(before.schema, (), ""))
    new_columns = dict(_columns(after.schema, (), ""))
    widened = tuple(
        f"'{name}': {kind} -> {new_columns[path][1]}"
        for path, (name, kind) in old_columns.items()
        if path in new_columns and is_readable_change(kind, new_columns[path][1])
    )
    if after.mode == "none":
        other = None if before.mode == "none" else "column mapping was disabled"
        return MetadataChange(widened=widened, other=other)
    dropped = [path for path in old_columns if path not in new_columns]
    return MetadataChange(
        renamed=tuple(
            f"'{name}' -> '{new_columns[path][0]}'"
            for path, (name, _) in old_columns.items()
            if path in new_columns
            and name.rpartition(".")[2] != new_columns[path][0].rpartition(".")[2]
        ),
        dropped=tuple(f"'{old_columns[path][0]}'" for path in dropped if path[:-1] not in dropped),
        widened=widened,
        other=_partition_change(table, old, new),
    )


def read_problem(table: str, data: Metadata, read: Metadata, *, widens: bool = False) -> str | None:
    """Return why rows can't be read with the metadata of another version; None if they can be read.

    Args:
        data: the metadata of the version that added the rows.
        read: the metadata of the other version. Its schema is used to read the rows.
        widens: whether a column may have a wider type in `read` than in `data`.
    """
    before, after = _shape(table, data), _shape(table, read)
    if widens:
        before = replace(before, schema=_widen(before.schema, after.schema))
    return incompatibility(before, after) or _partition_change(table, data, read)


def partition_schema(metadata: Metadata) -> StructType:
    """Return the schema of the partition columns, in the order of `metaData.partitionColumns`."""
    schema = StructType.from_json(metadata.schema_string)
    fields = {field.name: field for field in schema}
    return StructType(tuple(fields[name] for name in metadata.partition_columns))


def same_metadata(left: Metadata, right: Metadata) -> bool:
    """Whether two `metaData` actions have the same schema, partition columns and Delta properties.

    Delta properties are the table properties that begin with `delta.`.
    """
    return (
        StructType.from_json(left.schema_string) == StructType.from_json(right.schema_string)
        and list(left.partition_columns) == list(right.partition_columns)
        and _delta_properties(left) == _delta_properties(right)
    )


def same_protocol(left: Protocol, right: Protocol) -> bool:
    """Whether two protocols are equal, regardless of the order of features."""
    return (
        left.min_reader_version == right.min_reader_version
        and left.min_writer_version == right.min_writer_version
        and set(left.reader_features or ()) == set(right.reader_features or ())
        and set(left.writer_features or ()) == set(right.writer_features or ())
    )


def widens_types(protocol: Protocol) -> bool:
    """Whether the protocol has the feature `typeWidening` (PROTOCOL.md, Type Widening)."""
    names = features.reader_features(protocol)
    return features.TYPE_WIDENING in names or features.TYPE_WIDENING_PREVIEW in names


def with_metadata(state: TableState, metadata: Metadata, protocol: Protocol) -> TableState:
    """Return a copy of a table state with new metadata and a new protocol, but the same files."""
    schema = table_schema(state.path, metadata)
    check_readable(state.path, protocol, metadata, schema, managed=state.catalog is not None)
    return TableState(
        segment=state.log_segment,
        replay=state.replay_state,
        contents=state.checkpoint_contents,
        checksum_totals=state.checksum_totals,
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


def _delta_properties(metadata: Metadata) -> dict[str, str]:
    return {k: v for k, v in metadata.configuration.items() if k.startswith(_PREFIX)}


def _partition_change(table: str, old: Metadata, new: Metadata) -> str | None:
    before, after = _physical_partitions(table, old), _physical_partitions(table, new)
    if before == after:
        return None
    return f"the partition columns changed from {list(before)} to {list(after)}"


def _physical_partitions(table: str, metadata: Metadata) -> tuple[str, ...]:
    names = {field.name: physical_name(field) for field in table_schema(table, metadata)}
    return tuple(names.get(name, name) for name in metadata.partition_columns)


def _columns(
    data_type: DataType, prefix: tuple[str, ...], name: str
) -> Iterator[tuple[tuple[str, ...], tuple[str, DataType]]]:
    """Yield (physical path, (logical name, type)) of every field, element, key and value."""
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


def _widen(narrow: StructType, wide: StructType) -> StructType:
    """Return `narrow` with each column widened to its type in `wide`, if this type is wider."""
    by_name = {field.name: field for field in wide}
    return StructType(
        tuple(
            field
            if field.name not in by_name
            else field.with_data_type(_widen_type(field.data_type, by_name[field.name].data_type))
            for field in narrow
        )
    )


def _widen_type(narrow: DataType, wide: DataType) -> DataType:
    match narrow, wide:
        case StructType(), StructType():
            return _widen(narrow, wide)
        case ArrayType(), ArrayType():
            element = _widen_type(narrow.element_type, wide.element_type)
            return replace(narrow, element_type=element)
        case MapType(), MapType():
            return replace(
                narrow,
                key_type=_widen_type(narrow.key_type, wide.key_type),
                value_type=_widen_type(narrow.value_type, wide.value_type),
            )
        case _:
            return wide if is_readable_change(narrow, wide) else narrow
