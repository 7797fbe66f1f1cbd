"""Files of one JSON text a line, with the memory of a few blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.engines.arrow.json_values import parse_texts
from bayou.errors import SerializationError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, FileStatus, FileSystemClient

__all__ = ["Lines", "read_lines"]

_BLOCK = 8 << 20
_NO_COLUMNS = pa.schema([])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Some lines of a file, blank ones left out.

    Attributes:
        path: of the file.
        texts: the lines.
        numbers: their numbers in the file, from 1.
    """

    path: str
    texts: pa.Array[Any]
    numbers: list[int]

    def refuse_bad(self) -> None:
        """Look for a line that isn't a JSON object.

        Raises:
            SerializationError: there is one; names file and line.
        """
        for i, number in enumerate(self.numbers):
            try:
                parse_texts(self.texts.slice(i, 1), _NO_COLUMNS)
            except SerializationError as error:
                raise SerializationError(f"{self.path}, line {number}: {error}") from error


@closeable
def read_lines(
    files: FileSystemClient, statuses: Iterable[FileStatus], batch_size: int
) -> Iterator[Lines]:
    """Lines of files, in their order, at most `batch_size` of one file at a time.

    Raises:
        SerializationError: a line isn't UTF-8; names file and line.
    """
    # Which block belongs to which file: filled as `read_files` takes ranges ahead of what it gives.
    blocks: deque[tuple[FileStatus, bool]] = deque()

    def ranges() -> Iterator[ByteRange]:
        for status in statuses:
            # The last block goes to the end, whatever the size was when the file was listed.
            starts = range(0, max(status.size - _BLOCK, 1), _BLOCK)
            for start in starts:
                is_last = start == starts[-1]
                blocks.append((status, is_last))
                length = None if is_last else _BLOCK
                yield ByteRange(path=status.path, offset=start, length=length)

    rest, number = b"", 0
    with files.read_files(ranges()) as contents:
        for data in contents:
            status, is_last = blocks.popleft()
            *lines, rest = (rest + bytes(data)).split(b"\n")
            if is_last:
                lines.append(rest)
            yield from _numbered(status.path, lines, number + 1, batch_size)
            number += len(lines)
            if is_last:
                rest, number = b"", 0


def _numbered(path: str, lines: list[bytes], first: int, batch_size: int) -> Iterator[Lines]:
    kept = [(number, line) for number, line in enumerate(lines, first) if line.strip()]
    for start in range(0, len(kept), batch_size):
        numbers, texts = zip(*kept[start : start + batch_size], strict=True)
        try:
            column = pa.array(texts, pa.string())
        except pa.ArrowInvalid as error:
            raise SerializationError(f"{path}, line {_not_utf8(kept)}: not UTF-8") from error
        yield Lines(path=path, texts=column, numbers=list(numbers))


def _not_utf8(lines: list[tuple[int, bytes]]) -> int:
    for number, line in lines:
        try:
            line.decode()
        except UnicodeDecodeError:
            return number
    return lines[0][0]
