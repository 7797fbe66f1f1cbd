"""Masks fields with personal data, before rows are written.

| mask | value of the column |
|---|---|
| `hash` | SHA-256 of the string, in hex; equal strings have equal hashes |
| `drop` | null |
| `truncate:3` | the first three characters |

Dead letters contain unmasked records, so access to the dead letter table must be restricted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc


def apply_masks(batch: pa.RecordBatch, masks: Mapping[str, str]) -> pa.RecordBatch:
    """Return a batch with masked fields.

    The keys of `masks` are paths of fields, such as `place.city`. Paths are case-insensitive, and
    can also lead to fields inside arrays. A path that matches no field is skipped.
    """
    for path, mask in masks.items():
        for at, rest in _matches(batch.schema, path.split(".")):
            column: Any = _mask_column(batch.column(at), rest, mask)
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch


def mask_problem(schema: pa.Schema, path: str, mask: str) -> str | None:
    """Return why a mask can't be applied to the fields at `path`.

    Returns None if the mask can be applied, or if there is no field at `path`.
    """
    types = list(_field_types(schema, path.split(".")))
    exists = any(not inside for _, inside in types)
    for kind, inside in types:
        if inside and not (exists and _is_scalar(_element_type(kind))):
            return f"{path!r} is inside a {kind}, which can only be masked as a whole"
        if not (inside or mask == "drop" or pa.types.is_string(_element_type(kind))):
            return f"{path!r} is a {kind}, but {mask} needs a string; use the mask drop"
    return None


def has_field(schema: pa.Schema, path: str) -> bool:
    """Whether the schema has a field with this path; paths are case-insensitive."""
    return any(True for _ in _field_types(schema, path.split(".")))


def _field_types(
    fields: Iterable[pa.Field[Any]], parts: Sequence[str]
) -> Iterator[tuple[pa.DataType, bool]]:
    """Yield the type of each field that a path leads to, and whether the path continues below it.

    A path can continue below a field that isn't a struct, such as a string that contains JSON.

    Args:
        fields: the fields of a schema or struct.
        parts: the path, split at its dots.
    """
    known = list(fields)
    for at, rest in _matches(known, parts):
        kind = known[at].type
        inner: Any = _element_type(kind)
        if rest and pa.types.is_struct(inner):
            yield from _field_types(inner, rest)
        else:
            yield kind, bool(rest)


def _matches(
    fields: Iterable[pa.Field[Any]], parts: Sequence[str]
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the index of each field that the path may begin with, and the rest of the path.

    A name may contain dots, so `a.b` matches both a field named `a.b` and the field `b` of `a`. The
    suffix `[]` of an array is optional.
    """
    known = list(fields)
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        for candidate in dict.fromkeys((name, name.removesuffix("[]"))):
            at = _index(known, candidate)
            if at >= 0:
                yield at, parts[end:]


def _is_scalar(kind: pa.DataType) -> bool:
    """Whether values of a type are scalars, without nested fields.

    Strings and binary values aren't regarded as scalars, because they may contain JSON objects.
    """
    return not (pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _index(fields: Iterable[pa.Field[Any]], name: str) -> int:
    lowercase = name.lower()
    return next((at for at, field in enumerate(fields) if field.name.lower() == lowercase), -1)


def _element_type(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def _mask_column(column: Any, rest: Sequence[str], mask: str) -> Any:
    kind = column.type
    if pa.types.is_list(kind) and (rest or mask != "drop"):
        offsets = pc.add(column.offsets, 0)  # a copy, because a null mask requires offset 0
        nulls = column.is_null() if column.null_count else None
        inner = _mask_column(column.values, rest, mask)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=nulls)
    if not rest:
        return _mask_values(column, mask)
    if not pa.types.is_struct(kind):
        return column
    fields = [kind.field(i) for i in range(kind.num_fields)]
    children = [column.field(i) for i in range(kind.num_fields)]
    for at, inside in _matches(fields, rest):
        children[at] = _mask_column(children[at], inside, mask)
    nulls = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)


def _mask_values(column: Any, mask: str) -> Any:
    if mask == "drop":
        return pa.nulls(len(column), column.type)
    if mask == "hash":
        encoded = column.dictionary_encode()
        hashes = [
            None if s is None else hashlib.sha256(s.encode()).hexdigest()
            for s in encoded.dictionary.to_pylist()
        ]
        return pa.array(hashes, column.type).take(encoded.indices)
    return pc.utf8_slice_codeunits(column, 0, int(mask.partition(":")[2]))
