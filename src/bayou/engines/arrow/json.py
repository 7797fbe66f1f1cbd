"""The JSON handler of `ArrowEngine`, and a reader of JSON lines files.

`pyarrow.json` parses a whole batch of strings, and raises an error if a value doesn't have the type
in the schema. In this case, the batch is split into pieces that are parsed separately. If
`pyarrow.json` rejects a piece, `json_values` decodes the strings of this piece one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.json as pa_json

from bayou.engines.arrow.conversion import converter
from bayou.engines.arrow.json_values import parse_strings
from bayou.errors import SerializationError
from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import ByteRange, FileStatus, FileSystemClient
from bayou.kernel.engine.file_system import check_length
from bayou.kernel.expressions.model import Predicate

_LINES_BLOCK = 8 << 20
_NO_COLUMNS = pa.schema([])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A batch of non-blank lines of one file, with the line numbers, counted from 1."""

    path: str
    strings: pa.Array[Any]
    numbers: list[int]

    def raise_for_invalid_lines(self) -> None:
        """Check that each line is a JSON object.

        Raises:
            SerializationError: a line isn't a JSON object; the message names the file and line.
        """
        for i, number in enumerate(self.numbers):
            try:
                parse_strings(self.strings.slice(i, 1), _NO_COLUMNS)
            except SerializationError as error:
                raise SerializationError(f"{self.path}, line {number}: {error}") from error


@closeable
def read_lines(
    files: FileSystemClient, statuses: Iterable[FileStatus], batch_size: int
) -> Iterator[Lines]:
    """Yield the lines of files in order, in batches of at most `batch_size` lines of one file.

    Raises:
        SerializationError: a line isn't UTF-8; the message names the file and line.
        StorageError: the store returned only the beginning of a file.
    """
    # The file of each block that `read_files` has requested but not yet yielded. It may request
    # several blocks before it yields the first one.
    blocks: deque[tuple[FileStatus, bool]] = deque()

    def ranges() -> Iterator[ByteRange]:
        for status in statuses:
            # The last block extends to the end of the file, even if the file has grown.
            starts = range(0, max(status.size - _LINES_BLOCK, 1), _LINES_BLOCK)
            for start in starts:
                is_last = start == starts[-1]
                blocks.append((status, is_last))
                length = None if is_last else _LINES_BLOCK
                yield ByteRange(path=status.path, offset=start, length=length)

    rest, number, length = b"", 0, 0
    with files.read_files(ranges()) as contents:
        for data in contents:
            status, is_last = blocks.popleft()
            length += len(data)
            if is_last:
                check_length(status, length)
            *lines, rest = (rest + bytes(data)).split(b"\n")
            if is_last:
                lines.append(rest)
            yield from _numbered(status.path, lines, number + 1, batch_size)
            number += len(lines)
            if is_last:
                rest, number, length = b"", 0, 0


def _numbered(path: str, lines: list[bytes], first: int, batch_size: int) -> Iterator[Lines]:
    non_blank = [(number, line) for number, line in enumerate(lines, first) if line.strip()]
    for start in range(0, len(non_blank), batch_size):
        numbers, values = zip(*non_blank[start : start + batch_size], strict=True)
        try:
            column = to_array(values, pa.string())
        except pa.ArrowInvalid as error:
            raise SerializationError(
                f"{path}, line {_invalid_line(non_blank)}: the line isn't UTF-8"
            ) from error
        yield Lines(path=path, strings=column, numbers=list(numbers))


def _invalid_line(lines: list[tuple[int, bytes]]) -> int:
    for number, line in lines:
        try:
            line.decode()
        except UnicodeDecodeError:
            return number
    return lines[0][0]


_AnyType: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_struct`."""

_PIECE = 1024
"""Number of strings in a piece; see the module's docstring."""

_NON_FINITE = r':"(NaN|-?Infinity)"'
"""Regular expression that matches the strings `NaN`, `Infinity` and `-Infinity` as values in a JSON
object. `pyarrow.json` doesn't parse these strings as floats."""

_BLOCK = 512 << 10
"""Number of bytes that a thread of `pyarrow.json` parses at a time. The statistics of a batch of
files have a few megabytes, so several threads parse them."""


class ArrowJsonHandler:
    """Parses with `pyarrow.json`, and reads and writes through the file system client."""

    def __init__(self, files: FileSystemClient) -> None:
        self._files = files

    def parse_json(
        self,
        texts: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        if selection is not None:
            texts = pc.call_function("if_else", [selection, texts, to_scalar(None, texts.type)])
        if not _is_plain(output_schema):
            return parse_strings(texts, output_schema)
        batch = _parse_fast(texts, output_schema)
        if batch is not None:
            return batch
        return _parse_mixed(texts, output_schema)

    @closeable
    def read_json_files(
        self,
        files: Iterable[FileStatus],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        with read_lines(self._files, files, batch_size) as batches:
            for lines in batches:
                try:
                    yield self.parse_json(lines.strings, physical_schema)
                except SerializationError:
                    lines.raise_for_invalid_lines()
                    raise

    def write_json_file_atomically(
        self, path: str, lines: Iterable[bytes], *, overwrite: bool = False
    ) -> bool:
        data = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
        if overwrite:
            self._files.put(path, data)
            return True
        return self._files.put_if_absent(path, data)


def _parse_mixed(strings: pa.Array[Any], schema: pa.Schema) -> pa.RecordBatch:
    if len(strings) <= _PIECE:
        return parse_strings(strings, schema)
    matches: Any = pc.match_substring_regex(strings, _NON_FINITE)
    non_finite: pa.BooleanArray = pc.fill_null(matches, False)
    if 0 < (count := non_finite.true_count) < len(strings):
        order = pc.array_sort_indices(non_finite)  # stable sort, non-finite floats last
        sorted_strings = strings.take(order)
        split = len(strings) - count
        fast = _parse_fast(sorted_strings.slice(0, split), schema)
        if fast is not None:
            slow = parse_strings(sorted_strings.slice(split), schema)
            return _one_batch([fast, slow], schema).take(pc.array_sort_indices(order))
    pieces: list[pa.RecordBatch] = []
    for first in range(0, len(strings), _PIECE):
        piece = strings.slice(first, _PIECE)
        fast = _parse_fast(piece, schema)
        pieces.append(parse_strings(piece, schema) if fast is None else fast)
    return _one_batch(pieces, schema)


def _one_batch(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.Table.from_batches(batches, schema).combine_chunks().to_batches()[0]


def _is_plain(schema: pa.Schema) -> bool:
    """Whether a schema isn't empty and has only types that `pyarrow.json` parses exactly."""
    return bool(schema) and all(_is_plain_type(field.type) for field in schema)


def _is_plain_type(kind: _AnyType) -> bool:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return bool(fields) and all(_is_plain_type(f.type) for f in fields)
    if pa.types.is_list(kind):
        return _is_plain_type(kind.value_type)
    return (
        pa.types.is_signed_integer(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_decimal128(kind)
    )


def _parse_fast(strings: pa.Array[Any], schema: pa.Schema) -> pa.RecordBatch | None:
    lines = _joined(strings.cast(pa.string()))
    if lines is None:
        return None
    explicit = pa.schema([(field.name, _read_as(field.type)) for field in schema])
    try:
        table = pa_json.read_json(
            cast("IO[bytes]", pa.BufferReader(lines)),
            pa_json.ReadOptions(block_size=_BLOCK),
            pa_json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(strings):
            return None
        columns = []
        for field, parsed in zip(schema, explicit, strict=True):
            column = table.column(field.name).combine_chunks()
            convert = converter(parsed, field, field.name, "JSON strings")
            columns.append(column if convert is None else convert(column))
    except pa.ArrowInvalid:
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_as(kind: _AnyType) -> pa.DataType:
    """Return the type to request from `pyarrow.json` for values of the type `kind`.

    A decimal is requested with a precision of 38 digits, because `pyarrow.json` doesn't check the
    precision. The conversion to `kind` checks it.
    """
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return pa.struct([(f.name, _read_as(f.type)) for f in fields])
    if pa.types.is_list(kind):
        return pa.list_(_read_as(kind.value_type))
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal128(kind) else kind


def _joined(strings: pa.Array[Any]) -> pa.Buffer | None:
    """Join strings with line breaks, as input for `pyarrow.json`; null becomes an empty object.

    Returns None if there are no strings, or if a string doesn't start and end with a brace.
    A string may still contain several JSON objects, and `pyarrow.json` returns a row for each of
    them. Callers must therefore check that there are as many rows as strings.
    """
    if len(strings) == 0:
        return None
    if strings.null_count:
        strings = pc.call_function("coalesce", [strings, to_scalar("{}", pa.string())])
    objects = pc.and_(pc.starts_with(strings, "{"), pc.ends_with(strings, "}"))
    if not pc.all(objects).as_py():
        return None
    lines: pa.Array[Any] = pc.call_function(
        "binary_join_element_wise", [strings, *to_array(["", "\n"], pa.string())]
    )
    _, offsets, data = lines.buffers()
    assert offsets is not None
    assert data is not None
    ends: pa.Array[Any] = pa.Array.from_buffers(pa.int32(), 1, [None, offsets], offset=len(lines))
    return data.slice(0, ends[0].as_py())
