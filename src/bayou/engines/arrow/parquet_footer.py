"""A Parquet file's footer: schema, statistics, metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayou.engines.arrow.parquet_reader import OpenParquet
from bayou.engines.arrow.statistics import StatisticsCollector
from bayou.engines.int96 import int96_leaves, with_instants
from bayou.kernel.engine import FileStatus, FileSystemClient, ParquetFooter, ParquetWriteOptions

__all__ = ["read_footer"]

_PREFIX_LENGTH = ParquetWriteOptions().string_prefix_length


def read_footer(
    files: FileSystemClient, file: FileStatus, statistics_columns: Sequence[str]
) -> ParquetFooter:
    """The footer of one file; raises as `ParquetHandler.read_footer` says."""
    with OpenParquet(files, file.path, file.size) as opened:
        footer = opened.metadata
        int96 = int96_leaves(footer)
        schema = with_instants(opened.reader.schema_arrow.remove_metadata(), int96)
        collector = StatisticsCollector(
            schema, statistics_columns, _PREFIX_LENGTH, without_bounds=int96, rows_are_seen=False
        )
        return ParquetFooter(
            schema=schema,
            statistics=collector.finish(footer),
            key_value_metadata=_texts(footer.metadata or {}),
        )


def _texts(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in metadata.items():
        try:
            texts[key.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return texts
