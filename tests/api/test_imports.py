"""Which modules a small read imports: the start of a process is most of its time."""

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.process

SLOW = {
    "duckdb",
    "pandas",
    "polars",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "sqlglot",
    "ssl",
}
READ = """
import sys
import bayou
bayou.table(sys.argv[1]).to_arrow()
print(*sys.modules)
"""


def test_a_small_read_imports_no_slow_module(tmp_path):
    path = str(tmp_path / "table")
    bayou.write(path, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    output = subprocess.run(
        [sys.executable, "-c", READ, path], capture_output=True, text=True, check=True
    )
    assert SLOW.isdisjoint(output.stdout.split())


WORK = """
import sys
import pyarrow as pa
import bayou
path = sys.argv[1]
rows = bayou.table(path).to_arrow()
changed = bayou.table(path)
print(len(changed.to_arrow(filter="id > 1 AND day >= DATE '2024-01-02'")))
print(len(changed.to_arrow(filter="price > 1.5 OR at < TIMESTAMP '2024-01-01 00:00:00'")))
print(changed.snapshot().files(filter="part = 'x'").num_rows, changed.snapshot().count())
changed.delete("id = 2")
bayou.write(path, rows)
print(sum(batch.num_rows for batch in changed.changes(0).to_batches()))
print("pandas" in sys.modules)
"""


def test_reads_with_filters_and_changes_of_a_table_do_not_import_pandas(tmp_path):
    path = str(tmp_path / "table")
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "part": ["x", "x", "y"],
            "day": [dt.date(2024, 1, n) for n in (1, 2, 3)],
            "at": [dt.datetime(2024, 1, n, tzinfo=dt.UTC) for n in (1, 2, 3)],
            "price": [Decimal("1.25"), Decimal("2.50"), None],
        }
    )
    feed = {"delta.enableChangeDataFeed": "true"}
    bayou.write(path, rows, partition_by=["part"], configuration=feed)
    output = subprocess.run(
        [sys.executable, "-c", WORK, path], capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == ["2", "1", "1", "3", "7", "False"]
