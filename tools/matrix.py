"""Runs the tests with other versions of Python, PySpark and the dependencies. For releases.

usage: matrix.py [--python 3.12] [--rows 1,4] [--part unit|spark] [--folder FOLDER] [--list]

The rows are in the order of their value. Each creates an environment with uv, whose cache holds
each package once, runs the unit tests of api, engines, kernel and protocol and
`tests/integration/spark_tour.py`, and prints one line. The unit tests don't use PySpark: they run
once for each Python and kind of dependencies. The exit code is 1 if a row fails. A row whose Python
isn't installed is reported as not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One combination.

    Attributes:
        python: as in `python3.12`.
        pyspark: its version, without the last number.
        dependencies: `pinned` (constraints.txt), `lowest` or `newest` that pyproject.toml allows.
    """

    python: str
    pyspark: str
    dependencies: str

    def __str__(self) -> str:
        return f"Python {self.python}, PySpark {self.pyspark}, {self.dependencies} dependencies"


def _rows() -> list[Row]:
    first = [
        ("3.11", "4.3", "pinned"),
        ("3.13", "4.3", "newest"),
        ("3.11", "4.2", "lowest"),
        ("3.14", "4.3", "newest"),
        ("3.12", "4.3", "newest"),
        ("3.11", "4.1", "lowest"),
    ]
    rest = [
        (python, pyspark, "newest")
        for python in ("3.11", "3.12", "3.13", "3.14")
        for pyspark in ("4.3", "4.2", "4.1")
    ]
    return [Row(python=p, pyspark=s, dependencies=d) for p, s, d in dict.fromkeys(first + rest)]


ROWS = _rows()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", help="only rows with this version")
    parser.add_argument("--rows", help="only rows with these numbers")
    parser.add_argument("--part", choices=["unit", "spark"], help="only these tests")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "matrix")
    parser.add_argument("--list", action="store_true", help="print the rows, and run none")
    options = parser.parse_args(arguments)
    numbers = {int(n) for n in options.rows.split(",")} if options.rows else None
    failed = 0
    tested: set[tuple[str, str]] = set()
    for number, row in enumerate(ROWS, 1):
        if numbers and number not in numbers:
            continue
        if options.python and row.python != options.python:
            continue
        if options.list:
            print(f"{number:2}  {row}")
            continue
        started = time.monotonic()
        parts = {options.part} if options.part else {"unit", "spark"}
        unit_tests = (row.python, row.dependencies)
        if unit_tests in tested:
            parts.discard("unit")
        result = _run(row, parts, options.folder / f"row{number}")
        if result == "passed":
            tested.add(unit_tests)
        failed += result.startswith("failed")
        print(f"{number:2}  {row}: {result} ({time.monotonic() - started:.0f} s)", flush=True)
    return 1 if failed else 0


def _run(row: Row, parts: set[str], folder: Path) -> str:
    """Run parts of a row; return `passed`, `not run: ...` or `failed: ...`."""
    python = shutil.which(f"python{row.python}")
    if python is None:
        return f"not run: python{row.python} isn't on the PATH"
    shutil.rmtree(folder, ignore_errors=True)
    tour = folder / "tour"
    tour.mkdir(parents=True)
    log = folder / "log.txt"
    inside = folder / "venv" / "bin" / "python"
    steps = [*_uv_steps(python, folder), ("install", _install(row, inside, folder))]
    if "unit" in parts:
        steps.append(("unit tests", [inside, "-m", "pytest", "-q", "-x", *_UNIT, *_FOLDERS]))
    if "spark" in parts:
        steps.append(("Spark", [inside, ROOT / "tests" / "integration" / "spark_tour.py", tour]))
    for name, command in steps:
        started = time.monotonic()
        with log.open("a") as output:
            done = subprocess.run(
                [str(word) for word in command],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                env=_environment(inside),
            )
            output.write(f"{name}: {time.monotonic() - started:.0f} s\n")
        if done.returncode:
            return f"failed: {name}, see {log}"
    shutil.rmtree(folder / "venv")
    return "passed"


_Command = list[str | Path]

_UNIT = (
    "-m",
    "not spark and not server and not slow and not process",
    "--hypothesis-profile",
    "unit",
)
_FOLDERS = ("tests/api", "tests/engines", "tests/kernel", "tests/protocol")


def _uv_steps(python: str, folder: Path) -> list[tuple[str, _Command]]:
    """Return the commands that install uv, unless an earlier row did, and make the environment."""
    home = folder.parent / "uv"
    uv = home / "bin" / "uv"
    pins = ROOT / "tools" / "constraints-release.txt"
    steps: list[tuple[str, _Command]] = []
    if not uv.exists():
        steps.append(("environment of uv", [python, "-m", "venv", "--clear", home]))
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--constraint", pins]
        steps.append(("uv", [*pip, "uv"]))
    steps.append(("environment", [uv, "venv", "--quiet", "--python", python, folder / "venv"]))
    return steps


def _install(row: Row, inside: Path, folder: Path) -> _Command:
    extra = folder / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [f"pyspark=={row.pyspark}.*"]
    if row.dependencies == "pinned":
        pins += [line for line in lines if not line.startswith("pyspark==")]
    if row.dependencies == "lowest":
        # Only Bayou's own dependencies are the lowest ones; the tests need current tools.
        pins += [line for line in lines if line.partition("==")[0] in _tools()]
    extra.write_text("\n".join(pins) + "\n")
    uv = folder.parent / "uv" / "bin" / "uv"
    command: _Command = [uv, "pip", "install", "--quiet", "--python", inside]
    if row.dependencies == "lowest":
        command += ["--resolution", "lowest-direct"]
    return [*command, "--constraint", extra, "--editable", f"{ROOT}[dev]"]


def _tools() -> set[str]:
    """Return the packages that only the extra `dev` requires."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = {name: {re.split(r"[^\w.-]", r)[0] for r in extras[name]} for name in extras}
    return names["dev"].difference(*(names[name] for name in names if name not in ("dev", "bench")))


def _environment(inside: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYTHON"))}
    return {**kept, "PYSPARK_PYTHON": str(inside), "PYSPARK_DRIVER_PYTHON": str(inside)}


if __name__ == "__main__":
    sys.exit(main())
