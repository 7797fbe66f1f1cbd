"""Output of rows as data for programs. Stdout, or the file in `--output`, contains only rows."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import typer

from bayou.cli.output.interface import ReaderClosedError, Row
from bayou.cli.output.row_formats import Destination, RowFormat, row_writer
from bayou.errors import ArgumentError, BayouError
from bayou.redaction import without_secrets

if TYPE_CHECKING:
    import pyarrow as pa

    from bayou.cli.output.console import ConsoleOutput


class DataOutput:
    """Prints rows in a format for programs; implements `RowsOutput`.

    Notices and errors go to stderr: as JSON objects if the format is JSON, otherwise as text.
    """

    is_table = False

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def notice(self, text: str) -> None:
        if self._is_json:
            _message({"event": "notice", "text": without_secrets(text)})
        else:
            _console().notice(text)

    def error(self, message: str, *, kind: str) -> None:
        if self._is_json:
            _message({"event": "error", "type": kind, "message": without_secrets(message)})
        else:
            _console().error(message, kind=kind)

    def rows(self, title: str, rows: Sequence[Row], *, event: str, empty: str = "") -> None:
        import pyarrow as pa

        names = list(dict.fromkeys(name for row in rows for name in row))
        arrays = [_array([row.get(name) for row in rows], as_json=self._is_json) for name in names]
        keys = [name.replace(" ", "_") for name in names]
        table = pa.Table.from_arrays(arrays, names=keys)
        if not names and self._destination.format in {RowFormat.CSV, RowFormat.TSV}:
            return  # without rows, the columns aren't known
        self.batches(table.to_reader())

    def facts(self, title: str, facts: Mapping[str, Any], *, event: str) -> None:
        self.rows(title, [facts], event=event)

    @property
    def _is_json(self) -> bool:
        return self._destination.format in {RowFormat.JSON, RowFormat.JSONL}

    def batches(
        self,
        reader: pa.RecordBatchReader,
        *,
        title: str = "",
        empty: str = "",
        max_rows: int | None = None,
    ) -> None:
        with self._stream() as stream:
            writer = row_writer(self._destination.format, stream, reader.schema)
            for batch in reader:
                writer.write(batch)
            writer.close()

    @contextlib.contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        file = self._destination.file
        if file is not None:
            with _replaced_file(file) as stream:
                yield stream
            return
        if sys.stdout is None:  # closed by the parent process
            yield io.BytesIO()
            return
        if self._destination.format is RowFormat.PARQUET and sys.stdout.isatty():
            raise ArgumentError(
                "--output: Parquet is binary, and standard output is a terminal. Redirect the "
                "output, or name a file such as --output rows.parquet.",
                argument="output",
            )
        sys.stdout.flush()
        try:
            yield sys.stdout.buffer
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderClosedError from error


@contextlib.contextmanager
def _replaced_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that becomes `file` when it is complete."""
    if not file.parent.is_dir():
        raise ArgumentError(
            f"--output: the folder {file.parent} doesn't exist. Create it, or name another folder.",
            argument="output",
        )
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _array(values: list[Any], *, as_json: bool) -> Any:
    """Convert values to an Arrow array; nested values become JSON text.

    Args:
        as_json: whether the output is JSON. If True, an array with nested values has the type
            `arrow.json`, so that the values are printed as nested JSON.
    """
    import pyarrow as pa

    encode: Callable[[Any], str] = lambda value: msgspec.json.encode(  # noqa: E731
        value, enc_hook=_encode
    ).decode()
    nested = [isinstance(value, dict | list | tuple) for value in values]
    if any(nested):
        if as_json:
            return pa.ExtensionArray.from_storage(
                pa.json_(pa.string()),
                pa.array([None if v is None else encode(v) for v in values], pa.string()),
            )
        values = [encode(v) if n else v for v, n in zip(values, nested, strict=True)]
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # values of several types
        return pa.array([None if v is None else str(v) for v in values], pa.string())


def _console() -> ConsoleOutput:
    from bayou.cli.output.console import ConsoleOutput  # imports Rich

    return ConsoleOutput()


def _message(fields: Mapping[str, str]) -> None:
    typer.echo(msgspec.json.encode(fields).decode(), err=True)


def _encode(value: object) -> Any:
    if isinstance(value, BayouError):
        return {"type": type(value).__name__, "message": value.message}
    return without_secrets(str(value))
