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


def test_ctrl_c_while_modules_are_imported_prints_no_traceback():
    """The module of a command sends the signal of Ctrl-C to its process."""
    program = (
        "import signal, sys, types\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupting(types.ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "sys.modules['bayou.cli.commands.run'] = Interrupting('run')\n"
        "from bayou.cli.script import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "pipeline.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
