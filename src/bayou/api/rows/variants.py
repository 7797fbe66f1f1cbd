"""Conversions between JSON text and Arrow arrays of variants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.arrow.types import VARIANT_EXTENSION, to_arrow_type
from bayou.protocol import variant
from bayou.protocol.schema import VARIANT
from bayou.protocol.variant import VariantError

_STORAGE: Any = to_arrow_type(VARIANT)


class VariantType(pa.ExtensionType):
    """Arrow extension type of variants (`arrow.parquet.variant`).

    Columns of this type become variant columns of new tables. The storage type is
    `struct<metadata: binary, value: binary>`, in Parquet's binary encoding.
    """

    def __init__(self) -> None:
        super().__init__(_STORAGE, VARIANT_EXTENSION)

    def __arrow_ext_serialize__(self) -> bytes:
        """Return empty bytes, because the type has no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> VariantType:
        return cls()


def variants_from_json(json_strings: Any) -> Any:
    """Convert JSON text to variants, to be written to a column of type variant.

    A number with an exponent becomes a double. A number without a decimal point becomes an integer
    if it fits in 64 bits. Other numbers become decimals if they have at most 38 digits, otherwise
    doubles. Objects and arrays may be nested, and rows may have different structures.

    Args:
        json_strings: an Arrow array or any iterable of strings, each with one JSON value. None
            becomes null; the string `"null"` becomes a variant null.

    Returns:
        A `pyarrow.ExtensionArray` of `VariantType`.

    Raises:
        ArgumentError: a string isn't JSON, or an object has a duplicate key.

    Examples:
        >>> rows = pa.table({"v": bayou.variants_from_json(['{"n": 1}'])})
        >>> bayou.write("lake/payloads", rows)
    """
    rows: list[dict[str, bytes] | None] = []
    for number, json in enumerate(_values(json_strings)):
        if json is None:
            rows.append(None)
            continue
        try:
            metadata, value = variant.from_json(json)
        except (VariantError, TypeError) as error:
            raise ArgumentError(
                f"json_strings: string {number} can't be converted to a variant: {error}. Correct "
                "the JSON string.",
                argument="json_strings",
            ) from error
        rows.append({"metadata": metadata, "value": value})
    extension_array: Any = pa.ExtensionArray
    return extension_array.from_storage(VariantType(), pa.array(rows, _STORAGE))


def variants_to_json(variants: Any) -> Any:
    """Convert variants to JSON text.

    In JSON, dates, timestamps, bytes and other values without a JSON type become strings.

    Args:
        variants: a column of type variant, or the result of `variants_from_json`: an Arrow array or
            chunked array of structs of `metadata` and `value`.

    Returns:
        A `pyarrow.StringArray`; null where `variants` is null.

    Raises:
        ArgumentError: a value isn't a variant.

    Examples:
        >>> variants = bayou.variants_from_json(['{"n": 1}'])
        >>> bayou.variants_to_json(variants)
    """
    strings: list[str | None] = []
    for number, row in enumerate(_values(variants)):
        if row is None:
            strings.append(None)
            continue
        try:
            strings.append(variant.to_json(row["metadata"], row["value"]))
        except (VariantError, TypeError, KeyError) as error:
            raise ArgumentError(
                f"variants: row {number} isn't a variant: {error}. Give structs of metadata and "
                "value.",
                argument="variants",
            ) from error
    return pa.array(strings, pa.string())


def _values(values: Iterable[Any]) -> Iterable[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        python_values: Iterable[Any] = values.to_pylist()
        return python_values
    return values
