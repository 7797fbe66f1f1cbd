"""Conversion of `add` actions to Iceberg data files: paths, partitions, counts and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayou.errors import BayouError, UniversalFormatError
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.iceberg.iceberg_schema import statistics_columns
from bayou.kernel.iceberg.manifests.entries import DataFile
from bayou.kernel.iceberg.metadata_folder import location
from bayou.kernel.iceberg.values import IcebergValue, lower_bound, partition_value, upper_bound
from bayou.kernel.scan.scan_file import data_file_path
from bayou.kernel.table_features.column_mapping import physical_name, to_physical_schema
from bayou.protocol.actions import AddFile
from bayou.protocol.schema import DataType, StructType
from bayou.protocol.stats import FileStatistics, from_json


class DataFileConverter:
    """Converts `add` actions to Iceberg data files, using the schema of one table version."""

    def __init__(
        self, engine: Engine, table: str, schema: StructType, partition_columns: tuple[str, ...]
    ) -> None:
        self._engine = engine
        self._table = table
        self._physical = to_physical_schema(schema, "name")
        self._columns = tuple(statistics_columns(table, schema))
        fields = [f for name in partition_columns if (f := schema.get(name)) is not None]
        self._partition: tuple[tuple[str, DataType], ...] = tuple(
            (physical_name(field), field.data_type) for field in fields
        )

    def location(self, path: str) -> str:
        """Convert a file's path in the log to the file's URI."""
        return location(data_file_path(self._table, path))

    def convert(self, add: AddFile) -> DataFile:
        """Convert an `add` action to an Iceberg data file.

        Raises:
            UniversalFormatError: the number of rows isn't known, or a partition value is invalid.
        """
        statistics = self._statistics(add)
        records = self._count(add) if statistics is None else statistics.num_records
        value_counts: dict[int, int] = {}
        null_counts: dict[int, int] = {}
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        if statistics is not None:
            # If a file has a deletion vector, some writers count only the nulls of the remaining
            # rows. Therefore its null count is used only if it is 0 or the number of records.
            exact = add.deletion_vector is None
            for column in self._columns:
                nulls = _nested(statistics.null_count, column.path)
                if nulls is not None and (exact or nulls in (0, records)):
                    value_counts[column.field_id] = records
                    null_counts[column.field_id] = nulls
                minimum = _nested(statistics.min_values, column.path)
                if minimum is not None:
                    bound = lower_bound(minimum, column.data_type, was_float=column.was_float)
                    if bound is not None:
                        lower[column.field_id] = bound
                maximum = _nested(statistics.max_values, column.path)
                if maximum is not None:
                    bound = upper_bound(maximum, column.data_type, was_float=column.was_float)
                    if bound is not None:
                        upper[column.field_id] = bound
        return DataFile(
            file_path=self.location(add.path),
            partition=self.partition(add.path, add.partition_values),
            record_count=records,
            file_size_in_bytes=add.size,
            value_counts=value_counts or None,
            null_value_counts=null_counts or None,
            lower_bounds=lower or None,
            upper_bounds=upper or None,
            first_row_id=add.base_row_id,
        )

    def partition(self, path: str, values: Mapping[str, str | None]) -> tuple[IcebergValue, ...]:
        """Convert a file's partition values in the log to values of Iceberg's partition fields.

        Raises:
            UniversalFormatError: a value isn't of the column's type.
        """
        try:
            return tuple(
                partition_value(values.get(name), data_type) for name, data_type in self._partition
            )
        except ValueError as error:
            raise UniversalFormatError(
                f"{self._table}: the Iceberg metadata can't be written: file {path} has an invalid "
                f"partition value: {error}. Rewrite the file.",
                table=self._table,
            ) from error

    def _statistics(self, add: AddFile) -> FileStatistics | None:
        if add.stats is None:
            return None
        try:
            return from_json(add.stats, self._physical)
        except ValueError:
            return None

    def _count(self, add: AddFile) -> int:
        """Read the number of rows from the footer of a data file that has no statistics."""
        path = data_file_path(self._table, add.path)
        status = FileStatus(path=path, size=add.size, modification_time=add.modification_time)
        try:
            return sum(group.num_rows for group in self._engine.parquet.read_row_groups(status))
        except BayouError as error:
            raise UniversalFormatError(
                f"{self._table}: the Iceberg metadata can't be written: file {add.path} has no "
                f"numRecords in its statistics, and its rows can't be counted: {error}",
                table=self._table,
            ) from error


def _nested(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = values.get(path[0])
    for step in path[1:]:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value
