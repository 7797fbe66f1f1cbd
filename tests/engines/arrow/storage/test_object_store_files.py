from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

import bayou
from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.arrow.storage import object_store_files
from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles
from bayou.errors import ArgumentError, FileMissingError, StorageError
from bayou.kernel.engine import ByteRange


def _view_of_a_buffer(data: bytes) -> memoryview:
    """Of signed bytes, as all that Arrow's streams give."""
    return memoryview(pa.py_buffer(data))


@pytest.fixture
def files() -> ObjectStoreFiles:
    return ObjectStoreFiles(stores={"s3://bucket": MemoryStore()})


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("s3://bucket/a/", "s3://bucket/a"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("S3A://bucket/a", "s3://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        ("gcs://bucket/a", "gs://bucket/a"),
        (
            "abfss://box@account.dfs.core.windows.net/a/",
            "abfss://box@account.dfs.core.windows.net/a",
        ),
    ],
)
def test_paths_are_resolved_to_one_name_for_each_store(path: str, resolved: str) -> None:
    assert ObjectStoreFiles().resolve_path(path) == resolved


def test_s3a_is_s3(files: ObjectStoreFiles) -> None:
    files.put("s3a://bucket/folder/a", b"1")
    assert files.put_if_absent("s3://bucket/folder/a", b"2") is False
    assert list(files.read_files([ByteRange(path="s3a://bucket/folder/a")])) == [b"1"]
    listed = [s.path for s in files.list_from("s3a://bucket/folder/")]
    assert listed == ["s3://bucket/folder/a"]


def test_the_root_of_a_bucket_can_hold_files(files: ObjectStoreFiles) -> None:
    files.put("s3://bucket/a", b"1")
    files.put("s3://bucket/b", b"1")
    assert [s.path for s in files.list_from("s3://bucket/b")] == ["s3://bucket/b"]


@pytest.mark.parametrize("key", ["a/../b", "../b", "a/./b", "line\nbreak/b", "\x7f"])
def test_a_key_that_cannot_be_reached_is_an_error(files: ObjectStoreFiles, key: str) -> None:
    with pytest.raises(ArgumentError, match="the key contains a control character, or a segment"):
        files.put(f"s3://bucket/{key}", b"1")


def test_names_are_listed_from_a_dot_on(files: ObjectStoreFiles) -> None:
    for name in ("-", ".tmp", "a"):
        files.put(f"s3://bucket/log/{name}", b"1")
    listed = [s.path for s in files.list_from("s3://bucket/log/.")]
    assert listed == ["s3://bucket/log/.tmp", "s3://bucket/log/a"]


@pytest.mark.parametrize("path", ["s3://bucket//t", "s3://bucket/t//", "s3://bucket///t"])
def test_a_table_has_one_name_however_many_slashes_its_path_has(
    files: ObjectStoreFiles, path: str
) -> None:
    assert files.resolve_path(path) == "s3://bucket/t"
    files.put(f"{path}/a", b"1")
    assert [s.path for s in files.list_from(f"{path}/")] == ["s3://bucket/t/a"]
    assert [s.path for s in files.list_tree(path, lambda _: False)] == ["s3://bucket/t/a"]


def _lists(monkeypatch: pytest.MonkeyPatch, *keys: str, size: int = 0) -> None:
    now = datetime.now(UTC)
    found = [{"path": key, "size": size, "last_modified": now} for key in keys]
    monkeypatch.setattr(object_store_files.obstore, "list", lambda *_, **__: iter([found]))


@pytest.mark.parametrize(
    "keys",
    [
        ("log/a", "log/a"),
        ("log/a", *("log/b", "log/c", "log/d") * 9),
        ("log/a", "logs/b"),
        ("a",),
        ("other/x",),
    ],
)
def test_a_listing_that_goes_in_circles_or_elsewhere_is_an_error(
    files: ObjectStoreFiles, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    _lists(monkeypatch, *keys)
    with pytest.raises(
        StorageError, match="s3://bucket/log: can't list: the store returned an invalid listing"
    ):
        list(files.list_from("s3://bucket/log/"))
    with pytest.raises(
        StorageError, match="s3://bucket/log: can't list: the store returned an invalid listing"
    ):
        list(files.list_tree("s3://bucket/log", lambda _: False))


def test_a_listing_that_is_not_sorted_is_an_error(
    files: ObjectStoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lists(monkeypatch, "log/a/x", "log/b", "log/a", "log/c", size=1)
    with pytest.raises(
        StorageError,
        match="s3://bucket/log: can't list: the store's listing isn't sorted: it has a",
    ):
        list(files.list_from("s3://bucket/log/"))


def test_a_marker_of_a_folder_may_be_listed_after_longer_names(
    files: ObjectStoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lists(monkeypatch, "log/a", "log/a.json", "log/a")  # `a.json` sorts before `a/`
    listed = [s.path for s in files.list_from("s3://bucket/log/a")]
    assert "s3://bucket/log/a.json" in listed


@pytest.mark.parametrize(
    "asked",
    [
        ByteRange(path="s3://bucket/a", length=8),
        ByteRange(path="s3://bucket/a", offset=2, length=8),
    ],
)
def test_a_response_with_less_than_the_requested_bytes_is_an_error(
    files: ObjectStoreFiles, monkeypatch: pytest.MonkeyPatch, asked: ByteRange
) -> None:
    files.put("s3://bucket/a", b"0123456789")
    whole = object_store_files.obstore.get_range
    monkeypatch.setattr(
        object_store_files.obstore,
        "get_range",
        lambda store, key, *, start, length: whole(store, key, start=start, length=length - 1),
    )
    with pytest.raises(StorageError, match="s3://bucket/a: can't read: the store returned 7 of 8"):
        list(files.read_files([asked]))


def test_what_stands_for_a_folder_is_no_file(
    files: ObjectStoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    # obstore gives `t/` and `t/p=1/` without their slashes.
    _lists(monkeypatch, "t", "t/a", "t/p=1", "t/p=1/b", "t/p=2", "t/p=22/c")
    listed = [s.path for s in files.list_tree("s3://bucket/t", lambda _: False)]
    assert listed == [f"s3://bucket/t/{name}" for name in ("a", "p=1/b", "p=2", "p=22/c")]


@pytest.mark.parametrize(
    "path",
    [
        "s3://AKIAKEY:12/hunter2@bucket/t",
        "s3://AKIAKEY:ab/hunter2@bucket/t",
        "s3://hunter2@bucket/t",
        "s3://AKIAKEY:hunter2@bucket/t",
        "s3n://AKIAKEY:12/hunter2@bucket/t",
        "s3:/AKIAKEY:12/hunter2@bucket/t",
        "abfss://key:hunter2@account.dfs.core.windows.net/t",
        "s3://bucket:9000/t",
        "s3://buck%65t/t",
        "s3://bucket?x/t",
        "s3://bucket#x/t",
        "s3://[::1]/t",
    ],
)
def test_what_is_no_bucket_is_an_error_that_shows_no_credentials(path: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        ArrowFiles().put(path, b"1")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "path", ["s3:/bucket/t", "s3a:bucket/t", "GS:/bucket/t", "dbfs:/mnt/t", "hdfs:/t", "s3-x://b/t"]
)
def test_a_uri_with_a_slash_missing_is_no_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="scheme|mistyped URI"):
        bayou.write(path, pa.table({"a": [1]}))
    assert list(tmp_path.iterdir()) == []


def test_a_local_folder_may_have_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("a:b/t", "./s3:/t", f"file:{tmp_path}/u"):
        bayou.write(path, pa.table({"a": [1]}))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a:b", "s3:", "u"]


@pytest.mark.parametrize(
    ("root", "name", "same"),
    [
        ("s3://bucket", "AWS_BUCKET", "bucket"),
        ("s3://bucket", "aws_bucket_name", "bucket"),
        ("s3a://bucket", "bucket", "bucket"),
        ("gs://bucket", "GOOGLE_BUCKET", "bucket"),
        ("az://box", "azure_container_name", "box"),
        ("abfss://box@account.dfs.core.windows.net", "container_name", "box"),
        ("abfss://box@account.dfs.core.windows.net", "azure_storage_account_name", "account"),
        ("abfss://box@account.dfs.core.windows.net", "account_name", "account"),
    ],
)
def test_an_option_does_not_lead_to_another_bucket_than_the_path(
    root: str, name: str, same: str
) -> None:
    options = {name: "another", "retry_timeout": "0s", "azure_storage_account_key": "a2V5"}
    with pytest.raises(ArgumentError, match=r"is 'another', but the bucket or account"):
        ObjectStoreFiles(options).open_input(f"{root}/t", 1)
    if not root.startswith(("gs", "az")):
        assert ObjectStoreFiles({**options, name: same}).open_input(f"{root}/t", 1)


def test_a_large_object_is_written_and_read_in_parts(files: ObjectStoreFiles) -> None:
    data = bytes(range(256)) * (20 << 12)
    with files.open_output("s3://bucket/large") as output:
        for first in range(0, len(data), 3_000_000):
            output.write(data[first : first + 3_000_000])
    assert files.status("s3://bucket/large").size == len(data)
    with files.open_input("s3://bucket/large", len(data)) as file:
        assert file.read() == data
        file.seek(5)
        assert file.read(10 << 20) == data[5 : 5 + (10 << 20)]


@pytest.mark.parametrize("kind", [bytes, memoryview, pa.py_buffer, _view_of_a_buffer])
def test_bytes_are_written_in_whatever_buffer_they_come(
    files: ObjectStoreFiles, kind: Callable[[bytes], Any]
) -> None:
    with files.open_output("s3://bucket/a") as output:
        assert output.write(kind(b"12\xff")) == 3
        assert output.tell() == 3
    assert list(files.read_files([ByteRange(path="s3://bucket/a")])) == [b"12\xff"]


def test_stopping_early_ends_the_reading(files: ObjectStoreFiles) -> None:
    files.put("s3://bucket/a", b"1")
    asked = 0

    def ranges():
        nonlocal asked
        for _ in range(10_000):
            asked += 1
            yield ByteRange(path="s3://bucket/a")

    contents = files.read_files(ranges())
    assert next(contents) == b"1"
    contents.close()
    assert asked < 100


def test_a_path_without_a_bucket_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="s3://bucket/key"):
        ObjectStoreFiles().status("s3:///a")


def test_an_unknown_option_is_an_error_that_suggests_the_right_one() -> None:
    files = ObjectStoreFiles({"AWS_ENDPOINT_ULR": "http://localhost"})
    with pytest.raises(ArgumentError, match="aws_endpoint_url"):
        files.status("s3://bucket/a")


def test_locking_by_a_table_is_refused_because_conditional_puts_do_not_see_its_locks() -> None:
    files = ObjectStoreFiles({"AWS_S3_LOCKING_PROVIDER": "dynamodb"})
    with pytest.raises(ArgumentError, match="AWS_S3_LOCKING_PROVIDER"):
        files.put("s3://bucket/a", b"1")


def test_errors_and_reprs_hold_no_secrets() -> None:
    options = {
        "AWS_ACCESS_KEY_ID": "the-key-id",
        "AWS_SECRET_ACCESS_KEY": "the-secret",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "aws_region": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        "AZURE_STORAGE_ACCOUNT_KEY": "for another service",
        "max_retries": "0",
        "retry_timeout": "1s",
        "timeout": "1s",
    }
    files = ObjectStoreFiles(options)
    with pytest.raises(StorageError) as caught:
        files.status("s3://bucket/a")
    error: BaseException | None = caught.value
    while error is not None:
        assert "the-secret" not in f"{error} {error!r}"
        assert "the-key-id" not in f"{error} {error!r}"
        error = error.__cause__
    assert "the-secret" not in repr(files)


@pytest.mark.parametrize("option", [{"max_retries": "many"}, {"retry_timeout": "soon"}])
def test_an_option_with_an_unusable_value_is_an_error(option: dict[str, str]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(option))):
        ObjectStoreFiles(option).status("s3://bucket/a")


def test_a_scheme_without_an_engine_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ArgumentError, match="s3a://"):
        ArrowFiles().resolve_path("viewfs://name/table")


def test_local_and_remote_files_can_be_read_in_one_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"local")
    files = ArrowFiles()
    files.put(f"{tmp_path}/b", b"too")
    ranges = [ByteRange(path=f"{tmp_path}/a"), ByteRange(path=f"file://{tmp_path}/b")]
    assert list(files.read_files(ranges)) == [b"local", b"too"]
    files.delete_files(iter([f"{tmp_path}/a", f"{tmp_path}/b"]))
    with pytest.raises(FileMissingError):
        files.status(f"{tmp_path}/a")
