"""Spark with Iceberg's runtime, and DuckDB, read tables of other writers with Iceberg metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from iceberg.conftest import READERS, IcebergReaders

import bayou
from support import conformance_sets
from support.iceberg_conformance import eligible_cases, steps, upgraded
from support.iceberg_tables import equal_rows, rows_from_json, rows_with_variants

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", conformance_sets.SETS)
def test_all_eligible_tables_are_read(
    readers: IcebergReaders, name: str, version: int, tmp_path: Path
) -> None:
    differences: list[str] = []
    for case in eligible_cases(name):
        path = upgraded(case, tmp_path, version)
        if path is None:
            continue
        for reader in READERS:
            differences += _differences(readers, reader, path, "upgrade")
        for step in steps(bayou.table(path).version()):
            step.apply(bayou.table(path))
        differences += _differences(readers, "spark", path, "all steps")
    assert differences == []


def _differences(readers: IcebergReaders, reader: str, path: Path, step: str) -> list[str]:
    table = bayou.table(path)
    variants = [field.name for field in table.schema() if "variant" in str(field.data_type)]
    if variants and reader == "duckdb":
        return []  # it reads a variant without Parquet's type VARIANT as metadata and value
    try:
        rows = readers.read(reader, path)
    except AssertionError as error:
        return [f"{path.name}, {reader}, {step}: {str(error)[:300]}"]
    if variants:
        equal = rows_from_json(rows, variants) == rows_with_variants(table.to_arrow())
    else:
        equal = equal_rows(rows, table.to_arrow())
    return [] if equal else [f"{path.name}, {reader}, {step}: other rows"]
