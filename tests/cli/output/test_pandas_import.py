"""Commands that print rows don't import pandas."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import bayou


@pytest.mark.process
@pytest.mark.parametrize("output", ["tsv", "csv", "jsonl", "table"])
@pytest.mark.parametrize("command", ["read", "history"])
def test_a_command_prints_rows_without_pandas(tmp_path, command, output):
    path = str(tmp_path / "table")
    bayou.write(path, pa.table({"id": [1, 2], "name": ["a", None]}))
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from bayou.cli.main import command_line\n"
        "app = command_line()\n"
        f"result = CliRunner().invoke(app, [{command!r}, {path!r}, '--output', {output!r}])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas\n"
        "assert len(pandas.DataFrame({'x': [1]})) == 1\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
