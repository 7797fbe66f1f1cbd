"""The script `bayou` without the packages of its extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


@pytest.mark.parametrize("package", ["typer", "rich", "pydantic"])
def test_a_missing_package_is_reported_with_the_extra_that_has_it(package):
    block = f"import sys; sys.modules[{package!r}] = None"
    program = f"{block}\nfrom bayou.cli.script import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, "history", "lake/events", "--limit", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"error: bayou: the Python package {package!r} isn't installed. Install the command line "
        "with: pip install 'bayou[cli]'.\n"
    )


def test_the_script_runs_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "bayou.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("bayou 0.")
