"""Tables of other writers with Iceberg metadata: pyiceberg reads what Bayou reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayou
from support import conformance_sets
from support.iceberg_conformance import eligible_cases, steps, upgraded
from support.iceberg_tables import columns_for_pyiceberg, equal_rows, iceberg_table

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

ELIGIBLE = {("golden", 2): 75, ("golden", 3): 40, ("reference", 2): 60, ("reference", 3): 60}
"""Least number of tables of each set that the rules of each compatibility version allow."""


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", conformance_sets.SETS)
def test_all_eligible_tables_have_equal_rows_in_both_formats(
    name: str, version: int, tmp_path: Path
) -> None:
    differences: list[str] = []
    eligible = 0
    for case in eligible_cases(name):
        path = upgraded(case, tmp_path, version)
        if path is None:
            continue
        eligible += 1
        differences += [f"{case.name}: {each}" for each in _differences(path)]
    assert differences == []
    assert eligible >= ELIGIBLE[name, version]


def _differences(path: Path) -> list[str]:
    table = bayou.table(path)
    differences = _compared(path, "upgrade")
    for step in steps(table.version()):
        if not differences and step.apply(table):
            differences = _compared(path, step.name)
    return differences


def _compared(path: Path, step: str) -> list[str]:
    table = bayou.table(path)
    status = table.iceberg.status()
    assert status is not None
    if status.problems or status.lag:
        return [f"{step}: {status}"]
    if "variant" in str(table.schema()):  # pyiceberg 0.12 doesn't know the type
        return []
    rows = table.to_arrow()
    columns = columns_for_pyiceberg(rows)
    read = iceberg_table(path).scan().to_arrow().select(columns)
    return [] if equal_rows(read, rows.select(columns)) else [f"{step}: other rows"]
