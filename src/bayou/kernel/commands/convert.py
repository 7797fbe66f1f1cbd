"""CONVERT TO DELTA: turn a folder of Parquet files into a table without rewriting files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from bayou.errors import ArgumentError, CommitConflictError, SchemaError, TableNotFoundError
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.file_sink_log import SINK_LOG_DIRECTORY, sink_files
from bayou.kernel.commands.metrics_by_name import MetricsByName
from bayou.kernel.engine import Engine, FileStatus, ParquetFooter
from bayou.kernel.log.table_state import load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.metadata_update import check_constraints_unchanged
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.actions import AddFile
from bayou.protocol.file_names import (
    HIVE_DEFAULT_PARTITION,
    LOG_DIRECTORY,
    data_file_path_to_uri,
)
from bayou.protocol.schema import (
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
)
from bayou.protocol.stats import FileStatistics

_REQUESTS = 16
_LOGS = frozenset({LOG_DIRECTORY, SINK_LOG_DIRECTORY})
"""Names of the log folders of Delta and Structured Streaming.

If a folder contains such a log, only the files that the log lists are valid data files.
"""

_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """A Parquet file to be converted.

    Attributes:
        path: path relative to the folder, not URL-encoded.
        partition_values: serialized values by partition column.
    """

    status: FileStatus
    path: str
    partition_values: Mapping[str, str | None]


def parquet_files(engine: Engine, folder: str, partitions: StructType) -> list[ParquetFile]:
    """List the Parquet files of a folder, ordered by path.

    Hidden files and files in hidden folders are omitted. If Structured Streaming wrote the folder,
    only the files in its sink log are listed.

    Args:
        partitions: partition columns in the order in which the folders are nested.

    Raises:
        ArgumentError: a subfolder is a Delta table, or was written by Structured Streaming.
    """
    root = f"{folder}/"
    files: list[ParquetFile] = []
    committed = sink_files(engine, folder)
    for file in _list_files(engine, folder) if committed is None else committed:
        path = file.path.removeprefix(root)
        values = _partition_values(folder, path, partitions)
        files.append(ParquetFile(status=file, path=path, partition_values=values))
    return sorted(files, key=lambda file: file.path)


def read_footers(engine: Engine, files: Iterable[ParquetFile]) -> Iterator[ParquetFooter]:
    """Read footers in parallel; yield one for each file, in the order of `files`."""

    def read(file: ParquetFile) -> ParquetFooter:
        return engine.parquet.read_footer(file.status, None)

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-footers") as pool:
        yield from pool.map(read, files)


def merged_schema(
    folder: str,
    files: Iterable[ParquetFile],
    footers: Iterable[ParquetFooter],
    partitions: StructType,
) -> StructType:
    """Return the columns of all files as nullable columns, followed by the partition columns.

    A column of a file is ignored if it has the name of a partition column. If a file's footer
    contains Spark's schema, that schema is used instead of the Parquet schema. If a column's type
    differs between files, the schemas can be merged only if each type is byte, short or int. The
    column then gets the widest of its types.
    """
    merged = StructType(())
    partition_names = {f.name.lower() for f in partitions}
    seen: set[tuple[str | None, str]] = set()
    for file, footer in zip(files, footers, strict=True):
        spark = footer.key_value_metadata.get(_SPARK_SCHEMA)
        key = spark, "" if spark else str(footer.schema)
        if key in seen:
            continue
        seen.add(key)
        _check_timestamps(file.status.path, footer.schema, partition_names)
        try:
            schema = _schema(folder, footer, spark, without=partition_names)
            merged = merge_schemas(folder, merged, _nullable(schema), from_parquet_files=True)
        except SchemaError as error:
            raise SchemaError(
                f"{file.status.path}: the file's schema can't be merged with the schemas of the "
                f"other files in {folder}. {error} Move the file away, or rewrite it.",
                table=folder,
                column=error.column,
            ) from error
    return StructType((*merged, *partitions))


def indexed_statistics(statistics: FileStatistics, columns: Iterable[str]) -> FileStatistics:
    """Return a file's statistics with bounds and null counts for `columns` only.

    `columns` are dotted paths such as `a.b`.
    """
    indexed = frozenset(columns)
    return replace(
        statistics,
        min_values=_select(statistics.min_values, indexed, ""),
        max_values=_select(statistics.max_values, indexed, ""),
        null_count=_select(statistics.null_count, indexed, ""),
    )


def _select(tree: Mapping[str, object], columns: frozenset[str], prefix: str) -> dict[str, object]:
    selected: dict[str, object] = {}
    for name, value in tree.items():
        path = prefix + name
        if path in columns:
            selected[name] = value
        elif isinstance(value, Mapping):
            children = _select(value, columns, f"{path}.")
            if children:
                selected[name] = children
    return selected


def _list_files(engine: Engine, folder: str) -> list[FileStatus]:
    logs: list[str] = []

    def skips(path: str) -> bool:
        parent, _, name = path.rpartition("/")
        if name in _LOGS and parent != folder:
            logs.append(path.removeprefix(f"{folder}/"))
        return _is_hidden(path, folders=True)

    with engine.files.list_tree(folder, skips) as tree:
        files = [file for file in tree if not file.path.endswith("/")]
    if logs:
        raise ArgumentError(
            f"{folder}: the folder can't be converted, because it contains the log of another "
            f"table ({min(logs)}). Move that table to another folder.",
            argument="path",
        )
    return [file for file in files if not _is_hidden(file.path)]


def _is_hidden(path: str, *, folders: bool = False) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(("_", ".")) and not (folders and "=" in name)


def _partition_values(folder: str, path: str, partitions: StructType) -> dict[str, str | None]:
    pairs: list[tuple[str, str]] = []
    for segment in reversed(path.split("/")[:-1]):
        name, equals, value = segment.partition("=")
        if not equals:
            break
        pairs.insert(0, (_unescape(name), value))
    names = [name for name, _ in pairs]
    if [n.lower() for n in names] != [f.name.lower() for f in partitions]:
        raise SchemaError(
            f"{folder}/{path}: the path has the partition columns ({', '.join(names)}), but the "
            f"partition schema has ({', '.join(partitions.names)}). Pass a partition_schema with "
            "the partition columns of the path.",
            table=folder,
            column=names[0] if names else None,
        )
    return {
        field.name: _partition_value(folder, path, field, value)
        for field, (_, value) in zip(partitions, pairs, strict=True)
    }


def _partition_value(folder: str, path: str, field: StructField, escaped: str) -> str | None:
    value = None if escaped == HIVE_DEFAULT_PARTITION else _unescape(escaped)
    # A timestamp without a time zone is read in the reader's time zone, before and after.
    zoneless = partition_values.lacks_time_zone(value, field.data_type)
    data_type = TIMESTAMP_NTZ if zoneless else field.data_type
    try:
        return partition_values.serialize(partition_values.parse(value, data_type), data_type)
    except ValueError as error:
        raise SchemaError(
            f"{folder}/{path}: {value!r} isn't a value of partition column {field.name!r} "
            f"({field.data_type}). Rename the folder, or change the type in partition_schema.",
            table=folder,
            column=field.name,
        ) from error


def _unescape(value: str) -> str:
    return unquote(value, errors="surrogateescape")


def _schema(
    folder: str, footer: ParquetFooter, spark: str | None, *, without: Collection[str]
) -> StructType:
    if spark is not None:
        try:
            schema = StructType.from_json(spark)
            return StructType(tuple(f for f in schema if f.name.lower() not in without))
        except SchemaJsonError:
            pass  # a newer Spark version with unknown types
    columns = [f for f in footer.schema if f.name.lower() not in without]
    return from_arrow_schema(pa.schema(columns), table=folder)


def _check_timestamps(path: str, schema: pa.Schema, partitions: Collection[str]) -> None:
    """Raise `SchemaError` if a column has nanoseconds, which Spark and Delta Kernel don't read."""
    for field in schema:
        if field.name.lower() not in partitions and _has_nanoseconds(field.type):
            raise SchemaError(
                f"{path}: column {field.name!r} has timestamps in nanoseconds, but the timestamps "
                "of Delta tables have microseconds (PARQUET_TYPE_ILLEGAL). Rewrite the file with "
                "timestamps in microseconds.",
                table=path,
                column=field.name,
            )


def _has_nanoseconds(data_type: Any) -> bool:
    if pa.types.is_timestamp(data_type):
        return bool(data_type.unit == "ns")
    return any(_has_nanoseconds(data_type.field(i).type) for i in range(data_type.num_fields))


def _nullable(schema: StructType) -> StructType:
    return StructType(
        tuple(replace(f, nullable=True, data_type=_nullable_type(f.data_type)) for f in schema)
    )


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return _nullable(data_type)
        case ArrayType():
            element = _nullable_type(data_type.element_type)
            return replace(data_type, element_type=element, contains_null=True)
        case MapType():
            return replace(
                data_type,
                key_type=_nullable_type(data_type.key_type),
                value_type=_nullable_type(data_type.value_type),
                value_contains_null=True,
            )
        case _:
            return data_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertMetrics(MetricsByName):
    """Metrics of a conversion; `num_converted_files` is 0 if the folder is already a table."""

    version: int
    num_converted_files: int


def convert(
    engine: Engine,
    folder: str,
    engine_info: str,
    *,
    partition_schema: StructType | None = None,
    properties: Mapping[str, str] | None = None,
    collect_statistics: bool = True,
    name: str | None = None,
    description: str | None = None,
) -> ConvertMetrics:
    """Convert a folder of Parquet files to a Delta table by writing the table's first commit.

    If the folder is already a Delta table, nothing is changed. Hidden files and folders
    (`_SUCCESS`, `_metadata`, `.tmp`) are ignored.

    Args:
        folder: fully qualified path of the folder, not URL-encoded.
        partition_schema: partition columns in the order of the partition folders
            (`day=2024-01-05`).
        properties: properties of the new table. They can't enable column mapping or add CHECK
            constraints.
        collect_statistics: whether to add statistics from the Parquet footers to the log.
        name, description: name and description in the table's metadata.

    Raises:
        SchemaError: the schemas of the files can't be merged, or a file has a type that a Delta
            table can't have.
    """
    existing = _version(engine, folder)
    if existing is not None:
        return ConvertMetrics(version=existing, num_converted_files=0)
    requested = dict(properties or {})
    check_constraints_unchanged(folder, {}, requested)
    partitions = partition_schema or StructType(())
    files = parquet_files(engine, folder, partitions)
    if not files:
        raise ArgumentError(
            f"{folder}: no Parquet file found; hidden files and folders are ignored. Check the "
            "path.",
            argument="path",
        )
    footers = list(read_footers(engine, files))
    transaction = (
        TransactionBuilder(
            table=folder, read_state=None, engine_info=engine_info, operation=Operation.CONVERT
        )
        .with_schema(merged_schema(folder, files, footers, partitions))
        .with_partition_columns(partitions.names)
        .with_table_properties(requested)
        .with_name(name)
        .with_description(description)
        .with_operation_parameters(
            {
                "numFiles": len(files),
                "partitionedBy": msgspec.json.encode(list(partitions.names)).decode(),
                "collectStats": collect_statistics,
                "sourceFormat": "parquet",
            }
        )
        .build(engine)
    )
    if transaction.read_version >= 0:  # another writer has created the table
        return ConvertMetrics(version=transaction.read_version, num_converted_files=0)
    state = transaction.transaction_state(engine)
    if state.column_mapping != "none":
        raise ArgumentError(
            f"{folder}: existing Parquet files can't be converted with column mapping, "
            "which Iceberg compatibility enables too. Convert the files without these properties, "
            "and enable column mapping afterwards.",
            argument="properties",
        )
    adds = _adds(state, files, footers, collect_statistics=collect_statistics)
    try:
        result = transaction.commit(
            engine, adds, operation_metrics={"numConvertedFiles": len(files)}
        )
    except CommitConflictError:
        version = _version(engine, folder)
        if version is None:
            raise
        return ConvertMetrics(version=version, num_converted_files=0)
    result.run_post_commit_hooks(engine)
    return ConvertMetrics(version=result.version, num_converted_files=len(files))


def _version(engine: Engine, folder: str) -> int | None:
    try:
        return load_table_state(engine, folder).version
    except TableNotFoundError:
        return None


def _adds(
    state: TransactionState,
    files: Sequence[ParquetFile],
    footers: Sequence[ParquetFooter],
    *,
    collect_statistics: bool,
) -> Iterator[AddFile]:
    columns = state.statistics_columns()
    for file, footer in zip(files, footers, strict=True):
        statistics = indexed_statistics(footer.statistics, columns)
        yield AddFile(
            path=data_file_path_to_uri(file.path),
            partition_values=dict(file.partition_values),
            size=file.status.size,
            modification_time=file.status.modification_time,
            data_change=True,
            stats=state.statistics_json(statistics) if collect_statistics else None,
        )
