"""CONVERT TO DELTA: a folder of Parquet files becomes a table, and no file is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from bayou.errors import ArgumentError, CommitConflictError, TableNotFoundError
from bayou.kernel.commands.parquet_folder import (
    FoundFile,
    indexed_statistics,
    merged_schema,
    parquet_files,
    read_footers,
)
from bayou.kernel.engine import Engine, ParquetFooter
from bayou.kernel.log.table_state import load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import AddFile
from bayou.protocol.file_names import data_file_path_to_uri
from bayou.protocol.properties import COLUMN_MAPPING_MODE, normalize
from bayou.protocol.schema import StructType

__all__ = ["ConvertMetrics", "convert"]


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
