"""The transaction state, which another process needs to write data files of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.engine import FIELD_ID_KEY, ParquetWriteOptions
from bayou.kernel.table_features.column_mapping import (
    ColumnMappingMode,
    column_mapping_mode,
    physical_name,
    physical_write_schema,
)
from bayou.kernel.table_features.iceberg_compat import (
    COMPAT_VERSION_TAG,
    iceberg_compat_version,
    row_tracking_field_ids,
)
from bayou.protocol import column_metadata, stats
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import VOID, DataType, StructField, StructType
from bayou.protocol.stats import FileStatistics

_DEFAULT_TARGET_FILE_SIZE = 128 * 1024 * 1024


class _WireState(msgspec.Struct, frozen=True, array_like=True):
    table: str
    schema: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    generated_identity: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    materializes_partitions: bool
    conditions: tuple[str, ...]
    data_change: bool
    records_inserts: bool
    max_records_per_file: int | None
    compression: str | None
    target_file_size: int | None
    says_tight_bounds: bool


_WIRE = WireFormat("transaction state", 7, _WireState)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """The write context of one partition: directory, statistics columns and Parquet options.

    Attributes:
        target_directory: decoded path of the directory.
        statistics_columns: dotted physical paths of the columns with statistics.
        partition_values: serialized values by physical name of the partition column.
        options: options of the Parquet writer.

    Examples:
        >>> state = transaction.transaction_state(engine)
        >>> context = Transaction.get_write_context(engine, state, {"country": "NZ"})
        >>> print(context.target_directory, context.statistics_columns)
    """

    target_directory: str
    statistics_columns: tuple[str, ...]
    partition_values: Mapping[str, str | None]
    options: ParquetWriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """The serializable state with which any process can write data files of a transaction.

    Attributes:
        table: path of the table.
        schema: the table's schema after the commit.
        partition_columns: names, outermost partition directory first.
        configuration: table properties.
        generated_identity: identity columns whose values the writer generates.
        clustering_columns: dotted physical paths.
        materializes_partitions: whether data files also contain the partition columns.
        conditions: SQL conditions that every row must satisfy, in addition to the table's
            constraints.
        data_change: `dataChange` of the files; False if the rows are only rewritten.
        records_inserts: whether rows are also written to change data files, as inserts.
        max_records_per_file: maximum number of rows of a data file; None for no maximum.
        compression: Parquet codec; None for the codec in `delta.parquet.compression.codec`.
        target_file_size: size in bytes; None for the size in `delta.targetFileSize`.
        records_tight_bounds: whether statistics contain `tightBounds: true`, as in tables with
            deletion vectors.
        writer: (index of this writer, number of writers). Each writer generates different
            identity values.
        identity_counts: number of identity values that this writer has generated, by column.

    Examples:
        >>> state = TransactionState.from_bytes(transaction.transaction_state(engine).to_bytes())
        >>> adds = write_data(engine, state, rows)  # in any process
    """

    table: str
    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    generated_identity: tuple[str, ...] = ()
    clustering_columns: tuple[str, ...] = ()
    materializes_partitions: bool = False
    conditions: tuple[str, ...] = ()
    data_change: bool = True
    records_inserts: bool = False
    max_records_per_file: int | None = None
    compression: str | None = None
    target_file_size: int | None = None
    records_tight_bounds: bool = False
    writer: tuple[int, int] = field(default=(0, 1), compare=False)
    identity_counts: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def for_writer(self, index: int, count: int) -> TransactionState:
        """Return the state for one of several writers that generate distinct identity values.

        Args:
            index: index of the writer from 0, unique within the transaction.
            count: number of writers.
        """
        return replace(self, writer=(index, count), identity_counts={})

    def allows_files_of(self, other: TransactionState) -> bool:
        """Whether this transaction can add data files that were written with the state `other`.

        Both states must have the same columns, physical names, partition columns and Iceberg
        compatibility version. `other` must have all CHECK constraints of this transaction's table.
        """
        constraints = column_metadata.check_constraints(other.configuration).items()
        return (
            _fields(self.schema) == _fields(other.schema)
            and self.partition_columns == other.partition_columns
            and self.materializes_partitions == other.materializes_partitions
            and self.iceberg_compat == other.iceberg_compat
            and column_metadata.check_constraints(self.configuration).items() <= constraints
        )

    def reserve_identity_values(self, column: str, count: int) -> int:
        """Reserve `count` identity values of a column; return how many were reserved earlier."""
        before = self.identity_counts.get(column, 0)
        self.identity_counts[column] = before + count
        return before

    @property
    def column_mapping(self) -> ColumnMappingMode:
        """The column mapping mode of the data files."""
        return column_mapping_mode(self.configuration)

    @property
    def iceberg_compat(self) -> int | None:
        """The version of Iceberg compatibility that new files follow; None if it isn't enabled."""
        return iceberg_compat_version(self.configuration)

    @property
    def file_tags(self) -> dict[str, str | None]:
        """Tags of the `add` actions of new files."""
        version = self.iceberg_compat or 0
        return {COMPAT_VERSION_TAG: str(version)} if version >= 2 else {}

    def row_tracking_field(self, name: str, *, is_row_id: bool) -> pa.Field[Any]:
        """Return the Arrow field of materialized row ids or row commit versions.

        Args:
            name: physical name of the column.
            is_row_id: True for row ids, False for row commit versions.
        """
        ids = row_tracking_field_ids(self.configuration)
        field_id = None if ids is None else ids[0 if is_row_id else 1]
        metadata: Any = None if field_id is None else {FIELD_ID_KEY: str(field_id).encode()}
        return pa.field(name, pa.int64(), metadata=metadata)

    @property
    def physical_schema(self) -> pa.Schema:
        """The Arrow schema of data files: `data_schema` with physical names and field ids."""
        return physical_write_schema(self.data_schema, self.column_mapping)

    def physical_name(self, column: str) -> str:
        """Return a column's name in the log and in data files."""
        return physical_name(self.schema.select([column]).fields[0])

    def partition_values(self, values: Sequence[str | None]) -> dict[str, str | None]:
        """Return partition values by physical column name.

        Args:
            values: serialized values, in the order of `partition_columns`.
        """
        names = [self.physical_name(name) for name in self.partition_columns]
        return dict(zip(names, values, strict=True))

    @property
    def data_schema(self) -> StructType:
        """The columns in data files, without void columns.

        Materialized partition columns come last (PROTOCOL.md, Iceberg Compatibility V1).
        """
        columns = [f for f in self.schema if f.data_type != VOID]
        data = [f for f in columns if f.name not in self.partition_columns]
        if self.materializes_partitions:
            data += [f for f in columns if f.name in self.partition_columns]
        return StructType(tuple(data))

    @property
    def parquet_options(self) -> ParquetWriteOptions:
        """Parquet options from the table properties."""
        properties = TableProperties(self.configuration)
        return ParquetWriteOptions(
            compression=self.compression or properties.compression_codec,
            target_file_size=self.target_file_size
            or properties.target_file_size
            or _DEFAULT_TARGET_FILE_SIZE,
            string_prefix_length=properties.string_prefix_length,
            max_rows_per_file=self.max_records_per_file,
        )

    def statistics_json(self, statistics: FileStatistics) -> str:
        """Encode `add.stats` for a new file (PROTOCOL.md, Per-file Statistics)."""
        if self.records_tight_bounds and statistics.tight_bounds is None:
            statistics = replace(statistics, tight_bounds=True)
        return stats.to_json(statistics)

    def statistics_columns(self) -> tuple[str, ...]:
        """Return the dotted physical paths of the leaf columns that get statistics.

        If `delta.dataSkippingStatsColumns` is set, these are the columns in this property.
        Otherwise, these are the first `delta.dataSkippingNumIndexedCols` leaf columns. Clustering
        columns and generated identity columns are always added.
        """
        properties = TableProperties(self.configuration)
        configured = properties.data_skipping_columns
        if configured is not None:
            return self._with_required([".".join(self._physical(path)) for path in configured])
        leaves = [
            path
            for f in self.data_schema
            if f.name not in self.partition_columns
            for path in _leaves(physical_name(f), f.data_type)
        ]
        count = properties.data_skipping_column_count
        return self._with_required(leaves if count < 0 else leaves[:count])

    def _with_required(self, paths: list[str]) -> tuple[str, ...]:
        """Add the columns that always need statistics to `paths`.

        These are the clustering columns and the identity columns with generated values. The commit
        takes the high water mark of an identity column from the bounds in the statistics.
        """
        generated = [self.physical_name(name) for name in self.generated_identity]
        return tuple(dict.fromkeys([*paths, *generated, *self.clustering_columns]))

    def _physical(self, path: tuple[str, ...]) -> tuple[str, ...]:
        names: list[str] = []
        level: DataType = self.schema
        for step in path:
            field = level.get(step) if isinstance(level, StructType) else None
            if field is None:
                return path
            names.append(physical_name(field))
            level = field.data_type
        return tuple(names)

    def to_bytes(self) -> bytes:
        """Serialize the state for another process."""
        return _WIRE.encode(
            _WireState(
                self.table,
                self.schema.to_json(),
                self.partition_columns,
                dict(self.configuration),
                self.generated_identity,
                self.clustering_columns,
                self.materializes_partitions,
                self.conditions,
                self.data_change,
                self.records_inserts,
                self.max_records_per_file,
                self.compression,
                self.target_file_size,
                self.records_tight_bounds,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> TransactionState:
        """Deserialize the result of `to_bytes`.

        Raises:
            SerializationError: the bytes aren't a transaction state of this version of Bayou.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                table=wire.table,
                schema=StructType.from_json(wire.schema),
                partition_columns=wire.partition_columns,
                configuration=wire.configuration,
                generated_identity=wire.generated_identity,
                clustering_columns=wire.clustering_columns,
                materializes_partitions=wire.materializes_partitions,
                conditions=wire.conditions,
                data_change=wire.data_change,
                records_inserts=wire.records_inserts,
                max_records_per_file=wire.max_records_per_file,
                compression=wire.compression,
                target_file_size=wire.target_file_size,
                records_tight_bounds=wire.says_tight_bounds,
                writer=(0, 0),
            ),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def _fields(schema: StructType) -> list[StructField]:
    return [
        replace(f, metadata={k: v for k, v in f.metadata.items() if k != "comment"}) for f in schema
    ]


def _leaves(path: str, data_type: DataType) -> list[str]:
    if isinstance(data_type, StructType):
        return [
            leaf for f in data_type for leaf in _leaves(f"{path}.{physical_name(f)}", f.data_type)
        ]
    return [path]
