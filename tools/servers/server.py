"""What all servers share: a port of their own, attempts to get one, start and end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from servers.process import ServerError, ServerProcess, free_port

__all__ = ["Server"]

_ATTEMPTS = 3


class Server(ABC):
    """A server on loopback; a context manager. It stays at its port when it is restarted."""

    def __init__(self) -> None:
        self.port: int | None = None
        self._process: ServerProcess | None = None

    def start(self) -> None:
        """Start, and return when it answers.

        Raises:
            ServerError: it isn't fetched, or doesn't start.
        """
        self._check_fetched()
        for attempt in range(_ATTEMPTS):
            port = self.port or free_port()
            try:
                process = self._launch(port)
            except ServerError:
                if self.port is not None or attempt == _ATTEMPTS - 1:
                    raise  # else somebody may have taken the port in between
            else:
                self.port, self._process = port, process
                return

    def __getstate__(self) -> dict[str, object]:
        """Without the process: a copy in another process has the address and can't stop it."""
        return {**self.__dict__, "_process": None}

    def stop(self) -> None:
        """End in an orderly way; what it keeps stays."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End as by a crash; what it keeps stays."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Stop and start, at the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Take connections and answer nothing until `resume`."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
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
        """Raise `ServerError` where its program isn't there."""

    @abstractmethod
    def _launch(self, port: int) -> ServerProcess:
        """Start it at a port, and return when it answers there; `ServerError` where it doesn't."""
