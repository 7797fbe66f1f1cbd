"""Spark sessions that take turns: processes that answer, and a table of what they took.

A session is a script of its own beside this module, which `spark_door` helps to write. One of them
works at a time, so that each has both cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

from rich.table import Table as Grid
from spark_door import ANSWER, PEER

__all__ = ["PEER", "PEERS", "Result", "Session", "Sessions", "environment", "grid", "python"]

PEERS = Path(__file__).resolve().parent.parent / ".venv-peers"
"""The peer's environment; `make test-peers` makes it."""


def python(door: str, peers: Path = PEERS) -> str | None:
    """The interpreter of a door; None for the peer's where there is no such environment."""
    if door != PEER:
        return sys.executable
    found = peers / "bin" / "python"
    return str(found.absolute()) if found.exists() else None


def environment(door: str) -> dict[str, str]:
    """What a door's process gets beside this one's environment: the peer sees none of ours."""
    return {"PYTHONPATH": ""} if door == PEER else {}


class Session:
    """A script in a process that answers lines of JSON.

    Args:
        script: its name.
        door: its first argument.
        interpreter: that runs it.
    """

    def __init__(self, script: str, door: str, interpreter: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # as long as the session
        self._process = subprocess.Popen(
            [interpreter, str(Path(__file__).with_name(script)), door],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self._folder.name,
            env={**os.environ, **environment(door)},
        )
        self._answer()

    def ask(self, **question: Any) -> dict[str, Any]:
        """What the session says of a question.

        Raises:
            SystemExit: it failed, and said why.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the session."""
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


class Sessions:
    """Sessions of one script by door, each started when it is first asked for and kept.

    Args:
        script: its name.
        peers: environment of the peer; without one its door is left out of `doors`.
    """

    def __init__(self, script: str, peers: Path = PEERS) -> None:
        self._script = script
        self._peers = peers
        self._open: dict[str, Session] = {}

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End them."""
        for session in self._open.values():
            session.close()

    def __getitem__(self, door: str) -> Session:
        """The session of a door."""
        if door not in self._open:
            self._open[door] = self.fresh(door)
        return self._open[door]

    def fresh(self, door: str) -> Session:
        """Another session of a door, which is the caller's to close."""
        interpreter = python(door, self._peers)
        assert interpreter is not None, f"there is no {self._peers}"
        return Session(self._script, door, interpreter)

    def doors(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Those that can be asked."""
        return tuple(door for door in wanted if python(door, self._peers) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the doors took for one case.

    Attributes:
        title: of the case.
        seconds: of each counted run, by door.
        budgets: multiples of the peer's time, by door.
        notes: a last column, by door.
    """

    title: str
    seconds: Mapping[str, Sequence[float]]
    budgets: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def grid(title: str, results: Iterable[Result]) -> Grid:
    """A row for each case and door: median, beside the peer's, the budget."""
    found = Grid(title=title, title_justify="left")
    for heading in ("", "door", "seconds", f"beside {PEER}", "budget", ""):
        found.add_column(heading, justify="left" if heading in ("", "door") else "right")
    for result in results:
        base = result.seconds.get(PEER)
        for number, (door, taken) in enumerate(result.seconds.items()):
            budget = result.budgets.get(door)
            found.add_row(
                "" if number else result.title,
                door,
                f"{median(taken):.2f}",
                "" if base is None or door == PEER else f"{median(taken) / median(base):.2f}x",
                "" if budget is None else f"{budget}x",
                result.notes.get(door, ""),
            )
        found.add_section()
    return found
