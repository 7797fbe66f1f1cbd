from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, ClassVar

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles
from bayou.engines.memory.engine import MemoryFiles
from bayou.kernel import closeable
from bayou.kernel.engine import ByteRange, ParquetWriteOptions
from bayou.testing import EngineSuite


class TestOnLocalDisk(EngineSuite):
    ODD_NAMES: ClassVar[Sequence[str]] = (*EngineSuite.ODD_NAMES, "line\nend", "back\\slash", "\t")

    @pytest.fixture
    def engine(self) -> ArrowEngine:
        return ArrowEngine()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "place")


class TestOnAnObjectStore(EngineSuite):
    @pytest.fixture
    def engine(self) -> ArrowEngine:
        return ArrowEngine(files=ObjectStoreFiles(stores={"s3://bucket": MemoryStore()}))

    @pytest.fixture
    def root(self) -> str:
        return "s3://bucket/place"


class XorFiles(MemoryFiles):
    """Files that are encrypted where they are stored, as simply as it goes.

    Outputs of `MemoryFiles` go through `put`.
    """

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for data in super().read_files(ranges):
            yield flipped(data)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        return io.BytesIO(flipped(super().open_input(path, size).read()))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return super().put_if_absent(path, flipped(data))

    def put(self, path: str, data: bytes) -> None:
        super().put(path, flipped(data))


def flipped(data: bytes) -> bytes:
    return data.translate(bytes(255 - i for i in range(256)))


class TestWithFilesOfItsOwn(EngineSuite):
    """Every byte of JSON and Parquet goes through the files that the engine was given."""

    @pytest.fixture
    def engine(self) -> ArrowEngine:
        return ArrowEngine(files=XorFiles())

    def test_the_stored_bytes_are_encrypted(self, engine: ArrowEngine, root: str) -> None:
        batch = pa.RecordBatch.from_pydict({"i": [1]})
        (status,) = engine.parquet.write_parquet_files(root, [batch], [], ParquetWriteOptions())
        (stored,) = MemoryFiles().read_files([ByteRange(path=status.path)])
        assert stored[:4] == flipped(b"PAR1")

    @pytest.fixture
    def root(self) -> str:
        return f"memory://{uuid.uuid4()}/place"
