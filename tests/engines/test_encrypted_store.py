"""Decryption is the file system client's business alone: it sees every byte of a table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.errors import BayouError
from bayou.kernel import ByteRange, Engine, Table, closeable

_PERIOD = 251
_KEY = bytes((i * 89 + 17) % 256 for i in range(_PERIOD))


def sealed(data: bytes, offset: int = 0) -> bytes:
    """A stream cipher, if a poor one: each byte by its position in the file."""
    begin = offset % _PERIOD
    stream = (_KEY * (len(data) // _PERIOD + 2))[begin : begin + len(data)]
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(data), "big")


class DecryptingFiles(ArrowFiles):
    """Files whose bytes are sealed where they are stored."""

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for wanted in ranges:
            with super().read_files([wanted]) as contents:
                for data in contents:
                    yield sealed(data, wanted.offset)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        return cast("IO[bytes]", DecryptingInput(super().open_input(path, size)))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return super().put_if_absent(path, sealed(data))

    def put(self, path: str, data: bytes) -> None:
        super().put(path, sealed(data))


class DecryptingInput(io.RawIOBase):
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
        return sealed(self._source.read(-1 if size is None else size), position)

    def readinto(self, buffer) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def seal_files(source: Path, target: Path) -> None:
    for file in source.rglob("*"):
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(sealed(file.read_bytes()))


def rows(engine: Engine, path: Path, filter: str | None = None) -> list:
    handle = TableHandle(engine, Table.for_path(engine, str(path)))
    return sorted(handle.to_arrow(filter=filter).to_pylist(), key=repr)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Commits, a checkpoint and partitioned data files with several row groups."""
    path = tmp_path / "plain"
    for day in range(4):
        batch = pa.table({"day": [day] * 100, "id": range(100), "text": ["x" * 50] * 100})
        bayou.write(str(path), batch, partition_by=["day"])
        if day == 2:
            Table(str(path)).checkpoint(ArrowEngine())
    return path


def test_a_table_of_encrypted_objects_is_read_through_a_client_that_decrypts(
    table: Path, tmp_path: Path
) -> None:
    seal_files(table, tmp_path / "sealed")
    engine = ArrowEngine(files=DecryptingFiles())
    assert rows(engine, tmp_path / "sealed") == rows(ArrowEngine(), table)
    assert rows(engine, tmp_path / "sealed", "day = 3 AND id < 5") == rows(
        ArrowEngine(), table, "day = 3 AND id < 5"
    )


def test_without_the_client_the_objects_say_nothing(table: Path, tmp_path: Path) -> None:
    seal_files(table, tmp_path / "sealed")
    with pytest.raises(BayouError):
        rows(ArrowEngine(), tmp_path / "sealed")
