"""What `make` says where Python isn't as needed: one sentence, whatever Python itself would say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "environment.sh"
NAMES = ("python3", "python3.11", "python3.12", "python3.13")
STUB = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "Python {version}"; exit 0; fi
case "$*" in *version_info*) echo "SyntaxError: old" >&2; exit 1;; esac
exit 3
"""


@pytest.fixture
def old_python(tmp_path):
    """A folder for the front of the PATH, in which every Python reports an old version."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NAMES:
        make_stub(folder / name, "3.9.18")
    return folder


def make_stub(file, version):
    file.write_text(STUB.format(version=version))
    file.chmod(0o755)


def set_up(tmp_path, front, **variables):
    return subprocess.run(
        ["bash", SCRIPT, tmp_path / "venv", tmp_path / "constraints.txt", "anything"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{front}:{os.environ['PATH']}", **variables},
        check=False,
    )


def only_sentence(run):
    assert (run.returncode, run.stdout) == (1, "")
    [line] = run.stderr.splitlines()
    return line


@pytest.mark.process
def test_an_old_python_is_one_sentence_with_what_to_do(tmp_path, old_python):
    said = only_sentence(set_up(tmp_path, old_python))
    assert "Python 3.11 or newer is needed, and 'python3' is Python 3.9.18" in said
    assert "make PYTHON=/path/to/python3.11" in said
    assert not (tmp_path / "venv").exists()


@pytest.mark.process
def test_a_python_that_was_named_is_the_one_that_counts(tmp_path, old_python):
    named = old_python / "mine"
    make_stub(named, "3.10.2")
    assert f"'{named}' is Python 3.10.2" in only_sentence(
        set_up(tmp_path, "/usr/bin", PYTHON=str(named))
    )


@pytest.mark.process
def test_a_python_that_is_not_there_is_one_sentence(tmp_path):
    said = only_sentence(set_up(tmp_path, "/usr/bin", PYTHON="/no/such/python"))
    assert "there is no '/no/such/python'" in said


@pytest.mark.process
def test_an_environment_of_an_old_python_is_one_sentence(tmp_path):
    made = tmp_path / "venv" / "bin"
    made.mkdir(parents=True)
    (made / "python").write_text(
        '#!/bin/sh\ncase "$*" in *version_info*) exit 1;; esac\necho Python 3.10.2\n'
    )
    (made / "python").chmod(0o755)
    said = only_sentence(set_up(tmp_path, "/usr/bin"))
    assert "is of Python 3.10.2, 3.11 or newer is needed: remove" in said
