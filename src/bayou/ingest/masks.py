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
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["masked", "unfit_mask"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array


def masked(batch: pa.RecordBatch, masks: Mapping[str, str]) -> pa.RecordBatch:
    """A batch with its fields masked.

    Args:
        masks: by the field's path, such as `place.city`; those that aren't there are passed over.
    """
    for path, mask in masks.items():
        name, *rest = path.split(".")
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column: Any = _masked(batch.column(at), rest, mask)
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch


def unfit_mask(schema: pa.Schema, path: str, mask: str) -> str | None:
    """Why a field can't be masked so; None where it can, or isn't there."""
    name, *rest = path.split(".")
    kind = schema.field(name).type if name in schema.names else None
    for part in rest:
        if kind is None or not pa.types.is_struct(kind):
            return None
        at = kind.get_field_index(part)
        kind = kind.field(at).type if at >= 0 else None
    if kind is None or mask == "drop" or pa.types.is_string(kind):
        return None
    return f"{path!r} is a {kind}, and {mask} is for texts; write drop"


def _masked(column: Any, rest: Sequence[str], mask: str) -> Any:
    if not rest:
        return _plain(column, mask)
    kind = column.type
    at = kind.get_field_index(rest[0]) if pa.types.is_struct(kind) else -1
    if at < 0:
        return column
    fields = [kind.field(i) for i in range(kind.num_fields)]
    children = [column.field(i) for i in range(kind.num_fields)]
    children[at] = _masked(children[at], rest[1:], mask)
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
