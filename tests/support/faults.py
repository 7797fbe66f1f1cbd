"""An engine whose calls fail on demand, for tests of error handling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.engine import (
    ByteRange,
    DataFileStatus,
    Engine,
    ExpressionHandler,
    FileSplit,
    FileStatus,
    ParquetFooter,
    ParquetWriteOptions,
    RowGroup,
)
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.metrics import MetricsReporter

__all__ = ["Fault", "FaultInjectingEngine"]


@dataclass(slots=True, kw_only=True)
class Fault:
    """Makes calls of an engine fail with a `StorageError`.

    Attributes:
        operation: name of a handler's method, such as `put` or `write_json_file_atomically`; `*`
            for all. `write_parquet_files` counts as a call before its first file, and as another
            call after each file.
        path: only calls fail whose path contains this string.
        times: number of calls that fail.
        passing: number of calls that succeed before the first failure.
        after: whether the call fails after its effect, so the caller can't know if it succeeded.
    """

    operation: str
    path: str = ""
    times: int = 1
    passing: int = 0
    after: bool = False


@dataclass(slots=True)
class _Plan:
    faults: list[Fault] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self, operation: str, path: str) -> Fault | None:
        with self.lock:
            self.calls.append(operation)
            for fault in self.faults:
                if fault.operation in {operation, "*"} and fault.path in path:
                    if fault.passing > 0:
                        fault.passing -= 1
                    elif fault.times > 0:
                        fault.times -= 1
                        return fault
        return None

    def fail(self, operation: str, path: str) -> Fault | None:
        """Raise the error of the next fault for this call.

        Returns:
            The fault if it has `after`, so its error must be raised later; None without a fault.
        """
        fault = self.due(operation, path)
        if fault is not None and not fault.after:
            raise _error(operation, path)
        return fault


class FaultInjectingEngine:
    """An engine that calls another engine, with faults. Each fault is used up by its failures."""

    def __init__(self, engine: Engine, *faults: Fault) -> None:
        self._engine = engine
        self._plan = _Plan(list(faults))
        self._files = _Files(engine, self._plan)
        self._json = _Json(engine, self._plan)
        self._parquet = _Parquet(engine, self._plan)

    @property
    def calls(self) -> list[str]:
        """The names of the called methods that can fail, in order."""
        return list(self._plan.calls)

    def inject(self, *faults: Fault) -> None:
        """Add faults."""
        self._plan.faults.extend(faults)

    @property
    def files(self) -> _Files:
        """The file handler, with faults."""
        return self._files

    @property
    def json(self) -> _Json:
        """The JSON handler, with faults."""
        return self._json

    @property
    def parquet(self) -> _Parquet:
        """The Parquet handler, with faults."""
        return self._parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """The wrapped engine's expression handler, without faults."""
        return self._engine.expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """The wrapped engine's metrics reporter."""
        return self._engine.metrics_reporter

    def description(self) -> EngineDescription:
        """Return the description of the wrapped engine, without faults."""
        return self._engine.description()


class _Files:
    def __init__(self, engine: Engine, plan: _Plan) -> None:
        self._files = engine.files
        self._plan = plan

    def resolve_path(self, path: str) -> str:
        return self._files.resolve_path(path)

    def real_path(self, path: str) -> str:
        return self._files.real_path(path)

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        self._plan.fail("list_from", path)
        return self._files.list_from(path)

    @closeable
    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[FileStatus]:
        self._plan.fail("list_tree", path)
        with self._files.list_tree(path, skips, after=after, until=until) as found:
            yield from found

    def status(self, path: str) -> FileStatus:
        self._plan.fail("status", path)
        return self._files.status(path)

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for wanted in ranges:
            self._plan.fail("read_files", wanted.path)
            with self._files.read_files([wanted]) as contents:
                yield from contents

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        self._plan.fail("open_input", path)
        return self._files.open_input(path, size)

    def open_output(self, path: str) -> IO[bytes]:
        self._plan.fail("open_output", path)
        return self._files.open_output(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        later = self._plan.fail("put_if_absent", path)
        done = self._files.put_if_absent(path, data)
        _raise_after(later, path)
        return done

    def put(self, path: str, data: bytes) -> None:
        later = self._plan.fail("put", path)
        self._files.put(path, data)
        _raise_after(later, path)

    def mkdirs(self, path: str) -> None:
        self._plan.fail("mkdirs", path)
        self._files.mkdirs(path)

    def delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            later = self._plan.fail("delete_files", path)
            self._files.delete_files([path])
            _raise_after(later, path)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._plan.fail("delete_empty_folders", path)
            self._files.delete_empty_folders([path])


class _Json:
    def __init__(self, engine: Engine, plan: _Plan) -> None:
        self._json = engine.json
        self._plan = plan

    def parse_json(
        self,
        texts: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        return self._json.parse_json(texts, output_schema, selection)

    @closeable
    def read_json_files(
        self,
        files: Iterable[FileStatus],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            self._plan.fail("read_json_files", file.path)
            with self._json.read_json_files(
                [file], physical_schema, predicate, batch_size=batch_size
            ) as batches:
                yield from batches

    def write_json_file_atomically(
        self, path: str, lines: Iterable[bytes], *, overwrite: bool = False
    ) -> bool:
        later = self._plan.fail("write_json_file_atomically", path)
        done = self._json.write_json_file_atomically(path, lines, overwrite=overwrite)
        _raise_after(later, path)
        return done


class _Parquet:
    def __init__(self, engine: Engine, plan: _Plan) -> None:
        self._parquet = engine.parquet
        self._plan = plan

    def read_row_groups(self, file: FileStatus) -> Sequence[RowGroup]:
        self._plan.fail("read_row_groups", file.path)
        return self._parquet.read_row_groups(file)

    def read_footer(
        self, file: FileStatus, statistics_columns: Sequence[str] | None = ()
    ) -> ParquetFooter:
        self._plan.fail("read_footer", file.path)
        return self._parquet.read_footer(file, statistics_columns)

    @closeable
    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        for split in files:
            self._plan.fail("read_parquet_files", split.path)
            with self._parquet.read_parquet_files(
                [split], physical_schema, predicate, batch_size=batch_size
            ) as batches:
                yield from batches

    @closeable
    def write_parquet_files(
        self,
        directory: str,
        batches: Iterable[pa.RecordBatch],
        statistics_columns: Sequence[str],
        options: ParquetWriteOptions,
    ) -> Iterator[DataFileStatus]:
        self._plan.fail("write_parquet_files", directory)
        with self._parquet.write_parquet_files(
            directory, batches, statistics_columns, options
        ) as written:
            for status in written:
                yield status
                self._plan.fail("write_parquet_files", directory)

    def write_parquet_file_atomically(
        self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> FileStatus:
        later = self._plan.fail("write_parquet_file_atomically", path)
        status = self._parquet.write_parquet_file_atomically(path, schema, batches)
        _raise_after(later, path)
        return status


def _raise_after(fault: Fault | None, path: str) -> None:
    if fault is not None:
        raise _error(fault.operation, path)


def _error(operation: str, path: str) -> StorageError:
    return StorageError(f"can't {operation} {path}: a fault on purpose", path=path)
