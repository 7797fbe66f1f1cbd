"""Iceberg metadata of tables in an object store, and their registration in Iceberg catalogs."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import run
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import bayou
from bayou.errors import UniversalFormatError
from support.iceberg_rest_catalog import rest_catalog
from support.iceberg_tables import ICEBERG, ICEBERG_V3, sorted_rows

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "part": ["a", "b c"] * 10})


@pytest.fixture(params=[ICEBERG, ICEBERG_V3], ids=["version-2", "version-3"])
def configuration(request: Any) -> dict[str, str]:
    return dict(request.param)


@pytest.fixture
def properties(s3_server) -> dict[str, str]:
    """Properties of pyiceberg's file system."""
    options = s3_server.storage_options
    return {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "s3.endpoint": options["AWS_ENDPOINT_URL"],
        "s3.region": options["AWS_REGION"],
        "s3.access-key-id": options["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": options["AWS_SECRET_ACCESS_KEY"],
    }


def iceberg_rows(path: str, properties: dict[str, str]) -> list[dict[str, Any]]:
    table = StaticTable.from_metadata(path, properties)
    assert table.metadata.location == path
    return sorted_rows(table.scan().to_arrow())


def assert_equal(path: str, options: dict[str, str], properties: dict[str, str]) -> None:
    table = bayou.table(path, storage_options=options)
    status = table.iceberg.status()
    assert status is not None
    assert (status.problems, status.lag) == ((), 0)
    assert iceberg_rows(path, properties) == sorted_rows(table.to_arrow())


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_history_is_read_by_path(s3_server, bucket, properties, configuration, scheme) -> None:
    path, options = f"{scheme}://{bucket}/lake/orders", s3_server.storage_options
    bayou.write(
        path, ROWS, partition_by=["part"], configuration=configuration, storage_options=options
    )
    path = bayou.table(path, storage_options=options).table_uri
    assert_equal(path, options, properties)
    table = bayou.table(path, storage_options=options)
    bayou.write(path, ROWS, storage_options=options)
    table.delete("id % 5 = 0")
    assert_equal(path, options, properties)
    table.update({"part": "'new'"}, predicate="id = 7")
    table.optimize()
    assert_equal(path, options, properties)
    table.restore(1)
    assert_equal(path, options, properties)
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert_equal(path, options, properties)


def test_concurrent_writers_end_with_both_formats_equal(s3_server, bucket, properties) -> None:
    path, options = f"s3://{bucket}/orders", s3_server.storage_options
    bayou.write(path, ROWS, configuration=ICEBERG, storage_options=options)

    def append(_: int) -> None:
        for _ in range(3):
            bayou.write(path, ROWS, storage_options=options)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    assert_equal(path, options, properties)
    assert bayou.table(path, storage_options=options).count() == 13 * ROWS.num_rows


def test_the_command_repairs_and_verifies_a_table(
    s3_server, bucket, properties, environment
) -> None:
    path, options = f"s3://{bucket}/orders", s3_server.storage_options
    bayou.write(path, ROWS, configuration=ICEBERG, storage_options=options)
    program = [sys.executable, "-m", "bayou.cli"]
    for command in (["uniform", "sync", path, "--full"], ["verify", path]):
        done = run(
            [*program, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert_equal(path, options, properties)


@pytest.mark.parametrize("kind", ["sql", "rest"])
def test_a_registered_table_is_read_through_a_catalog(
    s3_server, bucket, properties, configuration, tmp_path: Path, kind: str
) -> None:
    path, options = f"s3://{bucket}/orders", s3_server.storage_options
    bayou.write(path, ROWS, configuration=configuration, storage_options=options)
    handle = bayou.table(path, storage_options=options)
    with ExitStack() as stack:
        if kind == "rest":
            catalog = stack.enter_context(rest_catalog(tmp_path, **properties))
        else:
            catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **properties}
        for change in (None, lambda: bayou.write(path, ROWS, storage_options=options)):
            if change is not None:
                change()
            handle.iceberg.register("sales.orders", None, catalog)
            handle.iceberg.register("sales.orders", None, catalog)  # changes nothing
            registered = load_catalog("default", **catalog).load_table("sales.orders")
            assert sorted_rows(registered.scan().to_arrow()) == sorted_rows(handle.to_arrow())
        other = f"s3://{bucket}/other"
        bayou.write(other, ROWS, configuration=configuration, storage_options=options)
        with pytest.raises(UniversalFormatError, match="another table named 'sales.orders'"):
            bayou.table(other, storage_options=options).iceberg.register(
                "sales.orders", None, catalog
            )
