"""A JSON handler that uses the standard library and converts values one by one."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from bayou.errors import SerializationError
from bayou.json_decoding import without_lone_surrogates
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, FileStatus, FileSystemClient
from bayou.kernel.expressions.model import Predicate


class MemoryJsonHandler:
    """Parses each string with `json`, and writes through the file system client."""

    def __init__(self, files: FileSystemClient) -> None:
        self._files = files

    def parse_json(
        self,
        texts: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        selected = [True] * len(texts) if selection is None else selection.to_pylist()
        rows = [
            _decode(string) if is_selected else {}
            for string, is_selected in zip(texts.to_pylist(), selected, strict=True)
        ]
        return _batch(rows, output_schema)

    @closeable
    def read_json_files(
        self,
        files: Iterable[FileStatus],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            with self._files.read_files([ByteRange(path=file.path)]) as contents:
                lines = next(contents).split(b"\n")
            rows: list[dict[str, Any]] = []
            for number, line in enumerate(lines, 1):
                try:
                    rows += [_decode(line.decode())] if line.strip() else []
                except (SerializationError, UnicodeDecodeError) as error:
                    raise SerializationError(f"{file.path}, line {number}: {error}") from error
            for first in range(0, len(rows), batch_size):
                yield _batch(rows[first : first + batch_size], physical_schema)

    def write_json_file_atomically(
        self, path: str, lines: Iterable[bytes], *, overwrite: bool = False
    ) -> bool:
        data = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
        if overwrite:
            self._files.put(path, data)
            return True
        return self._files.put_if_absent(path, data)


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([_fit(row.get(field.name), field.type) for row in rows], type=field.type)
        for field in schema
    ]
    if not columns:
        rows_only: Any = pa.array([{}] * len(rows), pa.struct([]))
        return pa.RecordBatch.from_struct_array(rows_only)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decode(string: str | None) -> dict[str, Any]:
    try:
        value = {} if string is None else _load(string)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"not JSON ({error}): {str(string)[:200]!r}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SerializationError(f"not a JSON object: {str(string)[:200]!r}")
    return value


def _load(string: str) -> Any:
    data = without_lone_surrogates(string.encode())
    return json.loads(data, parse_float=Decimal, parse_constant=_reject_constant)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} isn't a JSON value")


def _fit(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    match value:
        case bool():
            return value if types.is_boolean(kind) else None
        case int() | Decimal():
            return _fit_number(value, kind)
        case str():
            return _fit_string(value, kind)
        case dict() if types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return {f.name: _fit(value.get(f.name), f.type) for f in fields}
        case dict() if types.is_map(kind) and types.is_string(kind.key_type):
            return [(k, _fit(v, kind.item_type)) for k, v in value.items()]
        case list() if types.is_list(kind) or types.is_large_list(kind):
            return [_fit(v, kind.value_type) for v in value]
    return None


def _fit_number(value: int | Decimal, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_integer(kind) and isinstance(value, int):
        return _or_none(value, kind)
    if types.is_float32(kind):
        return float(value) if _fits_float(value, "<f") else None
    if types.is_float64(kind):
        return float(value) if _fits_float(value, "<d") else None
    if types.is_decimal(kind):
        return _or_none(Decimal(value), kind)
    return None


def _fits_float(value: int | Decimal, code: str) -> bool:
    """Whether a value is finite after it is rounded to a float type.

    Args:
        code: the float type as a format of the module `struct`: `<f` or `<d`.
    """
    try:
        number = float(value)
        struct.pack(code, number)
    except OverflowError:
        return False
    return abs(number) != float("inf")


def _fit_string(value: str, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return value
    if types.is_floating(kind):
        return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
    try:
        if types.is_decimal(kind):
            return _or_none(Decimal(value), kind)
        if types.is_date(kind):
            return dt.date.fromisoformat(value)
        if types.is_timestamp(kind):
            timestamp = dt.datetime.fromisoformat(value)
            timestamp = timestamp.replace(tzinfo=timestamp.tzinfo or dt.UTC).astimezone(dt.UTC)
            return timestamp if kind.tz else timestamp.replace(tzinfo=None)
    except (ValueError, InvalidOperation):
        pass
    return None


def _or_none(value: Any, kind: pa.DataType) -> Any:
    try:
        return value if pa.scalar(value, kind).as_py() == value else None
    except (pa.ArrowException, OverflowError):
        return None
