"""Measures memory and CPU time of a program's processes, with `/proc`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Run", "cpu_seconds", "run_watched"]

_INTERVAL = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a program that exited with code 0.

    Attributes:
        began: start time in seconds since the epoch.
        seconds: duration.
        lines: the lines of its stdout.
        peak: peak memory in bytes by kind of process, and of all processes together as `all`.
            Shared pages count once (PSS).
    """

    began: float
    seconds: float
    lines: tuple[str, ...]
    peak: Mapping[str, int]


def run_watched(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    limit: float | None = None,
) -> Run:
    """Run a program to its end.

    Kinds of process are `driver` for the program itself, `JVM` for its Java descendants, and
    `workers` for all other descendants.

    Args:
        command: the program and its arguments.
        environment: additional environment variables.
        limit: maximum duration in seconds; after that, the program and its descendants are killed.

    Raises:
        RuntimeError: the program failed; the message has the end of its output.
        TimeoutError: the program was killed.
    """
    began, start = time.time(), time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    watch = _Watch(process.pid)
    watch.start()
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{' '.join(command)} took longer than {limit:.0f} s") from error
    finally:
        if process.poll() is None:
            _kill_tree(process.pid)
            process.communicate()
        watch.end()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output[-1000:]}{errors[-3000:]}")
    return Run(
        began=began,
        seconds=time.perf_counter() - start,
        lines=tuple(output.splitlines()),
        peak=watch.peak,
    )


def cpu_seconds(root: int) -> float:
    """Return the CPU time of a process and its descendants so far, including ended children."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total = 0
    for pid, used in ticks.items():
        above = pid
        while above != root and above in parents:
            above = parents[above]
        if above == root:
            total += used
    return total / _TICKS


class _Watch(threading.Thread):
    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._over = threading.Event()
        self.peak = {"driver": 0, "JVM": 0, "workers": 0, "all": 0}

    def run(self) -> None:
        while not self._over.wait(_INTERVAL):
            now = dict.fromkeys(self.peak, 0)
            for kind, size in _sizes(self._root):
                now[kind] += size
                now["all"] += size
            self.peak = {kind: max(size, now[kind]) for kind, size in self.peak.items()}

    def end(self) -> None:
        self._over.set()
        self.join()


def _kill_tree(root: int) -> None:
    """Kill a process and its descendants."""
    for pid, _ in _descendants(root):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> Iterator[tuple[int, _Process]]:
    """Yield a process and each of its descendants that is a program of its own."""
    found: dict[int, _Process] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # What has ended meanwhile, or is somebody else's, is left out.
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[int(entry.name)] = _process(entry)
    for pid, process in found.items():
        above = pid
        while above != root and above in found:
            above = found[above].parent
        parent = found.get(process.parent)
        # A child that has yet to become another program borrows its parent's memory.
        borrowed = parent is not None and parent.memory == process.memory
        if above == root and not borrowed:
            yield pid, process


def _sizes(root: int) -> Iterator[tuple[str, int]]:
    """Yield kind and memory in bytes of a process and each of its descendants."""
    for pid, process in _descendants(root):
        is_java = process.program == "java"
        yield "JVM" if is_java else "driver" if pid == root else "workers", process.size


class _Process(NamedTuple):
    parent: int
    program: str
    memory: str  # as /proc/PID/statm has it
    size: int


def _process(folder: Path) -> _Process:
    stat = (folder / "stat").read_text()
    memory = (folder / "statm").read_text()
    shares = re.search(r"^Pss: +(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE)
    return _Process(
        parent=int(stat.rpartition(")")[2].split()[1]),
        program=(folder / "exe").readlink().name,
        memory=memory,
        size=0 if shares is None else int(shares[1]) * 1024,
    )
