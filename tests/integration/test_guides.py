"""The programs of the guides run; each page's Python blocks are one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import bayou

GUIDES = Path(__file__).parents[2] / "docs" / "guide"


def output_of(page: str, folder: Path) -> str:
    program = "\n".join(re.findall(r"```python\n(.*?)```", (GUIDES / page).read_text(), re.DOTALL))
    environment = {**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_the_program_of_the_delta_table_guide_runs(tmp_path: Path) -> None:
    assert "num_affected_rows" in output_of("delta-table.md", tmp_path)
    copied = bayou.table(str(tmp_path / "lake" / "items_copy"))
    assert [c["operation"] for c in copied.history()] == ["DELETE", "CLONE"]


@pytest.mark.spark
@pytest.mark.slow
def test_the_program_of_the_scaling_guide_runs(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    bayou.write(str(tmp_path / "lake" / "events"), rows)
    output = output_of("scaling.md", tmp_path)
    assert "jobs: http://" in output
    assert "\n89\n" in output


@pytest.mark.process
def test_the_program_of_the_guide_to_queries_without_spark_runs(tmp_path: Path) -> None:
    output = output_of("sql-without-spark.md", tmp_path)
    assert "[('Ada', 40.8), ('Bo', 42.5), ('Cy', 39.2)]" in output
    assert "[(7,)]" in output
    assert "[(100,)]" in output
    assert "\n100\n1\n" in output
