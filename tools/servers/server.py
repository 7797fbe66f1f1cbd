"""Base class of servers: chooses a port, starts and stops the process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from servers.process import ServerError, ServerProcess, free_port

__all__ = ["Server"]

_ATTEMPTS = 3


class Server(ABC):
    """A server on loopback; a context manager. A restart keeps the port."""

    def __init__(self) -> None:
        self.port: int | None = None
        self._process: ServerProcess | None = None

    def start(self) -> None:
        """Start the server, and wait until it responds.

        Raises:
            ServerError: the server isn't fetched, or doesn't start.
        """
        self._check_fetched()
        for attempt in range(_ATTEMPTS):
            port = self.port or free_port()
            try:
                process = self._launch(port)
            except ServerError:
                if self.port is not None or attempt == _ATTEMPTS - 1:
                    raise  # otherwise another process may have taken the port
            else:
                self.port, self._process = port, process
                return

    def __getstate__(self) -> dict[str, object]:
        """State without the process: a pickled copy has the address, but can't stop the server."""
        return {**self.__dict__, "_process": None}

    def stop(self) -> None:
        """Terminate the server and keep its data."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Kill the server and keep its data."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Stop the server, and start it on the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Suspend the server: it accepts connections without responding until `resume`."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Resume the server after `pause`."""
        assert self._process is not None
        self._process.resume()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    @abstractmethod
    def _check_fetched(self) -> None:
        """Raise `ServerError` if the server's program isn't fetched."""

    @abstractmethod
    def _launch(self, port: int) -> ServerProcess:
        """Start the process on a port and wait until it responds; raises `ServerError`."""
