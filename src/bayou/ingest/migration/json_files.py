"""Reads the records of JSON files in a local folder or an object store, with constant memory.

A file contains an array of objects, one object per line, or objects that span several lines. The
first characters of the file determine which format it has. A file may be compressed (`.gz`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from bayou.engines.arrow.storage.object_uris import is_hdfs
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.errors import FileMissingError, PipelineError
from bayou.ingest.migration.json_elements import (
    LONGEST,
    ArrayError,
    array_elements,
    joined_objects,
)
from bayou.kernel import Engine
from bayou.kernel.engine import ByteRange, FileStatus

_NAMES = re.compile(r".*\.(json|jsonl|ndjson)(\.gz)?\Z", re.IGNORECASE)
_DATED = (
    re.compile(r"(?:^|/)year=(\d{4})/month=(\d{1,2})/day=(\d{1,2})/"),
    re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/"),
)
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A JSON file.

    Attributes:
        path: absolute path, without URL encoding.
        name: path relative to the migrated folder. If only the file `x/a.json` is migrated, the
            name is `a.json`. A file `a.json` in a migrated folder with the name `a.json` has the
            name `./a.json`, so that the two cases differ.
        size: size in bytes.
        timestamp: timestamp of the file's records, in microseconds since the epoch. If the path
            contains a date, such as `year=2024/month=01/day=05` or `2024/01/05`, this is midnight
            of the day in UTC. Otherwise it is the modification time.
        modified: modification time, in milliseconds since the epoch.
    """

    path: str
    name: str
    size: int
    timestamp: int
    modified: int

    @property
    def is_compressed(self) -> bool:
        return self.name.lower().endswith(".gz")


def json_files(engine: Engine, folder: str, others: list[str] | None = None) -> list[JsonFile]:
    """List the JSON files in a folder, sorted by timestamp and then by name.

    Numbers in names are ordered by value: `9` is before `10`. Files and folders whose names start
    with `_` or `.` are skipped.

    Args:
        folder: the path of a folder or of a single file.
        others: list to which the names of files that aren't JSON files are appended.
    """
    root = engine.files.resolve_path(folder)
    if _NAMES.match(root):
        try:
            return [_file(engine.files.status(root), root.rsplit("/", 1)[-1])]
        except FileMissingError:
            pass  # a folder, such as Spark writes for `write.json("events.json")`

    def hidden(path: str) -> bool:
        return path.rsplit("/", 1)[-1].startswith(("_", "."))

    files: list[JsonFile] = []
    with engine.files.list_tree(root, hidden) as listed:
        for status in listed:
            name = status.path[len(root) :].lstrip("/")
            if hidden(name):
                continue
            if _NAMES.match(name):
                files.append(_file(status, f"./{name}" if _is_file(root, name) else name))
            elif others is not None and not name.endswith("/"):  # folders end with a slash
                others.append(name)
    return sorted(files, key=lambda file: (file.timestamp, _natural_key(file.name)))


def path_below(folder: str, name: str) -> str:
    """Return the path of a file that `json_files` has listed, from the folder and the file's name.

    Args:
        folder: the argument `folder` of `json_files`, which can be the path of a single file.
        name: the file's `JsonFile.name`.
    """
    return folder if _is_file(folder, name) else f"{folder}/{name.removeprefix('./')}"


def _is_file(folder: str, name: str) -> bool:
    """Whether `folder` is the path of a single JSON file with the name `name`."""
    return bool(_NAMES.match(folder)) and folder.rpartition("/")[2] == name


def is_read_in_parts(file: JsonFile) -> bool:
    """Whether several requests read the file, so that its content can change between two requests.

    Local files and files of HDFS are opened only once.
    """
    return file.size > _CHUNK and "://" in file.path and not is_hdfs(file.path)


def is_whole(line: bytes) -> bool:
    """Whether a line without a newline is a complete record.

    A valid object, array or string is complete. A number may be incomplete: `12` may be the start
    of `123`. A line that isn't valid JSON may also be incomplete.
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
        takes_last: function that is called with the last line if the line has no newline, because
            another process may still be writing the line. It returns whether to yield the line. If
            None, the line is yielded.

    Raises:
        PipelineError: the file contains invalid JSON, or a compressed file is incomplete.
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
    """Return a sort key for a name. The key orders numbers by value, so `9` is before `10`."""
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


def _opened_chunks(engine: Engine, file: JsonFile) -> Generator[bytes]:
    """Open a file once and yield its content, even if another file replaces it meanwhile."""
    with engine.files.open_input(file.path, file.size) as opened:
        for start in range(0, file.size, _CHUNK):
            with storage_errors(file.path, "read"):
                chunk = opened.read(min(_CHUNK, file.size - start))
            yield chunk


def _chunks(engine: Engine, file: JsonFile) -> AbstractContextManager[Iterator[bytes]]:
    if file.path.startswith("/") or is_hdfs(file.path):
        return closing(_opened_chunks(engine, file))
    ranges = (
        ByteRange(path=file.path, offset=start, length=min(_CHUNK, file.size - start))
        for start in range(0, file.size, _CHUNK)
    )
    return engine.files.read_files(ranges)


def _bytes(engine: Engine, file: JsonFile) -> Iterator[bytes]:
    with _chunks(engine, file) as chunks:
        if not file.is_compressed:
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
