"""JSON files of a folder, local or in a store, read as records in flat memory.

A file is one array of objects, an object a line, or objects over several lines each; `.gz` too.
They are told apart by the first characters.
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
    """A file.

    Attributes:
        path: decoded and absolute.
        name: below the folder.
        size: in bytes.
        moment: microseconds since the epoch: midnight of the day that the folders name
            (`year=2024/month=01/day=05` or `2024/01/05`), else when the file was written.
        modified: milliseconds since the epoch: when the file was last written.
    """

    path: str
    name: str
    size: int
    moment: int
    modified: int


def json_files(engine: Engine, folder: str) -> list[JsonFile]:
    """The JSON files below a folder, or the one file, by moment and name (`9` before `10`).

    Hidden ones are left out.

    Raises:
        PipelineError: the name of a file isn't UTF-8, so that no table can hold it.
        StorageError: the store fails.
    """
    root = engine.files.resolve_path(folder)
    if _NAMES.match(root):
        try:
            return [_file(engine.files.status(root), root.rsplit("/", 1)[-1])]
        except FileMissingError:
            pass  # a folder may be called so, too: Spark writes such

    def hidden(path: str) -> bool:
        return path.rsplit("/", 1)[-1].startswith(("_", "."))

    found: list[JsonFile] = []
    with engine.files.list_tree(root, hidden) as listed:
        for status in listed:
            name = status.path[len(root) :].lstrip("/")
            if _NAMES.match(name) and not hidden(name):
                found.append(_file(status, name))
    return sorted(found, key=lambda file: (file.moment, _natural(file.name)))


def path_below(folder: str, name: str) -> str:
    """Where a file is that `json_files` has found."""
    is_file = _NAMES.match(folder) and folder.endswith(f"/{name}")
    return folder if is_file else f"{folder}/{name}"


def is_whole(line: bytes) -> bool:
    """Whether a line without a newline can't grow into another record.

    An object, an array or a string ends with its last character. A number doesn't: `12` may be the
    beginning of `123`. A writer may still be in the middle of anything that doesn't parse.
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
    """The JSON text of each record, as it stands.

    Args:
        takes_last: called with a last line that has no newline; False leaves the line out, because
            a writer may still be writing it. Where None, the line is a record.

    Raises:
        PipelineError: it can't be read on, the message says behind which record; a packed file
            isn't whole.
        StorageError: the store fails.
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
            found = array_elements(rest)
        elif _OVER_LINES.match(begin):
            found = joined_objects(rest)
        else:
            found = _lines(rest, takes_last)
        yield from _told(file, found)
    except zlib.error as error:
        raise PipelineError(f"{file.path} isn't whole: {error}", topic="") from error


def _natural(name: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Numbers in names by their value."""
    parts = re.split(r"(\d+)", name)
    return [(p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts], name


_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder(object)
_OVER_LINES = re.compile(rb"\{[ \t\r]*\n")
_SPACE = b" \t\r\n\xef\xbb\xbf"


def _file(status: FileStatus, name: str) -> JsonFile:
    try:
        status.path.encode()
    except UnicodeEncodeError:
        shown = status.path.encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise PipelineError(
            f"{shown}: the file name isn't UTF-8. Rename the file.", topic=""
        ) from None
    moment = status.modification_time * 1000
    for pattern in _DATED:
        if found := pattern.search(status.path):
            try:
                day = datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
            except ValueError:
                continue
            moment = int(day.timestamp()) * 1_000_000
            break
    return JsonFile(
        path=status.path,
        name=name,
        size=status.size,
        moment=moment,
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
            raise zlib.error("it ends in the middle")


def _chained(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _lines(chunks: Iterator[bytes], takes_last: Callable[[bytes], bool] | None) -> Iterator[bytes]:
    waiting = b""
    for chunk in chunks:
        lines = (waiting + chunk).split(b"\n")
        waiting = lines.pop()
        for line in lines:
            if text := line.strip(_SPACE):
                yield text
        if len(waiting) > LONGEST:
            raise ArrayError(f"a line has more than {LONGEST >> 20} MB")
    text = waiting.strip(_SPACE)
    if text and (takes_last is None or takes_last(text)):
        yield text


def _told(file: JsonFile, records: Iterator[bytes]) -> Iterator[bytes]:
    number = 0
    try:
        for record in records:
            yield record
            number += 1
    except ArrayError as error:
        raise PipelineError(
            f"{file.path} can't be read behind its record {number}: {error}. Repair the file and "
            "start again: what was migrated stays.",
            topic="",
        ) from error
