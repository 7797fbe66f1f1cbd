"""Conditional puts: conflicts are tried again, and a store that ignores conditions is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.storage import conditional_put
from bayou.errors import PrerequisiteError, StorageError
from support.scripted_s3 import ScriptedS3, scripted_s3

TABLE = "s3://bucket/table"
LOG = "bucket/table/_delta_log/"
CHECK = ".bayou-conditional-put-check"
FIRST = f"{0:020d}.json"


@pytest.fixture
def s3() -> Iterator[ScriptedS3]:
    with scripted_s3() as found:
        yield found


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No pauses; how many there were."""
    found: list[int] = []
    monkeypatch.setattr(conditional_put, "_pause", found.append)
    return found


def write(s3: ScriptedS3, *ids: int) -> None:
    bayou.write(TABLE, pa.table({"id": ids}), storage_options=s3.options)


def ids(s3: ScriptedS3) -> list[int]:
    return sorted(bayou.table(TABLE, s3.options).to_arrow()["id"].to_pylist())


def checks(s3: ScriptedS3) -> int:
    return sum(key.endswith(CHECK) for key in s3.puts)


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_a_conflict_of_s3_is_tried_again(s3, pauses, code):
    s3.conflicts, s3.conflict_code = 2, code
    write(s3, 1)
    assert (ids(s3), pauses) == ([1], [0, 1])
    assert [key.removeprefix(LOG) for key in s3.puts].count(FIRST) == 3


def test_a_conflict_for_a_data_file_is_tried_again(s3, pauses):
    s3.file_conflicts, s3.conflict_code = 2, "OperationAborted"
    write(s3, 1)
    assert (ids(s3), pauses) == ([1], [0, 1])


def test_conflicts_without_end_for_a_data_file_are_an_error(s3):
    s3.file_conflicts = 1000
    with pytest.raises(StorageError, match="ConditionalRequestConflict"):
        write(s3, 1)
    assert s3.objects == {}


def test_another_409_for_a_data_file_is_an_error(s3, pauses):
    s3.file_conflicts, s3.conflict_code = 1, "SomethingElse"
    with pytest.raises(StorageError, match="SomethingElse"):
        write(s3, 1)
    assert pauses == []


@pytest.mark.parametrize("size", [0, 5, conditional_put.PART_BYTES])
def test_a_small_file_is_one_put(s3, size):
    files = ArrowEngine(storage_options=s3.options).files
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with files.open_output(f"{TABLE}/a.parquet") as output:
        for start in range(0, size, 1 << 20):
            output.write(content[start : start + (1 << 20)])
    assert s3.objects == {"bucket/table/a.parquet": content}


def test_conflicts_without_end_are_an_error(s3):
    files = ArrowEngine(storage_options=s3.options).files
    s3.conflicts = 1000
    with pytest.raises(StorageError, match="conflicting request"):
        files.put_if_absent(f"{TABLE}/x.json", b"")
    assert s3.objects == {}


def test_an_object_that_exists_is_no_conflict(s3, pauses):
    files = ArrowEngine(storage_options=s3.options).files
    s3.conflicts, s3.conflict_code = 1, "SomethingElse"
    assert files.put_if_absent(f"{TABLE}/x.json", b"1") is False
    assert files.put_if_absent(f"{TABLE}/x.json", b"1") is True
    assert files.put_if_absent(f"{TABLE}/x.json", b"2") is False
    assert pauses == []


def test_a_store_that_ignores_conditions_is_refused_before_the_first_commit(s3):
    s3.ignores_conditions = True
    for _ in range(2):
        with pytest.raises(PrerequisiteError, match="concurrent commits would replace each other"):
            write(s3, 1)
    assert checks(s3) == 3
    assert s3.objects == {}  # the check's key is deleted, and the data files are


def test_a_store_that_does_not_implement_conditions_is_refused(s3):
    s3.implements_conditions = False
    options = {**s3.options, "max_retries": "0"}
    with pytest.raises(PrerequisiteError, match=r"^s3://bucket: the store rejects .* Use another"):
        bayou.write(TABLE, pa.table({"id": [1]}), storage_options=options)
    assert checks(s3) == 1
    assert s3.objects == {}


def test_a_store_is_checked_once_and_nothing_of_the_check_stays(s3):
    write(s3, 1)
    write(s3, 2)
    assert (ids(s3), checks(s3)) == ([1, 2], 2)
    assert CHECK not in s3.names(LOG)


def test_where_deleting_is_not_allowed_one_key_stays_and_is_used_again(s3, monkeypatch):
    s3.refuses_deletes = True
    write(s3, 1)
    assert (checks(s3), CHECK in s3.names(LOG)) == (2, True)
    new_process(monkeypatch)
    write(s3, 2)
    assert (ids(s3), checks(s3)) == ([1, 2], 3)


def test_a_key_that_another_process_deletes_in_between_refuses_no_store(s3, monkeypatch):
    deletes = []

    def create(store, path, key, data, secrets=()):
        created = real(store, path, key, data)
        if key.endswith(CHECK) and not deletes:
            deletes.append(key)
            del s3.objects[f"bucket/{key}"]
        return created

    real = conditional_put.create_object
    monkeypatch.setattr(conditional_put, "create_object", create)
    write(s3, 1)
    assert (ids(s3), checks(s3)) == ([1], 3)


def test_files_outside_of_a_log_are_put_without_a_check(s3):
    files = ArrowEngine(storage_options=s3.options).files
    assert files.put_if_absent("s3://bucket/schemas/my_delta_log/0", b"x")
    assert checks(s3) == 0


def test_a_bucket_of_another_endpoint_is_another_bucket(s3):
    write(s3, 1)
    with scripted_s3(ScriptedS3(ignores_conditions=True)) as other:
        with pytest.raises(PrerequisiteError):
            write(other, 1)
        assert checks(other) == 3


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    found = conditional_put.ConditionalPuts()
    monkeypatch.setattr("bayou.engines.arrow.storage.object_store_files._CHECKS", found)
