"""Which modules a small read imports: the start of a process is most of its time."""

import subprocess
import sys

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
