"""A custom engine that counts every call to the store and uses Bayou's handlers otherwise.

usage: counting_engine.py TABLE

Only the file system client is implemented here. Bayou's handlers for JSON and Parquet use this
client, so it sees every byte that they read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.kernel import (
    ByteRange,
    CloseableIterator,
    EngineDescription,
    ExpressionHandler,
    FileStatus,
    FileSystemClient,
    JsonHandler,
    MetricsReporter,
    ParquetHandler,
    Table,
    closeable,
    read_scan_file,
)


class CountingFiles:
    """A `FileSystemClient` that wraps another one; `calls` counts its calls."""

    def __init__(self, files: FileSystemClient) -> None:
        self._files = files
        self.calls: Counter[str] = Counter()

    def resolve_path(self, path: str) -> str:
        return self._files.resolve_path(path)  # no I/O

    def real_path(self, path: str) -> str:
        return self._files.real_path(path)

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        self.calls["list"] += 1
        return self._files.list_from(path)

    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> CloseableIterator[FileStatus]:
        self.calls["list"] += 1
        return self._files.list_tree(path, skips, after=after, until=until)

    def status(self, path: str) -> FileStatus:
        self.calls["status"] += 1
        return self._files.status(path)

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        with self._files.read_files(ranges) as contents:
            for data in contents:
                self.calls["read"] += 1
                self.calls["bytes"] += len(data)
                yield data

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        self.calls["open"] += 1
        return self._files.open_input(path, size)

    def open_output(self, path: str) -> IO[bytes]:
        self.calls["write"] += 1
        return self._files.open_output(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.calls["put"] += 1
        return self._files.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self.calls["put"] += 1
        self._files.put(path, data)

    def mkdirs(self, path: str) -> None:
        self.calls["mkdirs"] += 1
        self._files.mkdirs(path)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        self.calls["delete"] += 1
        self._files.delete_empty_folders(paths)

    def delete_files(self, paths: Iterable[str]) -> None:
        self.calls["delete"] += 1
        self._files.delete_files(paths)


class CountingEngine:
    """An implementation of the protocol `bayou.kernel.Engine`; no base class is needed."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self.counts = CountingFiles(ArrowFiles(options))
        self._handlers = ArrowEngine(files=self.counts)

    @property
    def files(self) -> FileSystemClient:
        return self.counts

    @property
    def json(self) -> JsonHandler:
        return self._handlers.json

    @property
    def parquet(self) -> ParquetHandler:
        return self._handlers.parquet

    @property
    def expressions(self) -> ExpressionHandler:
        return self._handlers.expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        return None

    def description(self) -> EngineDescription:
        """Describe the engine: workers import this class and call it with the options."""
        return EngineDescription.of(CountingEngine, self._options)


def main(arguments: Sequence[str]) -> None:
    """Read a table and print the number of calls."""
    (path,) = arguments
    engine = CountingEngine({})
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    print(f"opening version {snapshot.version}: {dict(engine.counts.calls)}")
    scan = snapshot.scan_builder().build()
    state = scan.scan_state(engine)
    rows = 0
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            with read_scan_file(engine, state, file) as batches:
                rows += sum(batch.num_rows for batch in batches)
    print(f"reading {rows} rows: {dict(engine.counts.calls)}")


if __name__ == "__main__":
    main(sys.argv[1:])
