"""HDFS through pyarrow: the engine's suite on a double, lost answers, connections."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.storage import hdfs_files
from bayou.engines.arrow.storage.hdfs_files import HdfsFiles, connect_hdfs
from bayou.errors import ArgumentError, FileMissingError, PrerequisiteError, StorageError
from bayou.kernel.engine import Engine
from bayou.testing import EngineSuite
from support.hdfs_double import hdfs_double

ROOT = "hdfs://namenode:8020"


@pytest.fixture
def connections(tmp_path, monkeypatch):
    """Connect every name node to a double; the authorities in the order of the connections."""
    authorities = []

    def connect(authority):
        authorities.append(authority)
        return hdfs_double(tmp_path)

    monkeypatch.setattr(hdfs_files, "connect_hdfs", connect)
    return authorities


class TestHdfs(EngineSuite):
    """Everything that an engine promises, on hdfs://."""

    @pytest.fixture
    def engine(self, connections) -> Engine:
        return ArrowEngine()

    @pytest.fixture
    def root(self) -> str:
        return f"{ROOT}/root"

    def test_only_empty_folders_are_deleted(self, engine: Engine, root: str) -> None:
        """Empty folders stay: pyarrow deletes a folder with the files in it."""
        engine.files.mkdirs(f"{root}/empty")
        engine.files.delete_empty_folders([f"{root}/empty"])
        listed = [s.path for s in engine.files.list_tree(root, lambda _: False)]
        assert listed == [f"{root}/empty/"]


def test_tables_are_written_appended_and_vacuumed(connections):
    path = f"{ROOT}/lake/events"
    for number in range(3):
        bayou.write(path, pa.table({"id": [number]}), mode="append")
    table = bayou.table(path)
    table.optimize()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2]
    assert set(connections) == {"namenode:8020"}


@pytest.mark.parametrize("authority", ["namenode:8020", "nameservice1", ""])
def test_the_authority_of_the_uri_is_the_connection(connections, authority):
    files = HdfsFiles()
    files.put(f"hdfs://{authority}/a/b", b"1")
    assert files.status(f"hdfs://{authority}/a/b").path == f"hdfs://{authority}/a/b"
    assert connections == [authority]


@pytest.mark.parametrize("path", ["hdfs:/a", "hdfs//nn/a", "hdfs://user:pw@nn/a", "hdfs://nn:x/a"])
def test_an_invalid_uri_is_refused(path):
    with pytest.raises(ArgumentError):
        ArrowEngine().files.resolve_path(path)


class _Unanswered(pafs.PyFileSystem):
    """A double whose rename takes place, or not, and then reports a lost connection."""

    def __init__(self, folder, *, renames):
        super().__init__(hdfs_double(folder).handler)
        self.renames = renames

    def move(self, src, dest):
        if self.renames:
            super().move(src, dest)
        raise OSError("connection reset")


def test_a_commit_whose_rename_took_place_without_an_answer_succeeds(tmp_path):
    (tmp_path / "log").mkdir()
    files = HdfsFiles(lambda _: _Unanswered(tmp_path, renames=True))
    assert files.put_if_absent(f"{ROOT}/log/0.json", b"1")
    assert files.put_if_absent(f"{ROOT}/log/0.json", b"2") is False
    assert [p.name for p in (tmp_path / "log").iterdir()] == ["0.json"]


def test_a_commit_whose_rename_failed_is_an_error_and_leaves_no_file(tmp_path):
    (tmp_path / "log").mkdir()
    files = HdfsFiles(lambda _: _Unanswered(tmp_path, renames=False))
    with pytest.raises(StorageError, match="connection reset"):
        files.put_if_absent(f"{ROOT}/log/0.json", b"1")
    assert list((tmp_path / "log").iterdir()) == []


class _Unreachable(pafs.PyFileSystem):
    """A double whose name node doesn't answer from the first rename on."""

    def move(self, src, dest):
        self.handler.is_reachable = False
        super().move(src, dest)


@pytest.mark.parametrize("method", ["put_if_absent", "put"])
def test_a_file_is_not_reported_as_written_if_the_name_node_does_not_answer(tmp_path, method):
    (tmp_path / "log").mkdir()
    double = hdfs_double(tmp_path)
    files = HdfsFiles(lambda _: _Unreachable(double.handler))
    with pytest.raises(StorageError, match="the name node doesn't answer"):
        getattr(files, method)(f"{ROOT}/log/0.json", b"1")
    assert not (tmp_path / "log" / "0.json").exists()


@pytest.mark.parametrize(
    "ask",
    [
        lambda files: files.status(f"{ROOT}/log/0.json"),
        lambda files: files.put_if_absent(f"{ROOT}/log/1.json", b""),
        lambda files: files.delete_files([f"{ROOT}/log/0.json"]),
        lambda files: list(files.list_tree(f"{ROOT}/log", lambda _: False)),
        lambda files: list(files.list_from(f"{ROOT}/log/0")),
    ],
)
def test_a_file_is_not_missing_because_the_name_node_does_not_answer(tmp_path, ask):
    double = hdfs_double(tmp_path)
    files = HdfsFiles(lambda _: double)
    files.put(f"{ROOT}/log/0.json", b"1")
    double.handler.is_reachable = False
    with pytest.raises(StorageError, match="the name node doesn't answer") as caught:
        ask(files)
    assert not isinstance(caught.value, FileMissingError)


def test_without_libhdfs_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    for _ in range(2):  # Arrow's second message is another one
        with pytest.raises(PrerequisiteError, match="Install Hadoop. Set JAVA_HOME"):
            connect_hdfs("namenode:8020")


def test_an_unreachable_name_node_is_a_storage_error(monkeypatch):
    def refuse(*_):
        raise OSError("HDFS connection failed\nmore")

    monkeypatch.setattr(pafs, "HadoopFileSystem", refuse)
    with pytest.raises(StorageError, match="hdfs://nn: can't connect: HDFS connection failed"):
        connect_hdfs("nn")
