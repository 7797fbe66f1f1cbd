"""Texts in partition columns, as the table takes them.

Delta's log can't tell an empty text from null there. Rows of an upsert are compared with what the
table has, so that they have to be null before: `''` would never find its row again. A text that is
too long for the name of a folder makes its record a dead letter; no table takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.ingest.decode import Decoded
from bayou.protocol.file_names import LONGEST_FOLDER_NAME, partition_directory

__all__ = ["with_partition_texts"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

_LONGEST_OCTET = 3
"""Bytes of a folder's name that one of a text may take, escaped."""


def with_partition_texts(decoded: Decoded, columns: Sequence[str], *, folders: bool) -> Decoded:
    """Decoded records whose texts in partition columns are those that the table will have.

    Args:
        columns: the table's partition columns.
        folders: whether values are in the names of folders.
    """
    for name in columns:
        at = decoded.columns.schema.get_field_index(name)
        if at < 0 or not pa.types.is_string(decoded.columns.schema.field(at).type):
            continue
        if folders:
            decoded = _without_long(decoded, name)
        texts: Any = decoded.columns.column(at)
        empty = pc.equal(texts, "")
        if pc.any(empty, min_count=0).as_py():
            shown = pc.if_else(empty, pa.scalar(None, texts.type), texts)
            field = decoded.columns.schema.field(at)
            decoded = replace(decoded, columns=decoded.columns.set_column(at, field, shown))
    return decoded


def _without_long(decoded: Decoded, name: str) -> Decoded:
    texts: Any = decoded.columns.column(name)
    room = (LONGEST_FOLDER_NAME - len(_folder(name, "x")) + 1) // _LONGEST_OCTET
    suspects = texts.filter(pc.greater(pc.binary_length(texts), room)).unique()
    if not len(suspects):
        return decoded
    found = [
        text for text in suspects.to_pylist() if len(_folder(name, text)) > LONGEST_FOLDER_NAME
    ]
    bad = pc.is_in(texts, value_set=pa.array(found, texts.type))
    reason = (
        f"field {name!r} is too long for a partition column: its folder's name would have more "
        f"than {LONGEST_FOLDER_NAME} bytes"
    )
    refused = decoded.positions.filter(bad)
    kept = pc.invert(bad)
    return replace(
        decoded,
        columns=decoded.columns.filter(kept),
        positions=decoded.positions.filter(kept),
        bad_positions=pa.concat_arrays([decoded.bad_positions, refused]),
        reasons=pa.concat_arrays([decoded.reasons, pa.repeat(pa.scalar(reason), len(refused))]),
    )


def _folder(name: str, text: Any) -> bytes:
    return partition_directory([name], {name: text}).encode()
