"""An engine that lets a concurrent writer commit first, when a transaction starts to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bayou.errors import FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import Engine, FileStatus

__all__ = ["EngineWithRival"]


class EngineWithRival:
    """An engine that calls another engine, and once calls `act` before an empty listing returns.

    Args:
        engine: the wrapped engine.
        log: the folder of the log; listings of other folders are ignored.
        act: the operation of the other writer, called once.
        looks: number of empty listings before the one that calls `act`.
    """

    def __init__(
        self, engine: Engine, log: str, act: Callable[[], object], *, looks: int = 0
    ) -> None:
        self._engine = engine
        self.files = _Files(engine.files, log, act, looks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class _Files:
    def __init__(self, files: Any, log: str, act: Callable[[], object], looks: int) -> None:
        self._files = files
        self._log = log
        self._looks = looks
        self._act: Callable[[], object] | None = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        try:
            found = list(self._files.list_from(path))
        except FileMissingError:
            self._be_early(path)
            raise
        if not found:
            self._be_early(path)
        yield from found

    def _be_early(self, path: str) -> None:
        act = self._act
        if not path.startswith(f"{self._log}/") or act is None:
            return
        if self._looks:
            self._looks -= 1
            return
        self._act = None
        act()
