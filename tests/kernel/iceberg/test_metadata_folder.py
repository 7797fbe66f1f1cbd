from __future__ import annotations

import json
import threading

import pytest

from bayou.engines.memory import MemoryEngine
from bayou.errors import StorageError, UniversalFormatError
from bayou.kernel.iceberg.metadata_folder import MetadataFolder, engine_path, location


@pytest.fixture
def folder(engine: MemoryEngine, table_path: str) -> MetadataFolder:
    return MetadataFolder(engine, table_path)


def test_only_one_writer_creates_a_metadata_file(folder: MetadataFolder) -> None:
    assert folder.commit(1, b"a")
    assert not folder.commit(1, b"b")
    assert folder.numbers() == [1]


def test_a_repeated_request_that_finds_its_own_file_has_created_it(
    engine: MemoryEngine, folder: MetadataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_if_absent = engine.files.put_if_absent

    def repeated(path: str, data: bytes) -> bool:
        put_if_absent(path, data)
        return put_if_absent(path, data)

    monkeypatch.setattr(engine.files, "put_if_absent", repeated)
    assert folder.commit(1, b"a")
    assert folder.hint() == 1
    assert not folder.commit(1, b"b")


def test_a_file_that_exists_but_cannot_be_read_may_be_the_writers_own(
    engine: MemoryEngine, folder: MetadataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.commit(1, b"a")

    def fail(_: object) -> None:
        raise StorageError("the store is away", path=folder.path)

    monkeypatch.setattr(engine.files, "read_files", fail)
    with pytest.raises(StorageError, match="away"):
        folder.commit(1, b"a")


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


@pytest.mark.parametrize("hint", [b"x", b"", b"-1", b"\xff", b"2", b"9" * 400], ids=repr)
def test_a_hint_that_names_no_file_is_replaced(
    engine: MemoryEngine, folder: MetadataFolder, table_path: str, hint: bytes
) -> None:
    folder.commit(1, b"{}")
    engine.files.put(f"{table_path}/metadata/version-hint.text", hint)
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
    engine.files.put(f"{folder.path}/other.avro", b"x")
    folder.put(folder.new_manifest(), b"x")
    dots = f"{folder.path}/../data.parquet"
    folder.delete([f"{table_path}/data.parquet", dots, f"{folder.path}/other.avro"])
    assert engine.files.status(f"{table_path}/data.parquet").size == 1
    assert engine.files.status(f"{folder.path}/other.avro").size == 1


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("00001-4c5a-ae3e.metadata.json", b"{}"),
        ("v7.gz.metadata.json", b"{}"),
        ("v1.metadata.json", b'{"format-version": 2, "properties": {}}'),
    ],
)
def test_metadata_of_another_iceberg_writer_is_recognized(
    engine: MemoryEngine, folder: MetadataFolder, name: str, contents: bytes
) -> None:
    own = b'{"format-version": 2, "properties": {"delta-version": "3"}}'
    assert not folder.has_other_metadata()
    folder.commit(2, own)
    engine.files.put(f"{folder.path}/.v2.metadata.json.crc", b"x")
    assert not folder.has_other_metadata()
    engine.files.put(f"{folder.path}/{name}", contents)
    assert folder.has_other_metadata()


@pytest.mark.parametrize("path", ["/lake/a b%20#?", "s3://bucket/key", "memory://x/y"])
def test_locations_are_inverted(path: str) -> None:
    assert engine_path(location(path)) == path


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("snapshots", [{}], "snapshot-id"),
        ("snapshots", None, "snapshots"),
        ("properties", {"delta-version": "3", "x": 1}, "properties"),
        ("schemas", [], "schema 0 is missing"),
        ("schemas", [{"schema-id": 0, "fields": [{"id": 1, "name": "a", "type": {}}]}], "column 1"),
        ("current-schema-id", "0", "current-schema-id"),
        ("default-spec-id", 5, "partition spec 5 is missing"),
        ("last-sequence-number", 2**63, "last-sequence-number"),
        ("format-version", "2", "format-version"),
    ],
)
def test_damaged_metadata_of_a_conversion_is_named(
    folder: MetadataFolder, key: str, value: object, problem: str
) -> None:
    metadata = {
        "format-version": 2,
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "a", "type": "int"}]}],
        "current-schema-id": 0,
        "partition-specs": [
            {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "a"}]}
        ],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "properties": {"delta-version": "3"},
    }
    folder.commit(1, json.dumps(metadata).encode())
    newest = folder.newest()
    assert newest is not None
    folder.commit(2, json.dumps({**metadata, key: value}).encode())
    with pytest.raises(UniversalFormatError, match=rf"v2\.metadata\.json isn't .*{problem}"):
        folder.newest()
