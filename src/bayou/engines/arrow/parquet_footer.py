"""A Parquet file's footer: schema, statistics, metadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayou.engines.arrow.parquet_reader import OpenParquet
from bayou.engines.arrow.statistics import StatisticsCollector
from bayou.engines.footer_check import counts_nan
from bayou.engines.legacy_calendar import int96_leaves, marked, with_instants
from bayou.kernel.engine import FileStatus, FileSystemClient, ParquetFooter, ParquetWriteOptions
from bayou.protocol.stats import FileStatistics

__all__ = ["read_footer"]

_PREFIX_LENGTH = ParquetWriteOptions().string_prefix_length


def read_footer(
    files: FileSystemClient, file: FileStatus, statistics_columns: Sequence[str] | None
) -> ParquetFooter:
    """The footer of one file; raises as `ParquetHandler.read_footer` says."""
    with OpenParquet(files, file.path, file.size) as opened:
        footer = opened.metadata
        int96 = int96_leaves(footer)
        given = opened.reader.schema_arrow
        schema = with_instants(given.remove_metadata(), int96)
        if statistics_columns is None:
            statistics_columns = schema.names
        collector = StatisticsCollector(
            schema,
            statistics_columns,
            _PREFIX_LENGTH,
            without_bounds=int96,
            rows_are_seen=False,
            counts_nan=counts_nan(footer.created_by),
        )
        statistics = collector.finish(footer)
        if marked(given, footer.schema) is not given:
            statistics = _without_times(statistics)
        return ParquetFooter(
            schema=schema,
            statistics=statistics,
            key_value_metadata=_texts(footer.metadata or {}),
        )


def _without_times(statistics: FileStatistics) -> FileStatistics:
    """Without bounds in Spark's old calendar."""
    return replace(
        statistics,
        min_values=_untimed(statistics.min_values),
        max_values=_untimed(statistics.max_values),
    )


def _untimed(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _untimed(value) if isinstance(value, Mapping) else value
        for name, value in bounds.items()
        if not isinstance(value, dt.date)
    }


def _texts(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in metadata.items():
        try:
            texts[key.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return texts
