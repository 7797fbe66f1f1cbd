"""The program in docs/guide/delta-table.md runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bayou

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "delta-table.md"

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_the_examples_are_one_program_that_runs(tmp_path: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    environment = {**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "num_affected_rows" in done.stdout
    copied = bayou.table(str(tmp_path / "lake" / "items_copy"))
    assert [c["operation"] for c in copied.history()] == ["DELETE", "CLONE"]
