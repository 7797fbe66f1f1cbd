"""Reads a Parquet file's footer: schema, statistics and key-value metadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayou.engines.arrow.parquet_files.reader import OpenParquet
from bayou.engines.arrow.parquet_files.statistics import StatisticsCollector
from bayou.engines.arrow.parquet_files.string_decoding import columns_with_small_dictionary
from bayou.engines.footer_check import orders_nan_last
from bayou.engines.legacy_calendar import int96_leaves, mark_legacy_fields, with_int96_timestamps
from bayou.kernel.engine import FileStatus, FileSystemClient, ParquetFooter, ParquetWriteOptions
from bayou.protocol.stats import FileStatistics

_PREFIX_LENGTH = ParquetWriteOptions().string_prefix_length


def read_footer(
    files: FileSystemClient, file: FileStatus, statistics_columns: Sequence[str] | None
) -> ParquetFooter:
    """Return the file's schema, statistics and metadata, from its footer.

    See `ParquetHandler.read_footer` for the arguments.
    """
    with OpenParquet(files, file.path, file.size) as opened:
        footer = opened.metadata
        int96 = int96_leaves(footer)
        file_schema = opened.reader.schema_arrow
        schema = with_int96_timestamps(file_schema.remove_metadata(), int96)
        if statistics_columns is None:
            statistics_columns = schema.names
        collector = StatisticsCollector(
            schema,
            statistics_columns,
            _PREFIX_LENGTH,
            without_bounds=int96,
            rows_are_seen=False,
            counts_nan=orders_nan_last(footer.created_by),
        )
        statistics = collector.finish(footer)
        if mark_legacy_fields(file_schema, footer.schema) is not file_schema:
            statistics = _without_dates(statistics)
        return ParquetFooter(
            schema=schema,
            statistics=statistics,
            key_value_metadata=_decode(footer.metadata or {}),
            dictionary_columns=columns_with_small_dictionary(opened, file_schema),
        )


def read_written_statistics(
    files: FileSystemClient, file: FileStatus, statistics_columns: Sequence[str], prefix_length: int
) -> FileStatistics:
    """Return the statistics of a new file that Spark's Parquet writer has written.

    The statistics are read from the footer. Spark omits the statistics of a column chunk with
    values longer than about 2,000 bytes. The statistics of such a column chunk are computed from
    its values.

    Args:
        prefix_length: number of characters to which the bounds of strings are truncated.
    """
    with OpenParquet(files, file.path, file.size) as opened:
        footer = opened.metadata
        collector = StatisticsCollector(
            opened.reader.schema_arrow.remove_metadata(),
            statistics_columns,
            prefix_length,
            rows_are_seen=False,
            counts_nan=orders_nan_last(footer.created_by),
        )
        for leaf, group in collector.groups_without_statistics(footer):
            rows = opened.reader.read_row_group(group, column_indices=[leaf])
            collector.add_column(leaf, group, rows)
        return collector.finish(footer)


def _without_dates(statistics: FileStatistics) -> FileStatistics:
    """Remove the bounds of dates and timestamps.

    If Spark wrote a file in its legacy calendar, the bounds in the footer are also in this
    calendar. They aren't the bounds of the values that a reader returns.
    """
    return replace(
        statistics,
        min_values=_bounds_without_dates(statistics.min_values),
        max_values=_bounds_without_dates(statistics.max_values),
    )


def _bounds_without_dates(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _bounds_without_dates(value) if isinstance(value, Mapping) else value
        for name, value in bounds.items()
        if not isinstance(value, dt.date)
    }


def _decode(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    decoded: dict[str, str] = {}
    for key, value in metadata.items():
        try:
            decoded[key.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return decoded
