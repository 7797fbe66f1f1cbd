import pyarrow as pa
import pytest

import bayou


@pytest.fixture
def table(tmp_path):
    """Path of a table of three partitions, a file each: day, id (0 to 29), name; day is last."""
    path = str(tmp_path / "a table")
    for n, day in enumerate(("2024-01-01", "2024-01-02", None)):
        ids = pa.array(range(n * 10, n * 10 + 10), pa.int64())
        rows = pa.table(
            {
                "id": ids,
                "name": pa.array([None if i % 7 == 0 else f"n{i}" for i in ids.to_pylist()]),
                "day": pa.array([day] * 10, pa.string()),
            }
        )
        bayou.write(path, rows, mode="append", partition_by=["day"])
    return path
