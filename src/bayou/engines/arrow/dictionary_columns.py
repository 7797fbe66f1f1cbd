"""Which columns of a Parquet file are worth a dictionary.

A dictionary of values that hardly repeat costs a third of the time of writing, and bytes: the
writer gives it up when it is full, after it has hashed every value until there.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

__all__ = ["dictionary_columns"]

pc: Any = pyarrow.compute

_SAMPLE_ROWS = 8192
_HARDLY_REPEATING = 0.9
"""Share of a sample's values that are distinct, from which a dictionary isn't worth it."""


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """Paths of the leaf columns that get a dictionary; True for all.

    Told by the rows that a file begins with. Nested columns get one, and short files for all.
    """
    if rows.num_rows < _SAMPLE_ROWS:
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    plain = {name for name in rows.schema.names if _hardly_repeats(sample.column(name))}
    if not plain:
        return True
    return [path for path in _leaf_paths(rows.schema) if path not in plain]


def _hardly_repeats(column: pa.ChunkedArray[Any]) -> bool:
    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    values = len(column) - column.null_count
    distinct = pc.count_distinct(column).as_py()
    return bool(distinct > _HARDLY_REPEATING * values > 0.5 * _HARDLY_REPEATING * len(column))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """As Parquet spells them."""
    footers: list[pq.FileMetaData] = []
    with pq.ParquetWriter(io.BytesIO(), schema, metadata_collector=footers):
        pass
    found = footers[0].schema
    return [found.column(i).path for i in range(len(found))]
