"""Decryption is the file system client's business alone: it sees every byte of a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.errors import BayouError
from bayou.kernel import Engine, Table
from support.sealed_files import SealedFiles, seal_files


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
    engine = ArrowEngine(files=SealedFiles())
    assert rows(engine, tmp_path / "sealed") == rows(ArrowEngine(), table)
    assert rows(engine, tmp_path / "sealed", "day = 3 AND id < 5") == rows(
        ArrowEngine(), table, "day = 3 AND id < 5"
    )


def test_without_the_client_the_objects_say_nothing(table: Path, tmp_path: Path) -> None:
    seal_files(table, tmp_path / "sealed")
    with pytest.raises(BayouError):
        rows(ArrowEngine(), tmp_path / "sealed")
