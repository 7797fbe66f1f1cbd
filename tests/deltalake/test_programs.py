"""Programs written for deltalake run with other imports, and are valid for deltalake."""

import re
import sys
from pathlib import Path

import pytest

from support.deltalake_snippets import SETUP, SNIPPETS

FOLDER = Path(__file__).parent
FILES = sorted([*FOLDER.glob("programs/*.py"), *FOLDER.glob("more_programs/*.py")])
PROGRAMS = {f"{file.parent.name}/{file.stem}": file.read_text() for file in FILES} | {
    name: SETUP + snippet for name, snippet in SNIPPETS.items()
}
_IMPORT = re.compile(r"^from deltalake", re.MULTILINE)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def run(program, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "lake").mkdir()
    monkeypatch.setattr(sys, "argv", ["program", str(folder / "lake")])
    exec(compile(program, "<program>", "exec"), {})


def test_there_are_116_programs():
    assert len(FILES) == 76
    assert len(PROGRAMS) == 116
    assert all(_IMPORT.search(program) for program in PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_valid_for_deltalake(name, tmp_path, monkeypatch):
    run(PROGRAMS[name], tmp_path, monkeypatch)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_with_other_imports(name, tmp_path, monkeypatch):
    run(_IMPORT.sub("from bayou.deltalake", PROGRAMS[name]), tmp_path, monkeypatch)
