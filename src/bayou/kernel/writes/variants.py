"""Variants on their way into a table (PROTOCOL.md, Variant Data Type)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import SchemaError
from bayou.kernel.arrow_types import to_arrow_type
from bayou.protocol.schema import VARIANT

__all__ = ["conform_variants"]

pc: Any = pyarrow.compute

_NAMES = ("metadata", "value")


def conform_variants(table: str, array: Any, path: str) -> pa.StructArray:
    """Variants as the kernel has them, of any struct of two byte strings by these names.

    What is null is null as a whole, with empty bytes inside: neither field of the Parquet struct is
    optional.

    Raises:
        SchemaError: not such a struct, or one with bytes that aren't a variant's.
    """
    kind: Any = to_arrow_type(VARIANT)
    if {f.name for f in array.type} != set(_NAMES):
        raise _wrong(table, path, f"has {array.type}")
    valid = pc.is_valid(array)
    fields = []
    for name in _NAMES:
        try:
            found = array.field(name).cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _wrong(table, path, f"has {array.type}") from error
        if found.null_count:
            if pc.and_(pc.is_null(found), valid).true_count:
                raise _wrong(table, path, f"has a row whose {name} alone is null")
            found = pc.fill_null(found, b"")
        fields.append(found)
    _check_bytes(table, path, fields[0].filter(valid), fields[1].filter(valid))
    mask = pc.invert(valid) if array.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)


def _check_bytes(table: str, path: str, metadata: Any, values: Any) -> None:
    """Look at the two headers: that is what tells bytes of another kind apart."""
    headers = pc.unique(pc.binary_slice(metadata, 0, 1)).to_pylist()
    other = [header for header in headers if not header or header[0] & 0x0F != 1]
    if other:
        raise _wrong(table, path, f"has metadata that begins with {other[0]!r}, not of version 1")
    if len(values) and not pc.min(pc.binary_length(values)).as_py():
        raise _wrong(table, path, "has a row with no bytes for its value")


def _wrong(table: str, path: str, what: str) -> SchemaError:
    return SchemaError(
        f"Column {path!r} of {table} has type variant, a struct of the byte strings `metadata` and "
        f"`value` in Parquet's encoding; the data {what}. Make variants of JSON texts by "
        "bayou.variants_from_json.",
        table=table,
        column=path,
    )
