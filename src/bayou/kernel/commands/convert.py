"""CONVERT TO DELTA: a folder of Parquet files becomes a table, and no file is touched.

A folder of Parquet files that isn't a table: its files, their partitions, and their schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from bayou.errors import ArgumentError, CommitConflictError, SchemaError, TableNotFoundError
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.file_sink_log import sink_files
from bayou.kernel.engine import Engine, FileStatus, ParquetFooter
from bayou.kernel.log.table_state import load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import partition_values
from bayou.protocol.actions import AddFile
from bayou.protocol.file_names import HIVE_DEFAULT_PARTITION, data_file_path_to_uri
from bayou.protocol.properties import COLUMN_MAPPING_MODE, normalize
from bayou.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
)
from bayou.protocol.stats import FileStatistics

__all__ = [
    "ConvertMetrics",
    "FoundFile",
    "convert",
    "indexed_statistics",
    "merged_schema",
    "parquet_files",
    "read_footers",
]


_REQUESTS = 16
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file below the folder.

    Attributes:
        status: of the file.
        path: decoded, relative to the folder.
        partition_values: serialized, by name of the partition column.
    """

    status: FileStatus
    path: str
    partition_values: Mapping[str, str | None]


def parquet_files(engine: Engine, folder: str, partitions: StructType) -> list[FoundFile]:
    """The folder's files, hidden ones and hidden folders left out, in the order of their paths.

    Where Structured Streaming wrote the folder its log says which files count.

    Args:
        partitions: names and types of the partition columns, as the folders are nested.

    Raises:
        SchemaError: a file whose folders aren't those columns, or whose value isn't of its type.
        CorruptTableError: that log can't be read.
    """
    root = f"{folder}/"
    found: list[FoundFile] = []
    committed = sink_files(engine, folder)
    for file in _listed(engine, folder) if committed is None else committed:
        path = file.path.removeprefix(root)
        values = _partition_values(folder, path, partitions)
        found.append(FoundFile(status=file, path=path, partition_values=values))
    return sorted(found, key=lambda file: file.path)


def read_footers(engine: Engine, files: Iterable[FoundFile]) -> Iterator[ParquetFooter]:
    """Each file's footer, in the order of the files, several read at the same time.

    Raises:
        StorageError: a file that isn't Parquet; names it.
    """

    def read(file: FoundFile) -> ParquetFooter:
        return engine.parquet.read_footer(file.status, None)

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-footers") as pool:
        yield from pool.map(read, files)


def merged_schema(
    folder: str,
    files: Iterable[FoundFile],
    footers: Iterable[ParquetFooter],
    partitions: StructType,
) -> StructType:
    """One schema for all files: every column that any has, nullable, partition columns last.

    A column of a partition column's name in a file is passed over: the folder counts. A file that
    Spark wrote says its columns' types in Spark's terms; those count then. Bytes, shorts and ints
    are one in Parquet: the widest counts.

    Raises:
        SchemaError: files whose columns have different types; names the file.
    """
    merged = StructType(())
    in_folders = {f.name.lower() for f in partitions}
    seen: set[tuple[str | None, str]] = set()
    for file, footer in zip(files, footers, strict=True):
        spark = footer.key_value_metadata.get(_SPARK_SCHEMA)
        key = spark, "" if spark else str(footer.schema)
        if key in seen:
            continue
        seen.add(key)
        try:
            found = _schema(folder, footer, spark, without=in_folders)
            merged = merge_schemas(folder, merged, _nullable(found), of_files=True)
        except SchemaError as error:
            raise SchemaError(
                f"{file.status.path} can't be a file of one table with the other files below "
                f"{folder}: {error} Move it away, or rewrite it.",
                table=folder,
                column=error.column,
            ) from error
    return StructType((*merged, *partitions))


def indexed_statistics(found: FileStatistics, columns: Iterable[str]) -> FileStatistics:
    """The statistics of some columns, named by dotted paths."""
    kept = frozenset(columns)
    return replace(
        found,
        min_values=_kept(found.min_values, kept, ""),
        max_values=_kept(found.max_values, kept, ""),
        null_count=_kept(found.null_count, kept, ""),
    )


def _kept(tree: Mapping[str, object], columns: frozenset[str], prefix: str) -> dict[str, object]:
    kept: dict[str, object] = {}
    for name, value in tree.items():
        path = prefix + name
        if path in columns:
            kept[name] = value
        elif isinstance(value, Mapping):
            below = _kept(value, columns, f"{path}.")
            if below:
                kept[name] = below
    return kept


def _listed(engine: Engine, folder: str) -> Iterator[FileStatus]:
    with engine.files.list_tree(folder, lambda path: _is_hidden(path, folders=True)) as files:
        for file in files:
            if not file.path.endswith("/") and not _is_hidden(file.path):
                yield file


def _is_hidden(path: str, *, folders: bool = False) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(("_", ".")) and not (folders and "=" in name)


def _partition_values(folder: str, path: str, partitions: StructType) -> dict[str, str | None]:
    pairs: list[tuple[str, str]] = []
    for segment in reversed(path.split("/")[:-1]):
        name, equals, value = segment.partition("=")
        if not equals:
            break
        pairs.insert(0, (_unescaped(name), value))
    names = [name for name, _ in pairs]
    if [n.lower() for n in names] != [f.name.lower() for f in partitions]:
        raise SchemaError(
            f"{folder}/{path} is in folders of the partition columns ({', '.join(names)}), not of "
            f"({', '.join(partitions.names)}). Say which columns they are, with their types "
            "(partition_schema).",
            table=folder,
            column=names[0] if names else None,
        )
    return {
        field.name: _partition_value(folder, path, field, text)
        for field, (_, text) in zip(partitions, pairs, strict=True)
    }


def _partition_value(folder: str, path: str, field: StructField, text: str) -> str | None:
    value = None if text == HIVE_DEFAULT_PARTITION else _unescaped(text)
    try:
        typed = partition_values.parse(value, field.data_type)
        return partition_values.serialize(typed, field.data_type)
    except ValueError as error:
        raise SchemaError(
            f"{folder}/{path}: {value!r} isn't a value of partition column {field.name!r} "
            f"({field.data_type}).",
            table=folder,
            column=field.name,
        ) from error


def _unescaped(text: str) -> str:
    return unquote(text, errors="surrogateescape")


def _schema(
    folder: str, footer: ParquetFooter, spark: str | None, *, without: Collection[str]
) -> StructType:
    if spark is not None:
        try:
            found = StructType.from_json(spark)
            return StructType(tuple(f for f in found if f.name.lower() not in without))
        except SchemaJsonError:
            pass  # of a version of Spark with types that we don't know
    columns = [f for f in footer.schema if f.name.lower() not in without]
    return from_arrow_schema(pa.schema(columns), table=folder)


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
class ConvertMetrics:
    """What was converted.

    Attributes:
        version: the table's version.
        num_converted_files: 0 where it was a table already.
    """

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
) -> ConvertMetrics:
    """Write the first commit of a table over a folder's Parquet files; a table stays as it is.

    Schema and statistics come from the files' footers. Hidden files and folders (`_SUCCESS`,
    `_metadata`, `.tmp`) aren't the table's.

    Args:
        folder: decoded, fully qualified.
        partition_schema: the partition columns, as the folders are nested (`day=2024-01-05`).
        properties: of the new table; column mapping isn't for files that are there already.
        collect_statistics: whether files get statistics, which filters skip files by.

    Raises:
        ArgumentError: no file, or properties that don't go with files that are there.
        SchemaError: files of different types, or in folders of other partition columns.
        StorageError: a file that isn't Parquet.
        TablePropertyError, UnsupportedFeatureError: the table can't be made so.
    """
    known = _version(engine, folder)
    if known is not None:
        return ConvertMetrics(version=known, num_converted_files=0)
    wanted = dict(properties or {})
    if COLUMN_MAPPING_MODE.read(normalize(wanted)) != "none":
        raise ArgumentError(
            f"The files below {folder} know their columns by name: the table can't begin with "
            "column mapping. Convert it without, and turn it on afterwards.",
            argument="properties",
        )
    partitions = partition_schema or StructType(())
    files = parquet_files(engine, folder, partitions)
    if not files:
        raise ArgumentError(
            f"There is no Parquet file below {folder}; hidden files and folders don't count.",
            argument="path",
        )
    footers = list(read_footers(engine, files))
    transaction = (
        TransactionBuilder(
            table=folder, read_state=None, engine_info=engine_info, operation=Operation.CONVERT
        )
        .with_schema(merged_schema(folder, files, footers, partitions))
        .with_partition_columns(partitions.names)
        .with_table_properties(wanted)
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
    if transaction.read_version >= 0:  # made meanwhile
        return ConvertMetrics(version=transaction.read_version, num_converted_files=0)
    state = transaction.transaction_state(engine)
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
    files: Sequence[FoundFile],
    footers: Sequence[ParquetFooter],
    *,
    collect_statistics: bool,
) -> Iterator[AddFile]:
    columns = state.statistics_columns()
    for file, footer in zip(files, footers, strict=True):
        found = indexed_statistics(footer.statistics, columns)
        yield AddFile(
            path=data_file_path_to_uri(file.path),
            partition_values=dict(file.partition_values),
            size=file.status.size,
            modification_time=file.status.modification_time,
            data_change=True,
            stats=state.statistics_text(found) if collect_statistics else None,
        )
