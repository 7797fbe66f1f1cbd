"""A server process that ends with the process that started it."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

__all__ = ["ServerError", "ServerProcess", "free_port"]

_GRACE = 20.0
_POLL = 0.05
_PORTS = range(15_000, 32_000)
"""Below the range of ephemeral ports, which outgoing connections use."""

_LAUNCHER = """\
import ctypes, os, sys
if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != int(sys.argv[1]):  # the owner ended in between
        sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to kill this process when its parent ends, then becomes the server."""


class ServerError(Exception):
    """A server didn't start; the message has the end of its log."""


class ServerProcess:
    """A server's process and its log file. Not thread-safe.

    The process ends by `stop` or `kill`, when Python exits, and on Linux even if Python is killed.
    It has its own session, so Ctrl-C doesn't reach it.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str]
    ) -> None:
        self._name = command[0]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LAUNCHER, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
            )
        atexit.register(self.kill)

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_until(self, answers: Callable[[], bool], *, timeout: float) -> None:
        """Wait until `answers` returns True.

        Raises:
            ServerError: the process ended, or the timeout expired. After a timeout, the process is
                killed.
        """
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline:
            if answers():
                return
            time.sleep(_POLL)
        state = "doesn't answer" if self.running else f"ended with {self._process.returncode}"
        self.kill()
        tail = self._log.read_text(errors="replace")[-3000:]
        raise ServerError(f"{self._name} {state}; the end of {self._log}:\n{tail}")

    def stop(self) -> None:
        """Terminate the process; kill it after a timeout."""
        if self.running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        self.kill()

    def kill(self) -> None:
        """Kill the process, like a crash."""
        if self.running:
            self._process.kill()
        self._process.wait()
        atexit.unregister(self.kill)

    def pause(self) -> None:
        """Suspend the process: connections stay open without a response until `resume`."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process after `pause`."""
        self._process.send_signal(signal.SIGCONT)


def free_port() -> int:
    """Return a free loopback port outside the range of ephemeral ports."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free")
