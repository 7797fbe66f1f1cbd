"""Fields with personal data, made unreadable before anything is written.

| mask | the column has |
|---|---|
| `hash` | SHA-256 of the text, in hex; equal texts stay equal |
| `drop` | null |
| `truncate:3` | the first three characters |

Dead letters keep records whole: who may read them is a question of who may read their table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["has_field", "masked", "unfit_mask"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array


def masked(batch: pa.RecordBatch, masks: Mapping[str, str]) -> pa.RecordBatch:
    """A batch with its fields masked.

    Args:
        masks: by the field's path, such as `place.city`, through arrays too; those that aren't
            there are passed over. As columns, fields don't differ by case alone.
    """
    for path, mask in masks.items():
        for at, rest in _ways(batch.schema, path.split(".")):
            column: Any = _masked(batch.column(at), rest, mask)
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch


def unfit_mask(schema: pa.Schema, path: str, mask: str) -> str | None:
    """Why a field can't be masked so; None where it can, or isn't there."""
    reached = list(_reached(schema, path.split(".")))
    found = any(not inside for _, inside in reached)
    for kind, inside in reached:
        if inside and not (found and _holds_no_fields(_of_elements(kind))):
            return f"{path!r} lies in a {kind}, which is masked as a whole or not at all"
        if not (inside or mask == "drop" or pa.types.is_string(_of_elements(kind))):
            return f"{path!r} is a {kind}, and {mask} is for texts; write drop"
    return None


def has_field(schema: pa.Schema, path: str) -> bool:
    """Whether there is a field to be masked."""
    return any(True for _ in _reached(schema, path.split(".")))


def _reached(
    fields: Iterable[pa.Field[Any]], parts: Sequence[str]
) -> Iterator[tuple[pa.DataType, bool]]:
    """The types that a path leads to, and whether it wants to go on inside."""
    known = list(fields)
    for at, rest in _ways(known, parts):
        kind = known[at].type
        inner: Any = _of_elements(kind)
        if rest and pa.types.is_struct(inner):
            yield from _reached(inner, rest)
        else:
            yield kind, bool(rest)


def _ways(
    fields: Iterable[pa.Field[Any]], parts: Sequence[str]
) -> Iterator[tuple[int, Sequence[str]]]:
    """Each field that a path may begin with, and the way inside.

    A name may hold dots, so that `a.b` is a column of that name as well as a field of `a`: where
    there are both, both are meant. `[]` says that a field is an array.
    """
    known = list(fields)
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        for found in dict.fromkeys((name, name.removesuffix("[]"))):
            at = _place(known, found)
            if at >= 0:
                yield at, parts[end:]


def _holds_no_fields(kind: pa.DataType) -> bool:
    """Numbers and the like; a text may be the JSON of an object."""
    return not (pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _place(fields: Iterable[pa.Field[Any]], name: str) -> int:
    """Which field has a name, in whatever case; -1 for none."""
    wanted = name.lower()
    return next((at for at, field in enumerate(fields) if field.name.lower() == wanted), -1)


def _of_elements(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def _masked(column: Any, rest: Sequence[str], mask: str) -> Any:
    kind = column.type
    if pa.types.is_list(kind) and (rest or mask != "drop"):
        offsets = pc.add(column.offsets, 0)  # of its own, which a mask of nulls asks for
        nulls = column.is_null() if column.null_count else None
        inner = _masked(column.values, rest, mask)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=nulls)
    if not rest:
        return _plain(column, mask)
    if not pa.types.is_struct(kind):
        return column
    fields = [kind.field(i) for i in range(kind.num_fields)]
    children = [column.field(i) for i in range(kind.num_fields)]
    for at, inside in _ways(fields, rest):
        children[at] = _masked(children[at], inside, mask)
    mask_of_nulls = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask_of_nulls)


def _plain(column: Any, mask: str) -> Any:
    if mask == "drop":
        return pa.nulls(len(column), column.type)
    if mask == "hash":
        encoded = column.dictionary_encode()
        texts = [
            None if t is None else hashlib.sha256(t.encode()).hexdigest()
            for t in encoded.dictionary.to_pylist()
        ]
        return pa.array(texts, column.type).take(encoded.indices)
    return pc.utf8_slice_codeunits(column, 0, int(mask.partition(":")[2]))
