"""Helper functions that write Parquet files with pyarrow and read them with the tested engine."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.kernel.engine import FIELD_ID_KEY, Engine, FileSplit


def field_with_id(name: str, data_type: pa.DataType, field_id: int) -> pa.Field[Any]:
    """Create a field with a Parquet field id. Readers can match columns by this id."""
    return pa.field(name, data_type, metadata={FIELD_ID_KEY: str(field_id).encode()})


def write(
    engine: Engine, root: str, table: pa.Table, name: str = "file", **options: Any
) -> FileSplit:
    """Write a table to the Parquet file `<root>/<name>.parquet`.

    Args:
        options: arguments of `pq.write_table`.
    """
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"store_schema": False, **options})
    return put(engine, root, sink.getvalue(), name)


def put(engine: Engine, root: str, data: bytes, name: str = "file") -> FileSplit:
    """Write the bytes of a Parquet file to `<root>/<name>.parquet`."""
    engine.files.mkdirs(root)
    path = f"{root}/{name}.parquet"
    engine.files.put(path, data)
    return FileSplit(path=path, size=len(data))


def read(
    engine: Engine, files: Iterable[FileSplit], schema: pa.Schema, **options: Any
) -> list[dict[str, Any]]:
    """Read the rows of files, and check that all batches have exactly `schema`."""
    rows: list[dict[str, Any]] = []
    for batch in engine.parquet.read_parquet_files(files, schema, **options):
        assert batch.schema.equals(schema, check_metadata=True)
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows
