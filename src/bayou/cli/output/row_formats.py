"""The formats of `--output`, and writers of Arrow batches in these formats."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from bayou.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa


class RowFormat(StrEnum):
    """A format of rows."""

    TABLE = "table"
    TSV = "tsv"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


_BY_ENDING = {
    ".tsv": RowFormat.TSV,
    ".csv": RowFormat.CSV,
    ".json": RowFormat.JSON,
    ".jsonl": RowFormat.JSONL,
    ".ndjson": RowFormat.JSONL,
    ".parquet": RowFormat.PARQUET,
}

_MAX_BYTES = 1 << 26
"""Maximum size in bytes of a batch that is converted to text. Larger batches are divided first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The destination and the format of rows.

    Attributes:
        format: the format of the rows.
        file: the file to write. If None, the rows are written to stdout.
    """

    format: RowFormat
    file: Path | None = None


def parse_destination(value: str) -> Destination:
    """Parse a value of `--output`: a format, or a file with the extension of a format.

    Raises:
        ArgumentError: the value is neither.
    """
    with contextlib.suppress(ValueError):
        return Destination(format=RowFormat(value.lower()))
    file = Path(value)
    by_ending = _BY_ENDING.get(file.suffix.lower())
    if by_ending is not None and file.stem:
        return Destination(format=by_ending, file=file)
    close = difflib.get_close_matches(value.lower(), list(RowFormat), n=1)
    hint = f" Did you mean {str(close[0])!r}?" if close else ""
    raise ArgumentError(
        f"--output: {value!r} is neither a format nor a file with a known extension.{hint} The "
        f"formats are {', '.join(RowFormat)}; the extensions are {', '.join(_BY_ENDING)}.",
        argument="output",
    )


class RowWriter(Protocol):
    """Writes batches of rows to a binary stream."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        ...

    def close(self) -> None:
        """Write the end of the output; the stream stays open."""
        ...


def row_writer(format: RowFormat, stream: IO[bytes], schema: pa.Schema) -> RowWriter:
    """Return a writer that writes batches with this schema to `stream` in this format."""
    if format is RowFormat.PARQUET:
        return _ParquetWriter(stream, schema)
    return _TextWriter(format, stream, schema)


class _ParquetWriter:
    def __init__(self, stream: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(stream, schema.remove_metadata(), compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.replace_schema_metadata(None))

    def close(self) -> None:
        self._writer.close()


class _TextWriter:
    """Writes one line for each row: JSON, CSV or tab-separated."""

    def __init__(self, format: RowFormat, stream: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow as pa

        from bayou.cli.output import text_columns

        self._format = format
        self._stream = stream
        self._names = schema.names
        self._rows = 0
        if format is RowFormat.JSON:
            stream.write(b"[")
        elif format in {RowFormat.CSV, RowFormat.TSV}:
            fields = text_columns.csv_fields if format is RowFormat.CSV else text_columns.tsv_fields
            names = fields(pa.array(self._names, pa.string())).to_pylist()
            stream.write((self._separator.join(map(str, names)) + "\n").encode())

    @property
    def _separator(self) -> str:
        return "," if self._format is RowFormat.CSV else "\t"

    def write(self, batch: pa.RecordBatch) -> None:
        for part in _bounded(batch):
            if self._format is RowFormat.JSON:
                self._stream.write(b"," if self._rows else b"")
                self._stream.write(b"\n")
                self._stream.write(self._lines(part, ",\n"))
            else:
                self._stream.write(self._lines(part, "\n"))
                self._stream.write(b"\n")
            self._rows += part.num_rows
        self._stream.flush()

    def _lines(self, batch: pa.RecordBatch, separator: str) -> memoryview:
        import pyarrow as pa

        from bayou.api.rows import json_text
        from bayou.cli.output import text_columns
        from bayou.kernel.arrow.compute import pc

        if not self._names:
            empty = "{}" if self._format in {RowFormat.JSON, RowFormat.JSONL} else ""
            lines: pa.Array[pa.StringScalar] = pa.repeat(pa.scalar(empty), batch.num_rows)
        elif self._format in {RowFormat.JSON, RowFormat.JSONL}:
            lines = json_text.json_members(self._names, batch.columns)
        else:
            csv = self._format is RowFormat.CSV
            fields = text_columns.csv_fields if csv else text_columns.tsv_fields
            lines = json_text.joined([fields(c) for c in batch.columns], self._separator)
        block = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), separator)
        return memoryview(block[0].as_buffer())

    def close(self) -> None:
        if self._format is RowFormat.JSON:
            self._stream.write(b"\n]\n" if self._rows else b"]\n")
        self._stream.flush()


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Divide a batch into batches of at most `_MAX_BYTES` bytes; a single row may be larger."""
    if batch.num_rows == 0:
        return
    if batch.nbytes <= _MAX_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _bounded(batch.slice(0, half))
    yield from _bounded(batch.slice(half))
