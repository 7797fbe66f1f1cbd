"""DuckDB, Polars and pyarrow get the rows of `to_arrow` from each table of other writers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import bayou
from bayou.errors import BayouError
from support import conformance_sets


def tables() -> Iterator[Any]:
    """Yield the folder of each table of the conformance sets."""
    folder = conformance_sets.folder()
    if folder is None:
        return
    for name in conformance_sets.SETS:
        for log in sorted((folder / name).rglob("_delta_log")):
            yield pytest.param(log.parent, id=str(log.parent.relative_to(folder)))


pytestmark = [pytest.mark.conformance, pytest.mark.slow]


@pytest.mark.parametrize("path", list(tables()))
def test_every_engine_gets_the_rows_of_to_arrow(path: Path) -> None:
    try:
        rows = bayou.table(path).to_arrow()
    except BayouError as error:
        with pytest.raises(type(error)):
            bayou.table(path).to_pyarrow_dataset().to_table()
        return
    dataset = bayou.table(path).to_pyarrow_dataset()
    assert dataset.count_rows() == rows.num_rows
    read = dataset.to_table()
    assert read.schema.equals(rows.schema)
    assert as_frame(read).equals(as_frame(rows))  # in Polars, NaN equals NaN
    assert bayou.scan_polars(path).collect().equals(as_frame(rows))
    assert as_duckdb(path) == as_duckdb(rows)


def as_frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def as_duckdb(source: Any) -> Any:
    """Return what DuckDB reads, or its error for a type that it doesn't have."""
    try:
        return repr(bayou.sql("FROM t", t=source).to_arrow_table().to_pylist())
    except (duckdb.Error, OverflowError) as error:
        return type(error)
