"""A file handler that encrypts files at rest, to test that engines use no other file access."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from bayou.engines.arrow.files import ArrowFiles
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange

__all__ = ["SealedFiles", "seal_files"]

_PERIOD = 251
_KEY = bytes((i * 89 + 17) % 256 for i in range(_PERIOD))


class SealedFiles(ArrowFiles):
    """File handler that encrypts files when it writes them, and decrypts them when reading."""

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for wanted in ranges:
            with super().read_files([wanted]) as contents:
                for data in contents:
                    yield _sealed(data, wanted.offset)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        return cast("IO[bytes]", _SealedInput(super().open_input(path, size)))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return super().put_if_absent(path, _sealed(data))

    def put(self, path: str, data: bytes) -> None:
        super().put(path, _sealed(data))


def seal_files(source: Path, target: Path) -> None:
    """Copy a folder and encrypt its files for `SealedFiles`."""
    for file in source.rglob("*"):
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_sealed(file.read_bytes()))


class _SealedInput(io.RawIOBase):
    """An opened file that is decrypted when it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._source.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._source.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        position = self._source.tell()
        return _sealed(self._source.read(-1 if size is None else size), position)

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def _sealed(data: bytes, offset: int = 0) -> bytes:
    """Encrypt or decrypt bytes at a position of a file, by XOR with a key of 251 bytes."""
    begin = offset % _PERIOD
    stream = (_KEY * (len(data) // _PERIOD + 2))[begin : begin + len(data)]
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(data), "big")
