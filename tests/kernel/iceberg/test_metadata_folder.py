from __future__ import annotations

import threading

import pytest

from bayou.engines.memory import MemoryEngine
from bayou.errors import UniversalFormatError
from bayou.kernel.iceberg.metadata_folder import MetadataFolder, engine_path, location


@pytest.fixture
def folder(engine: MemoryEngine, table_path: str) -> MetadataFolder:
    return MetadataFolder(engine, table_path)


def test_only_one_writer_creates_a_metadata_file(folder: MetadataFolder) -> None:
    assert folder.commit(1, b"a")
    assert not folder.commit(1, b"b")
    assert folder.numbers() == [1]


def test_the_hint_names_the_newest_file(folder: MetadataFolder) -> None:
    for number in (1, 2, 10):
        folder.commit(number, b"{}")
        assert folder.hint() == number


def test_the_hint_never_moves_back(
    engine: MemoryEngine, folder: MetadataFolder, table_path: str
) -> None:
    folder.commit(9, b"{}")
    engine.files.put(f"{table_path}/metadata/v2.metadata.json", b"{}")
    folder.update_hint()
    assert folder.hint() == 9


def test_a_hint_that_is_not_a_number_is_replaced(
    engine: MemoryEngine, folder: MetadataFolder, table_path: str
) -> None:
    folder.commit(1, b"{}")
    engine.files.put(f"{table_path}/metadata/version-hint.text", b"x")
    folder.update_hint()
    assert folder.hint() == 1


def test_concurrent_writers_leave_the_newest_hint(folder: MetadataFolder) -> None:
    def write(first: int) -> None:
        for number in range(first, 60, 3):
            folder.commit(number, b"{}")

    threads = [threading.Thread(target=write, args=(first,)) for first in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folder.hint() == 59


def test_a_damaged_metadata_file_is_named(folder: MetadataFolder) -> None:
    folder.commit(1, b"[]")
    with pytest.raises(UniversalFormatError, match=r"v1\.metadata\.json isn't Iceberg"):
        folder.newest()


def test_only_files_of_the_folder_are_deleted(
    engine: MemoryEngine, folder: MetadataFolder, table_path: str
) -> None:
    engine.files.put(f"{table_path}/data.parquet", b"x")
    folder.put(folder.new_manifest(), b"x")
    folder.delete([f"{table_path}/data.parquet"])
    assert engine.files.status(f"{table_path}/data.parquet").size == 1


@pytest.mark.parametrize("path", ["/lake/a b%20#?", "s3://bucket/key", "memory://x/y"])
def test_locations_are_inverted(path: str) -> None:
    assert engine_path(location(path)) == path
