"""Checks that a release could go out, and builds its packages. Publishing is the workflow's work.

usage: release.py [--rehearse] [--skip-checks] [--advisories FOLDER | --skip-audit] [--folder DIST]

Each step prints one line. The first failing step ends the release with exit code 1.
`--rehearse` accepts an unreleased version and uncommitted changes; it says so. On machines that
can't reach the vulnerability service, `--advisories` names a checkout of the advisory database of
PyPI's packages, from which pip-audit is answered, or `--skip-audit` leaves the audit out.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import quick_start
from advisory_service import advisory_service

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent
"""The environment of the release: it has build, twine, check-wheel-contents and pip-audit."""


class ReleaseError(Exception):
    """A step failed. The message names the file and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="accept an unreleased version")
    parser.add_argument("--skip-checks", action="store_true", help="don't run make check")
    audit = parser.add_mutually_exclusive_group()
    audit.add_argument("--skip-audit", action="store_true", help="don't run pip-audit")
    audit.add_argument("--advisories", type=Path, help="advisory database to audit with")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where packages go")
    options = parser.parse_args(arguments)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("version", lambda: _version(rehearse=options.rehearse)),
        ("clean tree", lambda: _clean_tree(rehearse=options.rehearse)),
        ("packages", lambda: _packages(options.folder)),
        ("metadata", lambda: _metadata(options.folder)),
        ("vulnerabilities", lambda: _vulnerabilities(options)),
        ("quick start", lambda: _quick_start(options.folder)),
    ]
    if not options.skip_checks:
        steps.insert(2, ("make check", _checks))
    for name, step in steps:
        try:
            print(f"{name}: {step()}", flush=True)
        except ReleaseError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


def _run(command: Sequence[str | Path], **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        output = (done.stdout + done.stderr).strip()
        raise ReleaseError(f"{Path(str(command[0])).name} failed. Its output:\n{output[-4000:]}")
    return done.stdout


def _version(*, rehearse: bool) -> str:
    """Check that pyproject.toml, CHANGELOG.md and CITATION.cff name the same version and date."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    module = ROOT / "src" / "bayou" / "version.py"
    if f'VERSION = "{version}"' not in module.read_text():
        raise ReleaseError(f"{module} doesn't name version {version} of pyproject.toml. Change it.")
    heading = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r'^version: "?([^"\n]+)', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    for file, found in (("CHANGELOG.md", heading), ("CITATION.cff", cited)):
        if found is None or found.group(1) != version:
            raise ReleaseError(f"{file} doesn't name version {version} of pyproject.toml. Add it.")
    assert heading is not None
    date = heading.group(2)
    if rehearse:
        return f"{version}, dated {date} in the changelog (rehearsal)"
    try:
        dt.date.fromisoformat(date)
    except ValueError:
        message = f"CHANGELOG.md: version {version} has no date. Write it into the heading."
        raise ReleaseError(message) from None
    return f"{version} of {date}"


def _clean_tree(*, rehearse: bool) -> str:
    changed = _run(["git", "status", "--porcelain"]).splitlines()
    if changed and not rehearse:
        raise ReleaseError(f"{len(changed)} files aren't committed. Commit or remove them.")
    return f"{len(changed)} uncommitted files"


def _checks() -> str:
    _run(["make", "check"])
    return "passed"


def _packages(folder: Path) -> str:
    """Build wheel and sdist twice, from two copies of the commit, and compare them byte by byte."""
    epoch = _run(["git", "log", "-1", "--format=%ct"]).strip()
    built: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(2):
            copy, output = Path(scratch) / f"copy{number}", Path(scratch) / f"dist{number}"
            _run(["git", "worktree", "add", "--detach", copy, "HEAD"])
            try:
                command = [TOOLS / "python", "-m", "build", "--outdir", output, copy]
                _run(command, SOURCE_DATE_EPOCH=epoch)
            finally:
                _run(["git", "worktree", "remove", "--force", copy])
            built.append({p.name: _sha256(p) for p in sorted(output.iterdir())})
        if built[0] != built[1]:
            raise ReleaseError("two builds of one commit differ. Compare their contents.")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(scratch) / "dist1", folder)
    names = ", ".join(f"{name} ({digest[:12]})" for name, digest in built[0].items())
    return f"{names}; two builds are equal"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _metadata(folder: Path) -> str:
    _run([TOOLS / "twine", "check", "--strict", *sorted(folder.iterdir())])
    _run([TOOLS / "check-wheel-contents", *folder.glob("*.whl")])
    return "twine and check-wheel-contents passed"


_UNREACHABLE = ("Dependency not found on PyPI", "ConnectionError", "ServiceError", "Max retries")
"""What pip-audit prints if the vulnerability service doesn't answer its requests."""


def _vulnerabilities(options: argparse.Namespace) -> str:
    if options.skip_audit:
        return "not audited (--skip-audit)"
    if options.advisories is None:
        _audit()
        return "pip-audit knows none in constraints.txt"
    if not (options.advisories / "vulns").is_dir():
        raise ReleaseError(
            f"--advisories {options.advisories}: the folder has no folder `vulns`. Pass a checkout "
            "of the advisory database of PyPI's packages."
        )
    with advisory_service(options.advisories) as url:
        _audit("--vulnerability-service", "osv", "--osv-url", url)
    age = _run(["git", "-C", options.advisories, "log", "-1", "--format=%cs"]).strip()
    return f"pip-audit knows none in constraints.txt, with the advisories of {age}"


def _audit(*arguments: str) -> None:
    """Run pip-audit on constraints.txt; raise `ReleaseError` if it fails or finds something."""
    command = [TOOLS / "pip-audit", "--requirement", ROOT / "constraints.txt", "--no-deps"]
    done = subprocess.run(
        [*command, "--strict", "--progress-spinner", "off", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(_audit_problem((done.stdout + done.stderr).strip()))


def _audit_problem(output: str) -> str:
    """Return the message for a failed audit; `output` is pip-audit's."""
    if any(text in output for text in _UNREACHABLE):
        return (
            "pip-audit can't reach the vulnerability service of PyPI (its last line: "
            f"{output.splitlines()[-1]}). Run the release on a machine that can, or pass "
            "--advisories with a checkout of the advisory database, or --skip-audit."
        )
    return f"pip-audit found vulnerabilities. Its output:\n{output[-4000:]}"


def _quick_start(folder: Path) -> str:
    """Install the wheel into a fresh environment, and run the first pages outside of the clone."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        _run([sys.executable, "-m", "venv", home / "venv"])
        (wheel,) = folder.glob("*.whl")
        pip = [home / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet"]
        _run([*pip, "--constraint", ROOT / "constraints.txt", f"{wheel}[{quick_start.EXTRAS}]"])
        work = home / "work"
        work.mkdir()
        try:
            blocks = quick_start.run(home / "venv" / "bin" / "python", work)
        except quick_start.BlockError as error:
            raise ReleaseError(str(error)) from None
    return f"{blocks} blocks of {len(quick_start.PAGES)} pages ran with the wheel"


if __name__ == "__main__":
    sys.exit(main())
