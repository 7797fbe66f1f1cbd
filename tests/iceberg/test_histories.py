"""Spark with Iceberg's runtime, and DuckDB, read tables with random histories."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iceberg.conftest import READERS, IcebergReaders

import bayou
from support.examples import examples
from support.iceberg_histories import History, delta_rows_where, histories, run
from support.iceberg_tables import comparable_rows, iceberg_table


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories(filters=1), data=st.data())
def test_random_histories_are_read(
    readers: IcebergReaders, history: History, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        run(path, history, data)
        for reader in READERS:
            (condition,) = history.filters
            where = condition.replace("'2024-01-01'", "DATE'2024-01-01'")
            for read, expected in (
                (readers.read(reader, path), bayou.table(path).to_arrow()),
                (readers.read(reader, path, where=where), delta_rows_where(path, condition)),
            ):
                assert comparable_rows(read) == comparable_rows(expected), reader
        snapshot = iceberg_table(path).metadata.snapshots[0]
        read = readers.read("spark", path, snapshot=snapshot.snapshot_id)
        version = int(snapshot.summary["delta-version"])
        assert comparable_rows(read) == comparable_rows(
            bayou.table(path).snapshot(version).to_arrow()
        )
