"""Writes of a DataFrame by Spark's own Parquet writer, without Python workers.

The driver reads the statistics of the written files from their Parquet footers. Spark's writer is
used only for unpartitioned tables in the local file system. The tables must have no constraints and
no generated values, and Parquet footers must have statistics for all columns. Other writes run in
Python workers; see `map_in_arrow`.

Spark's writer isn't used for partitioned tables, because it sorts the rows of each task by
partition. The sort takes longer than sending the rows to Python.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import functions
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkStruct

from bayou.engines import from_description
from bayou.engines.arrow.parquet_files.footer import read_written_statistics
from bayou.engines.arrow.storage.exclusive_create import sync_folder
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.errors import ArgumentError
from bayou.kernel import Engine, TransactionState
from bayou.kernel.data_writer.data_writer import generate_append_actions, write_context
from bayou.kernel.engine import DataFileStatus, FileStatus
from bayou.kernel.table_features.column_mapping import ID_KEY, PHYSICAL_NAME_KEY, physical_name
from bayou.protocol import column_metadata
from bayou.protocol.actions import encode_actions
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from bayou.protocol.sql import quote_identifier
from bayou.spark.executors.jobs import TaggedJobs
from bayou.spark.jvm.objects import JvmError, error_reason
from bayou.spark.jvm.parquet_writer import ParquetWrite, WrittenFile
from bayou.spark.jvm.plans import leaf_classes
from bayou.spark.types import from_spark, same_type, to_spark
from bayou.spark.write.started_write import StartedWrite

_LOG = logging.getLogger(__name__)

WRITER = "spark.bayou.writer"
"""Setting that selects the writer: `python` for Python workers, or `auto`.

With `auto`, Spark's Parquet writer is used if it supports the write. A task of Spark's writer
writes one file of any size, as in delta-spark. A Python worker starts a new file at 128 MB or the
table's `delta.targetFileSize`.
"""

_TYPES = frozenset(
    {
        *(BINARY, BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE),
        *(DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ),
    }
)
_METADATA = frozenset({"comment", "delta.typeChanges", ID_KEY, PHYSICAL_NAME_KEY})
"""Keys of column metadata that have no effect on the values of a column."""

_CODECS = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
}
"""Maps names of compression codecs to Spark's names.

Files with other codecs are written by Python workers.
"""

_THREADS = 8
_KNOWN_RELATIONS = frozenset({"LogicalRelation", "Range", "LocalRelation", "OneRowRelation"})
"""Class names of the relations that a DataFrame can read if Spark's writer runs an overwrite.

An overwrite must know which version of the table the DataFrame reads. These relations don't read a
Delta table, or Spark's plan contains the version. If a DataFrame reads other relations, Python
workers write the rows, because they report the version.
"""

_warned: set[str] = set()


def prepare_native_write(frame: Any, started: StartedWrite) -> NativeWrite | None:
    """Return a write by Spark's Parquet writer; None if Python workers must write the rows."""
    if _writer(frame.sparkSession) == "python":
        return None
    plan, write = started.plan, started.write
    if not plan.table.startswith("/") or plan.generates_identity:
        return None
    state = TransactionState.from_bytes(plan.state)
    if not _is_supported(state):
        return None
    rows = _in_table_order(frame, state)
    if rows is None:
        return None
    options = {
        "compression": _CODECS[state.parquet_options.compression.lower()],
        "maxRecordsPerFile": str(state.max_records_per_file or 0),
    }
    try:
        if write.overwrites and not leaf_classes(rows) <= _KNOWN_RELATIONS:
            return None
        schema = _file_schema(state.data_schema, mapped=state.column_mapping != "none")
        return NativeWrite(rows, started, state, ParquetWrite(rows, schema, state.table, options))
    except JvmError as error:
        message = (
            "Spark: Python workers are used instead of Spark's Parquet writer, because internals "
            f"of this Spark version differ from versions 4.2 and 4.3 ({error_reason(error)}). Use "
            "a supported version for faster writes."
        )
        if message not in _warned:
            _warned.add(message)
            _LOG.warning(message)
        return None


class NativeWrite:
    """A write of a DataFrame's rows to the files of an unpartitioned table."""

    def __init__(
        self, frame: Any, started: StartedWrite, state: TransactionState, files: ParquetWrite
    ) -> None:
        self._spark = frame.sparkSession
        self._started = started
        self._state = state
        self._files = files

    def run(self) -> list[bytes]:
        """Write the rows; return the actions of the files for `StartedWrite.commit`.

        If the write fails, its files are deleted before the error is raised.
        """
        engine = from_description(self._started.engine)
        jobs = TaggedJobs(self._spark, f"Write to {self._state.table}")
        with _new_folders_deleted(self._state.table), jobs.tagged():
            with storage_errors(self._state.table, "write"):
                files = self._files.run()
            try:
                return self._actions(engine, files)
            except BaseException:
                engine.files.delete_files([self._path(file) for file in files])
                raise

    def _actions(self, engine: Engine, files: list[WrittenFile]) -> list[bytes]:
        with ThreadPoolExecutor(min(_THREADS, max(1, len(files)))) as pool:
            statuses = list(pool.map(lambda file: self._status(engine, file), files))
        # Spark writes an empty file if the DataFrame has no rows.
        empty = [s.path for s in statuses if s.statistics is None or not s.statistics.num_records]
        engine.files.delete_files(empty)
        sync_folder(self._state.table)
        written = [status for status in statuses if status.path not in empty]
        with generate_append_actions(self._state, written, write_context(self._state, {})) as adds:
            actions = list(adds)
        return [encode_actions(actions)] if actions else []

    def _status(self, engine: Engine, file: WrittenFile) -> DataFileStatus:
        path = self._path(file)
        status = FileStatus(path=path, size=file.size, modification_time=file.modification_time)
        _sync(path)
        statistics = read_written_statistics(
            engine.files,
            status,
            self._state.statistics_columns(),
            self._state.parquet_options.string_prefix_length,
        )
        return DataFileStatus(
            path=path,
            size=file.size,
            modification_time=file.modification_time,
            statistics=statistics,
        )

    def _path(self, file: WrittenFile) -> str:
        return f"{self._state.table}/{file.name}"


def _writer(spark: Any) -> str:
    writer = str(spark.conf.get(WRITER, "auto")).strip().lower()
    if writer not in ("auto", "python"):
        raise ArgumentError(
            f"Setting {WRITER}: {writer!r} isn't valid. It must be auto or python.",
            argument=WRITER,
        )
    return writer


def _is_supported(state: TransactionState) -> bool:
    """Whether Spark's Parquet writer can write the data files of a table."""
    properties = TableProperties(state.configuration)
    return (
        not state.partition_columns
        and not state.materializes_partitions
        and not state.records_inserts
        and not state.conditions
        and not state.generated_identity
        and not column_metadata.check_constraints(state.configuration)
        and state.iceberg_compat is None
        and state.target_file_size is None
        and properties.target_file_size is None
        and not properties.randomize_file_prefixes
        and state.parquet_options.compression.lower() in _CODECS
        and len(state.data_schema) == len(state.schema) > 0  # no columns of type void
        and all(map(_is_plain, state.schema))
    )


def _is_plain(field: StructField) -> bool:
    """Whether Spark's Parquet writer can write a column.

    The values must need no check or computation, and Parquet footers must have statistics for the
    column's type.
    """
    data_type = field.data_type
    if not field.nullable or not field.metadata.keys() <= _METADATA:
        return False
    if isinstance(data_type, StructType):
        return len(data_type) > 0 and all(map(_is_plain, data_type))
    return data_type in _TYPES or isinstance(data_type, DecimalType)


def _in_table_order(frame: Any, state: TransactionState) -> Any:
    """Return a DataFrame with exactly the table's columns, in the table's order.

    Missing columns are NULL. Returns None if the DataFrame has a column that isn't in the table, or
    that has another type in the table.
    """
    rows = from_spark(frame.schema, table=state.table)
    by_name = {field.name.lower(): field for field in rows}
    known = {field.name.lower() for field in state.schema}
    if len(by_name) != len(rows) or not by_name.keys() <= known:
        return None
    columns = []
    for field in state.schema:
        column = by_name.get(field.name.lower())
        if column is None:
            spark_type = to_spark(StructType((field,))).fields[0].dataType
            columns.append(functions.lit(None).cast(spark_type).alias(field.name))
        elif not same_type(column.data_type, field.data_type):
            return None
        else:
            columns.append(functions.col(quote_identifier(column.name)))
    names = [field.name.lower() for field in state.schema]
    if [name.lower() for name in rows.names] == names:
        return frame.select("*")  # each write evaluates functions such as `now` again
    return frame.select(*columns)


def _file_schema(schema: StructType, *, mapped: bool) -> SparkStruct:
    """Return the Spark schema of the files to write. All fields are nullable.

    Args:
        mapped: whether the table has column mapping. If True, the fields have their physical names
            and column mapping ids.
    """
    return SparkStruct([_file_field(field, mapped=mapped) for field in schema])


def _file_field(field: StructField, *, mapped: bool) -> SparkField:
    data_type: DataType = field.data_type
    if isinstance(data_type, StructType):
        spark_type: Any = _file_schema(data_type, mapped=mapped)
    else:
        spark_type = to_spark(StructType((field,))).fields[0].dataType
    name = physical_name(field) if mapped else field.name
    metadata = {"parquet.field.id": field.metadata[ID_KEY]} if mapped else {}
    return SparkField(name, spark_type, nullable=True, metadata=metadata)


@contextlib.contextmanager
def _new_folders_deleted(path: str) -> Iterator[None]:
    """Context manager: if the write fails, delete the folders that the write has created.

    Args:
        path: the table's path. A write creates this folder and its parents if they are missing.
    """
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # it isn't empty, or was never created
            for folder in missing:
                os.rmdir(folder)
        raise


def _sync(path: str) -> None:
    """Sync a file to the disk.

    Spark's writer doesn't sync its files. Without the sync, a commit could refer to lost data.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
