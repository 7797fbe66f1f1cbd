from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.kernel.engine import FIELD_ID_KEY, FileSplit
from bayou.kernel.expressions.model import Predicate, col


@pytest.fixture
def file(tmp_path: Path) -> FileSplit:
    numbers = list(range(40))
    table = pa.table(
        {
            "i": pa.array(numbers, pa.int32()),
            "f": [math.nan if i == 25 else float(i) for i in numbers],
            "s": [{"x": i} for i in numbers],
            "n": [None if i >= 30 else i for i in numbers],
        }
    )
    pq.write_table(table, tmp_path / "file.parquet", row_group_size=10)
    return FileSplit(
        path=f"{tmp_path}/file.parquet", size=(tmp_path / "file.parquet").stat().st_size
    )


def test_row_groups_are_selected_by_a_column_that_is_requested_as_dictionary(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"s": [f"s{i:02d}" for i in range(40)]}), path, row_group_size=10)
    split = FileSplit(path=str(path), size=path.stat().st_size)
    wanted = pa.schema([("s", pa.dictionary(pa.int32(), pa.string()))])
    batches = ArrowEngine().parquet.read_parquet_files([split], wanted, col("s") == "s15")
    rows = [s for batch in batches for s in batch.column("s").to_pylist()]
    assert rows == [f"s{i}" for i in range(10, 20)]


WANTED = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.struct([("x", pa.int64())])),
        ("n", pa.int64()),
    ]
)


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        (col("i") == 15, range(10, 20)),
        (col("i") >= 15, range(10, 40)),
        (col("s", "x") < 10, range(10)),
        (col("n").is_null(), range(30, 40)),
        (col("i") == 1000, range(0)),
        (col("f") > 1000.0, range(40)),  # NaN is above all, and the footer doesn't know of it
        (col("f") < 5.0, range(10)),
        (col("gone") == 1, range(40)),
    ],
    ids=str,
)
def test_only_row_groups_that_may_match_are_read(
    file: FileSplit, predicate: Predicate, rows: range
) -> None:
    batches = ArrowEngine().parquet.read_parquet_files([file], WANTED, predicate)
    assert [i for batch in batches for i in batch.column("i").to_pylist()] == list(rows)


def test_a_column_that_was_renamed_is_judged_by_its_field_id(tmp_path: Path) -> None:
    def field(name: str, field_id: bytes) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={FIELD_ID_KEY: field_id})

    schema = pa.schema([field("a", b"1"), field("b", b"2")])
    path = f"{tmp_path}/file.parquet"
    pq.write_table(pa.table([range(20), range(100, 120)], schema=schema), path, row_group_size=10)
    wanted = pa.schema([field("b", b"1")])
    batches = ArrowEngine().parquet.read_parquet_files(
        [FileSplit(path=path, size=Path(path).stat().st_size)], wanted, col("b") < 5
    )
    assert [i for batch in batches for i in batch.column(0).to_pylist()] == list(range(10))
