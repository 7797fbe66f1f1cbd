"""Reads the JSON files of a local folder or a store as records, with constant memory.

A file contains one array of objects, one object per line, or a sequence of objects over several
lines; it may be compressed (`.gz`). The layout is detected by the first characters.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from bayou.errors import FileMissingError, PipelineError
from bayou.ingest.migration.json_elements import (
    LONGEST,
    ArrayError,
    array_elements,
    joined_objects,
)
from bayou.kernel import Engine
from bayou.kernel.engine import ByteRange, FileStatus

__all__ = ["JsonFile", "is_whole", "json_files", "path_below", "records_of"]

_NAMES = re.compile(r".*\.(json|jsonl|ndjson)(\.gz)?\Z")
_DATED = (
    re.compile(r"(?:^|/)year=(\d{4})/month=(\d{1,2})/day=(\d{1,2})/"),
    re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/"),
)
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A JSON file.

    Attributes:
        path: decoded and absolute path.
        name: path relative to the folder.
        size: size in bytes.
        timestamp: timestamp of the records, microseconds since the epoch: midnight of the day in
            the folder names (`year=2024/month=01/day=05` or `2024/01/05`), otherwise the
            modification time.
        modified: modification time, milliseconds since the epoch.
    """

    path: str
    name: str
    size: int
    timestamp: int
    modified: int


def json_files(engine: Engine, folder: str) -> list[JsonFile]:
    """List the JSON files in a folder, or one file, by timestamp and name (`9` before `10`).

    Hidden files are skipped.

    Raises:
        PipelineError: the name of a file isn't UTF-8, so it can't be stored in a table.
        StorageError: the store failed.
    """
    root = engine.files.resolve_path(folder)
    if _NAMES.match(root):
        try:
            return [_file(engine.files.status(root), root.rsplit("/", 1)[-1])]
        except FileMissingError:
            pass  # the path may be a folder: Spark writes folders with this name

    def hidden(path: str) -> bool:
        return path.rsplit("/", 1)[-1].startswith(("_", "."))

    files: list[JsonFile] = []
    with engine.files.list_tree(root, hidden) as listed:
        for status in listed:
            name = status.path[len(root) :].lstrip("/")
            if _NAMES.match(name) and not hidden(name):
                files.append(_file(status, name))
    return sorted(files, key=lambda file: (file.timestamp, _natural_key(file.name)))


def path_below(folder: str, name: str) -> str:
    """Return the path of a file that `json_files` has listed."""
    is_file = _NAMES.match(folder) and folder.endswith(f"/{name}")
    return folder if is_file else f"{folder}/{name}"


def is_whole(line: bytes) -> bool:
    """Whether a line without a newline is a complete record.

    A valid object, array or string is complete. A number isn't: `12` may be the start of `123`. A
    line that can't be parsed may still be written.
    """
    if not line.startswith((b"{", b"[", b'"')):
        return False
    try:
        _ANY.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def records_of(
    engine: Engine, file: JsonFile, takes_last: Callable[[bytes], bool] | None = None
) -> Iterator[bytes]:
    """Yield the raw JSON of each record of a file.

    Args:
        engine: the engine.
        file: the file.
        takes_last: called with a last line that has no newline; returns False to skip the line,
            because it may still be written. With None the line is a record.

    Raises:
        PipelineError: the file is invalid after some record, or a compressed file is incomplete.
        StorageError: the store failed.
    """
    chunks = _bytes(engine, file)
    begin = b""
    try:
        for chunk in chunks:
            begin = chunk.lstrip(_SPACE)
            if begin:
                break
        rest = _chained(begin, chunks)
        if begin.startswith(b"["):
            records = array_elements(rest)
        elif _MULTILINE.match(begin):
            records = joined_objects(rest)
        else:
            records = _lines(rest, takes_last)
        yield from _with_errors(file, records)
    except zlib.error as error:
        raise PipelineError(
            f"{file.path}: the compressed file is incomplete: {error}. Repair the file and start "
            "again.",
            topic="",
        ) from error


def _natural_key(name: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Return a sort key that orders numbers in names by value."""
    parts = re.split(r"(\d+)", name)
    return [(p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts], name


_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder(object)
_MULTILINE = re.compile(rb"\{[ \t\r]*\n")
_SPACE = b" \t\r\n\xef\xbb\xbf"


def _file(status: FileStatus, name: str) -> JsonFile:
    try:
        status.path.encode()
    except UnicodeEncodeError:
        shown = status.path.encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise PipelineError(
            f"{shown}: the file name isn't UTF-8. Rename the file.", topic=""
        ) from None
    timestamp = status.modification_time * 1000
    for pattern in _DATED:
        if match := pattern.search(status.path):
            try:
                day = datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
            except ValueError:
                continue
            timestamp = int(day.timestamp()) * 1_000_000
            break
    return JsonFile(
        path=status.path,
        name=name,
        size=status.size,
        timestamp=timestamp,
        modified=status.modification_time,
    )


def _bytes(engine: Engine, file: JsonFile) -> Iterator[bytes]:
    ranges = (
        ByteRange(path=file.path, offset=start, length=min(_CHUNK, file.size - start))
        for start in range(0, file.size, _CHUNK)
    )
    with engine.files.read_files(ranges) as chunks:
        if not file.name.endswith(".gz"):
            yield from chunks
            return
        unpacking, whole = zlib.decompressobj(wbits=31), True
        for chunk in chunks:
            waiting = chunk
            while waiting:
                yield unpacking.decompress(waiting, _CHUNK)
                waiting, whole = unpacking.unconsumed_tail, unpacking.eof
                if unpacking.eof:
                    waiting = unpacking.unused_data
                    unpacking = zlib.decompressobj(wbits=31)
        if not whole:
            raise zlib.error("unexpected end of file")


def _chained(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _lines(chunks: Iterator[bytes], takes_last: Callable[[bytes], bool] | None) -> Iterator[bytes]:
    waiting = b""
    for chunk in chunks:
        lines = (waiting + chunk).split(b"\n")
        waiting = lines.pop()
        for line in lines:
            if record := line.strip(_SPACE):
                yield record
        if len(waiting) > LONGEST:
            raise ArrayError(f"a line has more than {LONGEST >> 20} MB")
    last = waiting.strip(_SPACE)
    if last and (takes_last is None or takes_last(last)):
        yield last


def _with_errors(file: JsonFile, records: Iterator[bytes]) -> Iterator[bytes]:
    """Yield records; raise invalid JSON as an error of the file."""
    number = 0
    try:
        for record in records:
            yield record
            number += 1
    except ArrayError as error:
        raise PipelineError(
            f"{file.path} can't be read after its record {number}: {error}. Repair the file and "
            "start again; migrated records stay migrated.",
            topic="",
        ) from error
