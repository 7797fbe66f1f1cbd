"""Runs a Spark session per variant in a separate process, and prints a table of their times.

Each process runs `spark_session.py`. Only one session works at a time, so it has both cores.
Benchmarks that run one after another can use the same sessions (`shared`), because a session takes
long to start and to become fast.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

import measure
from rich.table import Table as Grid
from spark_variant import ANSWER, PEER

__all__ = [
    "PEER",
    "PEERS",
    "Result",
    "Session",
    "Sessions",
    "environment",
    "grid",
    "python",
    "shared",
]

PEERS = Path(__file__).resolve().parent.parent / ".venv-peers"
"""The folder of the peer's environment, which `make test-peers` creates."""


def python(variant: str, peers: Path = PEERS) -> str | None:
    """Return a variant's Python interpreter; None for the peer if its environment doesn't exist."""
    if variant != PEER:
        return sys.executable
    found = peers / "bin" / "python"
    return str(found.absolute()) if found.exists() else None


def environment(variant: str) -> dict[str, str]:
    """Return additional environment variables of a variant; the peer has no PYTHONPATH."""
    return {"PYTHONPATH": ""} if variant == PEER else {}


class Session:
    """A process of `spark_session.py`, which answers each line of JSON with a line of JSON.

    Args:
        variant: the argument of the script.
        interpreter: the Python interpreter that runs the script.
    """

    def __init__(self, variant: str, interpreter: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # as long as the session
        self._process = subprocess.Popen(
            [interpreter, str(Path(__file__).with_name("spark_session.py")), variant],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._folder.name,
            env={**os.environ, **environment(variant)},
        )
        self._answer()

    @property
    def pid(self) -> int:
        """The id of the process; the JVM is one of its children."""
        return self._process.pid

    def ask(self, program: str, **question: Any) -> dict[str, Any]:
        """Send a request for a program and return the response.

        Raises:
            SystemExit: the session failed; the message has the end of its stderr.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"program": program, **question}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._errors.close()
        self._folder.cleanup()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(f'{{"{ANSWER}"'):
                answer: dict[str, Any] = json.loads(line)[ANSWER]
                return answer
        self._errors.seek(0)
        sys.exit(f"a session failed:\n{self._errors.read()[-4000:]}")


_shared: dict[str, Session] | None = None
"""The open sessions by variant while `shared` is active."""


@contextmanager
def shared() -> Iterator[None]:
    """Let all `Sessions` that are created meanwhile use the same sessions; end them afterwards."""
    global _shared  # noqa: PLW0603
    _shared = {}
    try:
        yield
    finally:
        for session in _shared.values():
            session.close()
        _shared = None


class Sessions:
    """Sessions by variant. Each is started on first use and stays open.

    Args:
        peers: folder of the peer's environment; if it doesn't exist, `variants` omits the peer.
    """

    def __init__(self, peers: Path = PEERS) -> None:
        self._peers = peers
        self._open: dict[str, Session] = {} if _shared is None else _shared

    def __enter__(self) -> Self:
        """Return this object; sessions are started later."""
        return self

    def __contains__(self, variant: str) -> bool:
        """Whether the session of a variant is open."""
        return variant in self._open

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all sessions; shared ones only after an error, because one of them may have died."""
        if self._open is not _shared or kind is not None:
            for session in self._open.values():
                session.close()
            self._open.clear()

    def __getitem__(self, variant: str) -> Session:
        """Return the open session of a variant; start it if necessary."""
        if variant not in self._open:
            self._open[variant] = self.fresh(variant)
        return self._open[variant]

    def fresh(self, variant: str) -> Session:
        """Start another session of a variant, which the caller must close."""
        interpreter = python(variant, self._peers)
        assert interpreter is not None, f"there is no {self._peers}"
        return Session(variant, interpreter)

    def variants(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return the variants of `wanted` whose environment exists."""
        return tuple(variant for variant in wanted if python(variant, self._peers) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The measured times of one case.

    Attributes:
        title: the name of the case.
        seconds: the time of each counted run, by variant.
        budgets: maximum multiple of the peer's time, by variant.
        notes: text of the last column, by variant.
    """

    title: str
    seconds: Mapping[str, Sequence[float]]
    budgets: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def grid(title: str, results: Iterable[Result]) -> Grid:
    """Return a table with a row per case and variant: median time, ratio to the peer, budget."""
    found = Grid(title=title, title_justify="left")
    for heading in ("", "variant", "seconds", f"beside {PEER}", "budget", ""):
        found.add_column(heading, justify="left" if heading in ("", "variant") else "right")
    for result in results:
        base = result.seconds.get(PEER)
        for number, (variant, taken) in enumerate(result.seconds.items()):
            budget = result.budgets.get(variant)
            if base is not None:
                measure.record(result.title, variant, "time", median(taken) / median(base))
            found.add_row(
                "" if number else result.title,
                variant,
                f"{median(taken):.2f}",
                "" if base is None or variant == PEER else f"{median(taken) / median(base):.2f}x",
                "" if budget is None else f"{budget}x",
                result.notes.get(variant, ""),
            )
        found.add_section()
    return found
