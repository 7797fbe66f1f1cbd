from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import bayou
from bayou.errors import ArgumentError, CatalogError, UniversalFormatError
from support.iceberg_tables import ICEBERG, manifests, metadata_file, sorted_rows, write

ROWS = {"id": pa.array([1, 2], pa.int64())}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "table", ROWS, configuration=ICEBERG)
    return tmp_path / "table"


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}


def test_a_registered_table_is_read_through_the_catalog(
    path: Path, catalog: dict[str, str]
) -> None:
    location = bayou.table(path).iceberg.register("sales.orders", None, catalog)
    assert location == f"file://{metadata_file(path)}"
    table = load_catalog("default", **catalog).load_table("sales.orders")
    assert sorted_rows(table.scan().to_arrow()) == [{"id": 1}, {"id": 2}]


def test_a_repeated_registration_shows_newer_versions(path: Path, catalog: dict[str, str]) -> None:
    handle = bayou.table(path)
    handle.iceberg.register("sales.orders", None, catalog)
    write(path, ROWS)
    handle.iceberg.register("sales.orders", None, catalog)
    handle.iceberg.register("sales.orders", None, catalog)
    table = load_catalog("default", **catalog).load_table("sales.orders")
    assert table.scan().count() == 4


def test_another_table_keeps_its_name_in_the_catalog(
    path: Path, tmp_path: Path, catalog: dict[str, str]
) -> None:
    write(tmp_path / "other", ROWS, configuration=ICEBERG)
    bayou.table(path).iceberg.register("sales.orders", None, catalog)
    with pytest.raises(UniversalFormatError, match="another table named 'sales.orders'"):
        bayou.table(tmp_path / "other").iceberg.register("sales.orders", None, catalog)


def test_bad_arguments_are_named(path: Path, tmp_path: Path) -> None:
    handle = bayou.table(path)
    with pytest.raises(ArgumentError, match="has no namespace"):
        handle.iceberg.register("orders")
    with pytest.raises(CatalogError, match="catalog nowhere failed"):
        handle.iceberg.register("sales.orders", "nowhere")
    write(tmp_path / "plain", ROWS)
    with pytest.raises(UniversalFormatError, match="isn't enabled"):
        bayou.table(tmp_path / "plain").iceberg.register("a.b")


def test_the_status_names_differences(path: Path) -> None:
    handle = bayou.table(path)
    status = handle.iceberg.status()
    assert status is not None
    assert (status.version, status.converted_version, status.lag, status.files) == (0, 0, 0, 1)
    assert status.problems == ()
    write(path, ROWS)
    list_ = Path(manifests(path)[0].manifest_path.removeprefix("file://"))
    newest = metadata_file(path)
    (path / "metadata" / "version-hint.text").write_text("1")
    text = newest.read_text()
    newest.write_text(text.replace('"base-delta-version"', '"other"'))
    status = handle.iceberg.status()
    assert status is not None
    assert status.problems == ("version-hint.text names 1, but the newest metadata file is 2",)
    list_.unlink()
    with pytest.raises(UniversalFormatError, match="can't be read"):
        handle.iceberg.status()
    assert handle.iceberg.sync(full=True).converted
    status = handle.iceberg.status()
    assert status is not None
    assert status.problems == ()


def test_a_table_without_the_format_has_no_status(tmp_path: Path) -> None:
    write(tmp_path / "plain", ROWS)
    assert bayou.table(tmp_path / "plain").iceberg.status() is None
    assert bayou.table(tmp_path / "plain").iceberg.lag() is None
