"""An engine that stores files in memory, for fast tests and as a reference for other engines."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple

from bayou.engines.listing_folders import SkippedPrefixes, is_in_range
from bayou.engines.memory.json import MemoryJsonHandler
from bayou.engines.memory.parquet import MemoryParquetHandler
from bayou.errors import ArgumentError, FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, ExpressionHandler, FileStatus
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.kernel.metrics import MetricsReporter


class _Content(NamedTuple):
    data: bytes
    modification_time: int


_SHARED: dict[str, _Content] = {}
_LOCK = threading.Lock()


class MemoryFiles:
    """A `FileSystemClient` for `memory://`. Folders are prefixes of paths, as in object stores."""

    def resolve_path(self, path: str) -> str:
        if not path.startswith("memory://") or path.strip("/") == "memory:":
            raise ArgumentError(
                f"path {path!r}: not a path of a MemoryEngine. Use a path such as "
                "memory://name/table.",
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
            raise FileMissingError(f"{folder}: can't list: the folder doesn't exist", path=folder)
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
        for file, content in below:
            if is_in_range(file, after, until) and not skipped.contains(file):
                yield _status(file, content)

    def status(self, path: str) -> FileStatus:
        return _status(path, _content(path))

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for requested in ranges:
            data = _content(requested.path).data
            end = len(data) if requested.length is None else requested.offset + requested.length
            yield data[requested.offset : end]

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
        """Set a file's modification time, for tests."""
        with _LOCK:
            _SHARED[path] = _Content(_content(path).data, milliseconds)


class _Output(io.BytesIO):
    """An output file that is created when it is closed.

    If the `with` block raises an exception, the file isn't created.
    """

    def __init__(self, publish: Callable[[bytes], None]) -> None:
        super().__init__()
        self._publish = publish

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._publish(data)

    def __exit__(self, kind: object, *_: object) -> None:
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
        raise FileMissingError(f"{path}: can't read: the file doesn't exist", path=path) from None


def _status(path: str, content: _Content) -> FileStatus:
    return FileStatus(
        path=path, size=len(content.data), modification_time=content.modification_time
    )


class MemoryEngine:
    """An engine for tables under `memory://name/...`; all engines of the process share the tables.

    Its handlers share no code with the handlers of `ArrowEngine`, because tests compare the two
    engines.
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
        """The file system client."""
        return self._files

    @property
    def json(self) -> MemoryJsonHandler:
        """The JSON handler."""
        return self._json

    @property
    def parquet(self) -> MemoryParquetHandler:
        """The Parquet handler."""
        return self._parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """The expression handler."""
        return self._expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """The receiver of the kernel's metrics. The handlers of this engine report no metrics."""
        return self._metrics_reporter

    def description(self) -> EngineDescription:
        """Return the description of this engine, without its files.

        An engine that another process creates from the description doesn't see these files.
        """
        return EngineDescription(kind=self.KIND)

    def __repr__(self) -> str:
        return "MemoryEngine()"
