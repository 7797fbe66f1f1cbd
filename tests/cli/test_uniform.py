from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from bayou.cli.main import command_line
from support.iceberg_tables import ICEBERG, metadata_file, write

ROWS = {"id": pa.array([1, 2], pa.int64())}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "table", ROWS, configuration=ICEBERG)
    return tmp_path / "table"


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command_line(), [str(a) for a in arguments])
    return result.exit_code, result.output


def test_sync_says_that_nothing_is_to_do(path: Path) -> None:
    code, output = run("uniform", "sync", path)
    assert code == 0
    assert "Nothing to do" in output


def test_sync_repairs_metadata_and_verify_finds_none_missing(path: Path) -> None:
    (path / "metadata" / "version-hint.text").write_text("0")
    code, output = run("verify", path)
    assert code == 1
    assert "version-hint.text names 0" in output
    code, output = run("uniform", "sync", path, "--full", "--json")
    assert code == 0
    assert json.loads(output)["metadata_file"] == str(metadata_file(path))
    code, output = run("verify", path)
    assert code == 0
    assert "iceberg version" in output


def test_verify_tells_how_many_versions_are_missing(path: Path) -> None:
    for file in (path / "_delta_log").iterdir():
        if file.name == f"{0:020}.json":
            (path / "_delta_log" / f"{1:020}.json").write_text('{"commitInfo":{}}')
    code, output = run("verify", path)
    assert code == 0
    assert "1 version behind" in output


def test_sync_of_a_table_without_the_format_fails(tmp_path: Path) -> None:
    write(tmp_path / "plain", ROWS)
    code, output = run("uniform", "sync", tmp_path / "plain")
    assert code == 1
    assert "Iceberg metadata isn't enabled" in output


def test_register_writes_into_a_catalog_of_the_configuration(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    code, output = run("uniform", "register", path, "sales.orders", "--catalog", "shop")
    assert code == 0
    assert str(metadata_file(path)) in output
