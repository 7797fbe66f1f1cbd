"""An engine whose files live in this process: a fast fake for tests, and a second opinion.

Files in a dictionary, as `FileSystemClient`.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import IO, NamedTuple

from bayou.engines.listing_folders import SkippedPrefixes, is_between
from bayou.engines.memory.json import MemoryJsonHandler
from bayou.engines.memory.parquet import MemoryParquetHandler
from bayou.errors import ArgumentError, FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, ExpressionHandler, FileStatus
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.kernel.metrics import MetricsReporter

__all__ = ["MemoryEngine", "MemoryFiles"]


class _Content(NamedTuple):
    data: bytes
    modification_time: int


_SHARED: dict[str, _Content] = {}
_LOCK = threading.Lock()


class MemoryFiles:
    """All of `memory://`, one for the process. As on object stores, folders are only prefixes."""

    def resolve_path(self, path: str) -> str:
        if not path.startswith("memory://") or path.strip("/") == "memory:":
            raise ArgumentError(
                f"{path!r} is no path of a MemoryEngine; it must be like memory://name/table",
                argument="path",
            )
        return path.rstrip("/")

    def real_path(self, path: str) -> str:
        return self.resolve_path(path)

    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        folder, _, first = path.rpartition("/")
        with _LOCK:
            below = [p for p in _SHARED if p.startswith(f"{folder}/")]
        if not below:
            raise FileMissingError(
                f"can't list {folder}: there is no such file or folder", path=folder
            )
        names = (p[len(folder) + 1 :] for p in below)
        for name in sorted((n for n in names if "/" not in n and n >= first), key=str.encode):
            content = _SHARED.get(f"{folder}/{name}")
            if content is not None:
                yield _status(f"{folder}/{name}", content)

    @closeable
    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[FileStatus]:
        folder = path.rstrip("/")
        with _LOCK:
            below = sorted((p, c) for p, c in _SHARED.items() if p.startswith(f"{folder}/"))
        skipped = SkippedPrefixes(folder, skips)
        for found, content in below:
            if is_between(found, after, until) and not skipped.holds(found):
                yield _status(found, content)

    def status(self, path: str) -> FileStatus:
        return _status(path, _content(path))

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for wanted in ranges:
            data = _content(wanted.path).data
            end = len(data) if wanted.length is None else wanted.offset + wanted.length
            yield data[wanted.offset : end]

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        return io.BytesIO(_content(path).data)

    def open_output(self, path: str) -> IO[bytes]:
        return _Output(lambda data: self.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        content = _Content(bytes(data), time.time_ns() // 1_000_000)
        with _LOCK:
            return _SHARED.setdefault(self.resolve_path(path), content) is content

    def put(self, path: str, data: bytes) -> None:
        content = _Content(bytes(data), time.time_ns() // 1_000_000)
        with _LOCK:
            _SHARED[self.resolve_path(path)] = content

    def mkdirs(self, path: str) -> None:
        self.resolve_path(path)

    def delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            with _LOCK:
                _SHARED.pop(path, None)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        pass  # there are no folders

    def set_modification_time(self, path: str, milliseconds: int) -> None:
        """Make a file as old as a test needs it.

        Raises:
            FileMissingError: no such file.
        """
        with _LOCK:
            _SHARED[path] = _Content(_content(path).data, milliseconds)


class _Output(io.BytesIO):
    """Publishes what it holds when it is closed, unless a `with` block ended by an exception."""

    def __init__(self, publish: Callable[[bytes], None]) -> None:
        super().__init__()
        self._publish = publish

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._publish(data)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def __del__(self) -> None:
        super().close()


def _content(path: str) -> _Content:
    try:
        return _SHARED[path]
    except KeyError:
        raise FileMissingError(f"can't read {path}: there is no such file", path=path) from None


def _status(path: str, content: _Content) -> FileStatus:
    return FileStatus(
        path=path, size=len(content.data), modification_time=content.modification_time
    )


class MemoryEngine:
    """Tables under `memory://name/...`, shared by all of a process, gone with it.

    Its handlers are written for clarity, value by value, and share no code with those of
    `ArrowEngine`, so that tests can compare the two.
    """

    KIND = "memory"
    """Value of `EngineDescription.kind`."""

    def __init__(self, *, metrics_reporter: MetricsReporter | None = None) -> None:
        self._files = MemoryFiles()
        self._json = MemoryJsonHandler(self._files)
        self._parquet = MemoryParquetHandler(self._files)
        self._metrics_reporter = metrics_reporter
        self._expressions = DefaultExpressionHandler()

    @property
    def files(self) -> MemoryFiles:
        """Files."""
        return self._files

    @property
    def json(self) -> MemoryJsonHandler:
        """JSON."""
        return self._json

    @property
    def parquet(self) -> MemoryParquetHandler:
        """Parquet."""
        return self._parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """Expressions."""
        return self._expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Who is told what the kernel measured; the handlers here measure nothing."""
        return self._metrics_reporter

    def description(self) -> EngineDescription:
        """How the same process builds an equivalent engine; another process sees other files."""
        return EngineDescription(kind=self.KIND)

    def __repr__(self) -> str:
        return "MemoryEngine()"
