"""Variants in Arrow, out of JSON texts and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.arrow.types import VARIANT_EXTENSION, to_arrow_type
from bayou.protocol import variant_json
from bayou.protocol.schema import VARIANT
from bayou.protocol.variant import VariantError

__all__ = ["VariantType", "variants_from_json", "variants_to_json"]

_STORAGE: Any = to_arrow_type(VARIANT)


class VariantType(pa.ExtensionType):
    """Arrow's type of variants (`arrow.parquet.variant`): by it a new table's column is a variant.

    Values are `struct<metadata: binary, value: binary>`, in Parquet's binary encoding.
    """

    def __init__(self) -> None:
        super().__init__(_STORAGE, VARIANT_EXTENSION)

    def __arrow_ext_serialize__(self) -> bytes:
        """Nothing: the type has no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> VariantType:
        """The inverse."""
        return cls()


def variants_from_json(texts: Any) -> Any:
    """Variants out of JSON texts, to be written as a column of type variant.

    A number becomes a whole number or a decimal where it is one, else a double. Objects and arrays
    may be nested, and be different in every row.

    Args:
        texts: an Arrow array of strings, or any iterable of them; None stays null, which `"null"`
            isn't.

    Returns:
        A `pyarrow.ExtensionArray` of `VariantType`.

    Raises:
        ArgumentError: a text isn't JSON, or has an object with a key twice.
    """
    rows: list[dict[str, bytes] | None] = []
    for number, text in enumerate(_values(texts)):
        if text is None:
            rows.append(None)
            continue
        try:
            metadata, value = variant_json.from_json(text)
        except (VariantError, TypeError) as error:
            raise ArgumentError(
                f"No variant can be made of text {number}: {error}.", argument="texts"
            ) from error
        rows.append({"metadata": metadata, "value": value})
    extension_array: Any = pa.ExtensionArray
    return extension_array.from_storage(VariantType(), pa.array(rows, _STORAGE))


def variants_to_json(variants: Any) -> Any:
    """JSON texts of variants, as a column of type variant is read or `variants_from_json` gives.

    Dates, timestamps, bytes and what else JSON has no type for are strings.

    Args:
        variants: an Arrow array, or chunked array, of structs of `metadata` and `value`.

    Returns:
        A `pyarrow.StringArray`; null for null.

    Raises:
        ArgumentError: a value that isn't a variant.
    """
    texts: list[str | None] = []
    for number, row in enumerate(_values(variants)):
        if row is None:
            texts.append(None)
            continue
        try:
            texts.append(variant_json.to_json(row["metadata"], row["value"]))
        except (VariantError, TypeError, KeyError) as error:
            raise ArgumentError(
                f"Row {number} isn't a variant: {error}.", argument="variants"
            ) from error
    return pa.array(texts, pa.string())


def _values(given: Iterable[Any]) -> Iterable[Any]:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        values: Iterable[Any] = given.to_pylist()
        return values
    return given
