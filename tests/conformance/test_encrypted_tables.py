"""Every kind of file of a table is read through a file system client that decrypts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.errors import BayouError
from bayou.kernel import Engine, Table
from support import conformance_sets
from support.sealed_files import SealedFiles, seal_files

TABLES = (
    "dv-partitioned-with-checkpoint",
    "dv-with-columnmapping",
    "log-replay-dv-key-cases",
    "multi-part-checkpoint",
    "snapshot-data3",
    "spark-variant-checkpoint",
    "v2-checkpoint-json",
    "v2-checkpoint-parquet",
)


@pytest.mark.conformance
@pytest.mark.parametrize("name", TABLES)
def test_an_encrypted_table_is_read_as_the_plain_one(name: str, tmp_path: Path) -> None:
    sets = conformance_sets.folder()
    assert sets is not None
    (log,) = sorted((sets / "golden" / name).rglob("_delta_log"))[:1]
    seal_files(log.parent, tmp_path / "sealed")
    expected = rows(ArrowEngine(), log.parent)
    assert len(expected) > 0
    assert rows(ArrowEngine(files=SealedFiles()), tmp_path / "sealed") == expected
    with pytest.raises(BayouError):
        rows(ArrowEngine(), tmp_path / "sealed")


def rows(engine: Engine, path: Path) -> list[str]:
    handle = TableHandle(engine, Table.for_path(engine, str(path)))
    return sorted(map(repr, handle.to_arrow().to_pylist()))
