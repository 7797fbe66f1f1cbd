"""Runs the conformance sets and prints the failed checks and the totals.

usage: conformance_sets.py [--update] [SET ...]

`--update` writes the names of passing cases to `tests/conformance/passing-SET.txt`. The tests fail
if one of these cases doesn't pass any more. The sets are in `../shared/conformance` beside the
repository, or in `conformance` in the folder BAYOU_SHARED.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("conformance_runner.py")
SETS = ("golden", "reference")

_FAILURE = re.compile(r"FAIL (?P<case>\S+) (?P<check>.*?): (?P<error>[A-Z]\w*): ?(?P<message>.*)")
_TOTAL = re.compile(r"passed (?P<passed>\d+) of (?P<cases>\d+) cases \((?P<checks>.*)\)")
_FILE_COUNT = re.compile(r"(?P<got>\d+) files, expected (?P<least>\d+) to \d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed check of a case: the check's name, the exception's type and message."""

    case: str
    check: str
    error: str
    message: str

    def reads_too_much(self) -> bool:
        """Whether the check only failed because more files were read than expected."""
        count = _FILE_COUNT.fullmatch(self.message)
        return count is not None and int(count["got"]) >= int(count["least"])

    def __str__(self) -> str:
        return f"{self.case} {self.check}: {self.error}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a set: names of its cases, failed checks, and the runner's summary line."""

    cases: tuple[str, ...]
    failures: tuple[Failure, ...]
    total: str

    @property
    def passing(self) -> tuple[str, ...]:
        """Names of the cases without a failed check."""
        failed = {failure.case for failure in self.failures}
        return tuple(case for case in self.cases if case not in failed)


def folder() -> Path | None:
    """Return the folder of the sets; None if it doesn't exist."""
    shared = Path(os.environ.get("BAYOU_SHARED") or ROOT.parent / "shared")
    found = shared / "conformance"
    return found if (found / "run.py").is_file() else None


def run(sets: Path, name: str) -> Outcome:
    """Run one set in a separate process."""
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(sets / "run.py"), str(sets / name)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TZ": "UTC"},
    )
    lines = done.stdout.splitlines()
    total = _TOTAL.fullmatch(lines[-1]) if lines else None
    if total is None:
        raise RuntimeError(f"the set {name} did not run to its end:\n{done.stderr[-4000:]}")
    failures = tuple(_failures(lines[:-1]))
    return Outcome(cases=_case_names(sets / name), failures=failures, total=lines[-1])


def expected_file(name: str) -> Path:
    """Return the path of the committed list of cases that pass."""
    return ROOT / "tests" / "conformance" / f"passing-{name}.txt"


def expected(name: str) -> tuple[str, ...]:
    """Return the names of the cases in the committed list."""
    return tuple(expected_file(name).read_text().split())


def _failures(lines: Sequence[str]) -> Iterator[Failure]:
    for line in lines:
        parts = _FAILURE.match(line)
        if parts is not None:
            yield Failure(**parts.groupdict())


def _case_names(path: Path) -> tuple[str, ...]:
    manifest = json.loads((path / "manifest.json").read_text())
    return tuple(case["name"] for case in manifest["cases"])


def main(arguments: Sequence[str]) -> int:
    """Run the sets of the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=SETS, help="names of sets")
    parser.add_argument("--update", action="store_true", help="write the lists of passing cases")
    options = parser.parse_args(arguments)
    sets = folder()
    if sets is None:
        print("no conformance sets: put them beside the repository or set BAYOU_SHARED")
        return 1
    for name in options.sets:
        outcome = run(sets, name)
        for failure in outcome.failures:
            print(failure)
        print(f"{name}: {outcome.total}")
        if options.update:
            expected_file(name).write_text("".join(f"{c}\n" for c in sorted(outcome.passing)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
