"""The scanner of a `DeltaDataset`, which returns rows that the kernel reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import pyarrow as pa
import pyarrow.dataset as pads

from bayou.api.rows.read import BatchTransform
from bayou.errors import UnsupportedFeatureError

Columns: TypeAlias = Sequence[str] | Mapping[str, Any] | None
"""Columns of a scanner: names, or `pyarrow.compute.Expression`s by result name; None for all."""


class DeltaScanner(pads.Scanner):
    """A `pyarrow.dataset.Scanner` over rows that the kernel reads. It can be read several times.

    The class doesn't use pyarrow's C++ scanner. Threads of the C++ scanner crash the process if
    they call Python while the interpreter exits. C++ code can read a `DeltaScanner` as an Arrow
    stream.
    """

    def __init__(
        self,
        read: Callable[[int | None], pa.RecordBatchReader],
        projected_schema: pa.Schema,
        dataset_schema: pa.Schema,
        batch_size: int | None,
    ) -> None:
        """Create a scanner.

        Args:
            read: function that starts a read; its argument is the maximum number of rows or None.
            batch_size: maximum number of rows in a batch. If None, the batches of `read` are
                returned unchanged.
        """
        self._read = read
        self._projected_schema = projected_schema
        self._dataset_schema = dataset_schema
        self._batch_size = batch_size

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._dataset_schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._projected_schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Stream the rows. To stop early, delete the reader."""
        reader = self._read(None)
        if self._batch_size is None:
            return reader
        return pa.RecordBatchReader.from_batches(reader.schema, _sliced(reader, self._batch_size))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows."""
        yield from self.to_reader()

    def to_table(self) -> pa.Table:
        """Read the rows into memory."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        return self._read(num_rows).read_all()

    def take(self, indices: Any) -> pa.Table:
        """Read all rows, and return the rows at the indices."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Read all rows, and count them."""
        return sum(batch.num_rows for batch in self.to_reader())

    def scan_batches(self) -> NoReturn:
        """Raise an error, because this method of pyarrow would return fragments of a dataset."""
        raise_unreadable("scan_batches")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream (Arrow PyCapsule interface)."""
        reader: Any = self.to_reader()
        return reader.__arrow_c_stream__(requested_schema)


def batch_transform(schema: pa.Schema, columns: Columns, expression: Any) -> BatchTransform:
    """Return a transformation of batches that filters rows and selects or computes columns.

    Args:
        schema: schema of the batches.
        columns: columns of the transformed batches; see `Columns`.
        expression: `pyarrow.compute.Expression` that selects rows; None for all rows.
    """
    if isinstance(columns, Mapping):
        return _computed(schema, columns, expression)
    names = schema.names if columns is None else list(columns)

    def select(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows: Any = batch if expression is None else cast("Any", batch).filter(expression)
        selected: pa.RecordBatch = rows if rows.schema.names == names else rows.select(names)
        return selected

    return BatchTransform(schema=select(_empty(schema)).schema, apply=select)


def _computed(schema: pa.Schema, columns: Mapping[str, Any], expression: Any) -> BatchTransform:
    memory: Any = pads.InMemoryDataset
    projection = dict(columns)
    projected = memory(_empty(schema)).scanner(columns=projection).projected_schema
    nothing = _empty(projected)

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows: Any = memory(batch).to_table(columns=projection, filter=expression)
        computed: list[pa.RecordBatch] = rows.combine_chunks().to_batches()
        return computed[0] if computed else nothing

    return BatchTransform(schema=projected, apply=compute)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _sliced(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)


def raise_unreadable(table: str) -> NoReturn:
    """Raise the error for an attempt of pyarrow's C++ code to read the table's data files."""
    raise UnsupportedFeatureError(
        f"{table}: pyarrow can't read the data files of a Delta table directly. Use "
        "scanner(), to_table() or to_batches() of the dataset.",
        table=table,
        features=["pyarrow.dataset.Fragment"],
    )
