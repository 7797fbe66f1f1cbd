"""Spark with Iceberg's runtime, and DuckDB, read tables of other writers with Iceberg metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from iceberg.conftest import READERS, IcebergReaders

import bayou
from support import conformance_sets
from support.iceberg_conformance import eligible_cases, steps, upgraded
from support.iceberg_tables import comparable_rows

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", conformance_sets.SETS)
def test_all_eligible_tables_are_read(
    readers: IcebergReaders, name: str, version: int, tmp_path: Path
) -> None:
    differences: list[str] = []
    for case in eligible_cases(name):
        path = upgraded(case, tmp_path, version)
        if path is None or "variant" in str(bayou.table(path).schema()):
            continue  # variants don't pass from Spark or DuckDB to Arrow
        for reader in READERS:
            differences += _differences(readers, reader, path, "upgrade")
        for step in steps():
            step.apply(bayou.table(path))
        if bayou.table(path).iceberg.status() is None:  # a restored version without the format
            continue
        differences += _differences(readers, "spark", path, "all steps")
    assert differences == []


def _differences(readers: IcebergReaders, reader: str, path: Path, step: str) -> list[str]:
    try:
        read = comparable_rows(readers.read(reader, path))
    except AssertionError as error:
        return [f"{path.name}, {reader}, {step}: {str(error)[:300]}"]
    expected = comparable_rows(bayou.table(path).to_arrow())
    return [] if read == expected else [f"{path.name}, {reader}, {step}: other rows"]
