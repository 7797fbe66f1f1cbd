"""Projection of a Parquet file's columns to the requested schema.

A `Projection` selects the leaf columns to decode, and converts decoded batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from bayou.engines.arrow.conversion import (
    Conversion,
    FieldFinder,
    children,
    converter,
    count_leaves,
    is_list,
    is_variant,
    without_columns,
)
from bayou.engines.field_ids import check_field_ids
from bayou.engines.shredded_variants import is_shredded
from bayou.errors import SchemaError, StorageError
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import METADATA_COLUMN_KEY, ROW_INDEX
from bayou.protocol.variant import VariantError


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a requested column.

    `index` is the index of a column in the decoded batch. If it is None, no column is decoded: the
    requested column contains row indexes (`row_index` is true) or nulls (`row_index` is false).
    """

    name: str
    index: int | None
    convert: Conversion | None
    row_index: bool = False


class Projection:
    """Projection from a file schema to the requested schema, for all files with equal schemas.

    Attributes:
        leaves: indexes of the leaf columns to decode, in ascending order.
        converts: whether at least one column is converted to a type other than a dictionary.
        encodes: whether at least one column is converted to a dictionary array.
    """

    def __init__(self, file_schema: pa.Schema, requested: pa.Schema, path: str) -> None:
        self._requested = requested
        self._fields = list(requested)
        check_field_ids(file_schema, requested, path)
        leaves: list[int] = []
        sources: list[_Source] = []
        first_leaves = list(accumulate((count_leaves(f.type) for f in file_schema), initial=0))
        finder = FieldFinder(list(file_schema))
        positions: list[int] = []  # indexes in `file_schema` of the columns to decode
        for field in requested:
            kind = (field.metadata or {}).get(METADATA_COLUMN_KEY)
            if kind is not None:
                if kind != ROW_INDEX:
                    raise SchemaError(
                        f"{path}: column {field.name!r} requests the unknown metadata column "
                        f"{kind.decode(errors='replace')!r}. The engine supports 'row_index'.",
                        table=path,
                        column=field.name,
                    )
                sources.append(_Source(field.name, None, None, row_index=True))
                continue
            position = finder.position(field)
            if position is None:
                _check_nullable(field, field.name, path)
                sources.append(_Source(field.name, None, None))
                continue
            start = first_leaves[position]
            selected, decoded = _pick(file_schema.field(position), field, start, field.name, path)
            leaves.extend(selected)
            positions.append(position)
            sources.append(
                _Source(field.name, position, converter(decoded, field, field.name, path))
            )
        order = {position: i for i, position in enumerate(sorted(set(positions)))}
        self._sources = [
            s if s.index is None else _Source(s.name, order[s.index], s.convert) for s in sources
        ]
        converted = [
            pa.types.is_dictionary(field.type)
            for source, field in zip(self._sources, self._fields, strict=True)
            if source.convert is not None
        ]
        self.converts = not all(converted)
        self.encodes = any(converted)
        same_order = [s.index for s in self._sources] == list(range(len(order)))
        self._same = same_order and not converted
        self.leaves = sorted(set(leaves))

    def apply(
        self, batch: pa.RecordBatch | None, num_rows: int, first_row: int, path: str
    ) -> pa.RecordBatch:
        """Convert a decoded batch to the requested columns.

        Args:
            batch: decoded columns; None if no column needs to be decoded.
            num_rows: number of rows of the result, also if `batch` is None.
            first_row: position of the batch's first row in the file, counted from 0.
        """
        requested = self._requested
        if batch is not None and self._same and batch.schema.equals(requested, check_metadata=True):
            return batch
        arrays: list[pa.Array[Any]] = []
        for source, field in zip(self._sources, self._fields, strict=True):
            if source.index is None or batch is None:
                arrays.append(
                    _row_indices(first_row, num_rows)
                    if source.row_index
                    else pa.nulls(num_rows, field.type)
                )
                continue
            array = batch.column(source.index)
            if source.convert is not None:
                try:
                    array = source.convert(array)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise SchemaError(
                        f"{path}: column {field.name!r} has type {array.type}, and its values "
                        f"can't be read as {field.type}: {error}",
                        table=path,
                        column=field.name,
                    ) from error
                except VariantError as error:
                    raise StorageError(
                        f"{path}: can't be read as Parquet: {error}", path=path
                    ) from error
            arrays.append(array)
        if not arrays:
            return without_columns(self._requested, num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._requested)


def _row_indices(first: int, count: int) -> pa.Array[Any]:
    ones = pa.repeat(to_scalar(1, pa.int64()), count)
    indices: pa.Array[Any] = pc.cumulative_sum(ones, start=to_scalar(first - 1, pa.int64()))
    return indices


def _pick(
    file_field: pa.Field[Any], requested: pa.Field[Any], first_leaf: int, name: str, path: str
) -> tuple[list[int], pa.Field[Any]]:
    """Select the leaf columns to decode for a field of the file.

    Returns:
        The indexes of these leaf columns, and the field without the other leaf columns.
    """
    source, target = file_field.type, requested.type
    whole = is_variant(requested) and is_shredded(source)
    if not whole and pa.types.is_struct(source) and pa.types.is_struct(target):
        leaves: list[int] = []
        decoded: list[tuple[int, pa.Field[Any]]] = []
        fields = children(source)
        starts = list(accumulate((count_leaves(f.type) for f in fields), initial=first_leaf))
        finder = FieldFinder(fields)
        for child in children(target):
            position = finder.position(child)
            if position is None:
                _check_nullable(child, f"{name}.{child.name}", path)
                continue
            selected, narrowed = _pick(
                fields[position], child, starts[position], f"{name}.{child.name}", path
            )
            leaves.extend(selected)
            decoded.append((position, narrowed))
        if not decoded and fields:  # a decoded leaf shows which structs are null
            cheapest = min(range(len(fields)), key=lambda i: _cost(fields[i].type))
            selected, narrowed = _first_leaf(fields[cheapest], starts[cheapest])
            leaves.extend(selected)
            decoded.append((cheapest, narrowed))
        decoded.sort(key=lambda pair: pair[0])
        narrowed_fields = list(dict(decoded).values())
        return leaves, file_field.with_type(pa.struct(narrowed_fields))
    if is_list(source) and is_list(target):
        leaves, element = _pick(
            source.value_field, target.value_field, first_leaf, f"{name}.element", path
        )
        as_list = pa.large_list if pa.types.is_large_list(source) else pa.list_
        return leaves, file_field.with_type(as_list(element))
    if pa.types.is_map(source) and pa.types.is_map(target):
        keys, key = _pick(source.key_field, target.key_field, first_leaf, f"{name}.key", path)
        after = first_leaf + count_leaves(source.key_type)
        values, item = _pick(source.item_field, target.item_field, after, f"{name}.value", path)
        return keys + values, file_field.with_type(pa.map_(key, item))
    return list(range(first_leaf, first_leaf + count_leaves(source))), file_field


def _first_leaf(field: pa.Field[Any], start: int) -> tuple[list[int], pa.Field[Any]]:
    if pa.types.is_struct(field.type):
        child = children(field.type)[0]
        leaves, narrowed = _first_leaf(child, start)
        return leaves, field.with_type(pa.struct([narrowed]))
    return list(range(start, start + count_leaves(field.type))), field


def _cost(data_type: pa.DataType) -> int:
    """Return the approximate cost of decoding a field of this type, for comparisons.

    If a file has none of the requested fields of a struct, the cheapest field of the struct is
    decoded. Without a decoded field, null structs can't be distinguished from other structs.
    """
    if pa.types.is_primitive(data_type):
        return data_type.bit_width
    return 10_000 if pa.types.is_nested(data_type) else 1_000


def _check_nullable(field: pa.Field[Any], name: str, path: str) -> None:
    if not field.nullable:
        raise SchemaError(
            f"{path}: the file lacks column {name!r}, which isn't nullable in the table's "
            "schema. Restore the file, or make the column nullable.",
            table=path,
            column=name,
        )
