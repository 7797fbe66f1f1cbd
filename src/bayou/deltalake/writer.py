"""`write_deltalake` and `convert_to_deltalake`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from bayou import api
from bayou.api import TableHandle
from bayou.api.argument_checks import engine_and_table
from bayou.api.rows.arrow_stream import RowSource
from bayou.deltalake.properties import (
    BloomFilterProperties,
    ColumnProperties,
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    with_properties,
)
from bayou.deltalake.schema import Schema
from bayou.deltalake.sql_dialect import spark_sql
from bayou.deltalake.table import DeltaTable, without_nulls
from bayou.deltalake.table_version import clean_up_after_commit
from bayou.errors import ArgumentError, ArgumentTypeError, TableAlreadyExistsError

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "WriterProperties",
    "convert_to_deltalake",
    "write_deltalake",
]


def write_deltalake(
    table_or_uri: str | os.PathLike[str] | DeltaTable,
    data: RowSource,
    *,
    partition_by: str | Sequence[str] | None = None,
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    storage_options: Mapping[str, str] | None = None,
    predicate: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Write rows in one commit. A missing table is created; see `bayou.write`.

    Args:
        name, description, configuration: properties of a new table; ignored if the table exists.

    Examples:
        >>> write_deltalake("lake/visits", pa.table({"id": [1]}), mode="append")
    """
    given: object = table_or_uri
    if not isinstance(given, str | os.PathLike | TableHandle):
        raise ArgumentTypeError(
            f"table_or_uri: {given!r} isn't a table. Give a path, a URI or a DeltaTable.",
            argument="table_or_uri",
        )
    handle = given if isinstance(given, TableHandle) else api.table(given, storage_options)
    engine, table = engine_and_table(handle)
    engine = with_properties(
        engine, commit_properties, post_commithook_properties, writer_properties
    )
    target = TableHandle(engine, table)
    is_new = not target.exists()
    version = api.write(
        target,
        data,
        mode,
        partition_by,
        without_nulls(configuration) if is_new else None,
        schema_mode=schema_mode,
        predicate=spark_sql(predicate),
        target_file_size=target_file_size,
        name=name if is_new else None,
        description=description if is_new else None,
    )
    clean_up_after_commit(target, post_commithook_properties)
    if isinstance(handle, DeltaTable):
        handle.committed(version)


def convert_to_deltalake(  # noqa: PLR0917 - deltalake's order of parameters
    uri: str | os.PathLike[str],
    mode: Literal["error", "ignore"] = "error",
    partition_by: Schema | None = None,
    partition_strategy: Literal["hive", "directory"] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Convert a folder of Parquet files to a table without rewriting them.

    Args:
        partition_by: the partition columns, in the order of the nested folders.
        partition_strategy: must be `hive` if `partition_by` is set, and None otherwise. The
            partition folders must have names such as `day=2024-01-05`.
    """
    if (partition_by is None) != (partition_strategy is None) or partition_strategy == "directory":
        raise ArgumentError(
            f"partition_strategy: the value is {partition_strategy!r}, but it must be 'hive' with "
            "partition_by, and None without partition_by. Set both arguments or neither. Partition "
            "folders must have names such as day=2024-01-05.",
            argument="partition_strategy",
        )
    handle = api.table(uri, storage_options)
    if handle.exists():
        if mode == "ignore":
            return
        raise TableAlreadyExistsError(
            f"{handle.table_uri}: there is already a Delta table. Set mode='ignore' to keep this "
            "table.",
            table=handle.table_uri,
        )
    engine, table = engine_and_table(handle)
    engine = with_properties(engine, commit_properties, post_commithook_properties)
    TableHandle(engine, table).convert(
        None if partition_by is None else partition_by.to_arrow(),
        configuration=without_nulls(configuration),
        collect_statistics=collect_stats,
        name=name,
        description=description,
    )
