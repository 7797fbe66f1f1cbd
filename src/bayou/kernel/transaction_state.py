"""What a worker needs to write files for a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.engine import ParquetWriteOptions
from bayou.kernel.table_features.column_mapping import (
    ColumnMappingMode,
    column_mapping_mode,
    physical_name,
    physical_write_schema,
)
from bayou.protocol import column_rules, stats
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import VOID, DataType, StructField, StructType
from bayou.protocol.stats import FileStatistics

__all__ = ["TransactionState", "WriteContext"]

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
    says_tight_bounds: bool


_WIRE = WireFormat("transaction state", 6, _WireState)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """Where the files of one partition go, and what is recorded of them.

    Attributes:
        target_directory: decoded path of the folder.
        statistics_columns: dotted paths of the columns whose statistics are kept.
        partition_values: serialized, by physical name of the partition column.
        options: how Parquet is written.
    """

    target_directory: str
    statistics_columns: tuple[str, ...]
    partition_values: Mapping[str, str | None]
    options: ParquetWriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transaction's table as its writers see it.

    Attributes:
        table: path of the table.
        schema: the table's schema once the transaction is committed.
        partition_columns: in the order of the directories.
        configuration: table properties.
        generated_identity: identity columns that the rows don't bring.
        clustering_columns: their dotted physical paths.
        materializes_partitions: data files hold partition columns, too.
        conditions: SQL texts that must be true of every row, besides the table's constraints.
        data_change: whether the rows are new to the table; False where they only move.
        records_inserts: new rows go to change data files, too: the commit has some.
        max_records_per_file: how many rows a data file holds at most.
        compression: Parquet codec that takes the place of the table's.
        says_tight_bounds: statistics say that their bounds are tight: deletion vectors, which may
            make them wide, are among the table's features.
        writer: which writer of how many this is, see `for_writer`.
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
    says_tight_bounds: bool = False
    writer: tuple[int, int] = field(default=(0, 1), compare=False)
    identity_counts: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def for_writer(self, index: int, count: int) -> TransactionState:
        """The state of one writer of several, which need it where the table has identity columns.

        Args:
            index: its number, from 0; no two writers of the transaction share one.
            count: how many writers there are.
        """
        return replace(self, writer=(index, count), identity_counts={})

    def allows_files_of(self, other: TransactionState) -> bool:
        """Whether data files that were written by another state can be added to this table.

        They can be if they have the same columns under the same physical names, and if their
        writers kept the rules that this table has for rows.
        """
        constraints = column_rules.check_constraints(other.configuration).items()
        return (
            _fields(self.schema) == _fields(other.schema)
            and self.partition_columns == other.partition_columns
            and self.materializes_partitions == other.materializes_partitions
            and column_rules.check_constraints(self.configuration).items() <= constraints
        )

    def given_out(self, column: str, count: int) -> int:
        """How many values of an identity column were given out before; some more are now."""
        before = self.identity_counts.get(column, 0)
        self.identity_counts[column] = before + count
        return before

    @property
    def column_mapping(self) -> ColumnMappingMode:
        """How data files name the columns."""
        return column_mapping_mode(self.configuration)

    @property
    def physical_schema(self) -> pa.Schema:
        """`data_schema` as data files have it: physical names, field ids."""
        return physical_write_schema(self.data_schema, self.column_mapping)

    def physical_name(self, column: str) -> str:
        """A column's name in the log and in data files."""
        return physical_name(self.schema.select([column]).fields[0])

    def partition_values(self, texts: Sequence[str | None]) -> dict[str, str | None]:
        """Serialized values of the partition columns, given in their order, by physical names."""
        names = [self.physical_name(name) for name in self.partition_columns]
        return dict(zip(names, texts, strict=True))

    @property
    def data_schema(self) -> StructType:
        """The columns in data files: no void ones, those of partitions only where asked for."""
        return StructType(
            tuple(
                f
                for f in self.schema
                if (self.materializes_partitions or f.name not in self.partition_columns)
                and f.data_type != VOID
            )
        )

    @property
    def parquet_options(self) -> ParquetWriteOptions:
        """How the table's properties want Parquet written."""
        properties = TableProperties(self.configuration)
        return ParquetWriteOptions(
            compression=self.compression or properties.compression_codec,
            target_file_size=properties.target_file_size or _DEFAULT_TARGET_FILE_SIZE,
            string_prefix_length=properties.string_prefix_length,
            max_rows_per_file=self.max_records_per_file,
        )

    def statistics_text(self, found: FileStatistics) -> str:
        """`add.stats` of a new file (PROTOCOL.md, Per-file Statistics)."""
        if self.says_tight_bounds and found.tight_bounds is None:
            found = replace(found, tight_bounds=True)
        return stats.to_json(found)

    def statistics_columns(self) -> tuple[str, ...]:
        """Leaf columns with statistics, by physical names (PROTOCOL.md, Per-file Statistics).

        Those that `delta.dataSkippingStatsColumns` names, else the first
        `delta.dataSkippingNumIndexedCols` leaves in the table's order.
        """
        properties = TableProperties(self.configuration)
        named = properties.data_skipping_columns
        if named is not None:
            return self._with_needed([".".join(self._physical(path)) for path in named])
        leaves = [
            path
            for f in self.data_schema
            if f.name not in self.partition_columns
            for path in _leaves(physical_name(f), f.data_type)
        ]
        count = properties.data_skipping_column_count
        return self._with_needed(leaves if count < 0 else leaves[:count])

    def _with_needed(self, paths: list[str]) -> tuple[str, ...]:
        """Values given out are known by their statistics; clustered tables live by theirs."""
        made = [self.physical_name(name) for name in self.generated_identity]
        return tuple(dict.fromkeys([*paths, *made, *self.clustering_columns]))

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
        """For another process."""
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
                self.says_tight_bounds,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> TransactionState:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
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
                says_tight_bounds=wire.says_tight_bounds,
                writer=(0, 0),
            ),
        )


def _fields(schema: StructType) -> list[StructField]:
    """The fields without their comments, which say nothing of the rows."""
    return [
        replace(f, metadata={k: v for k, v in f.metadata.items() if k != "comment"}) for f in schema
    ]


def _leaves(path: str, data_type: DataType) -> list[str]:
    if isinstance(data_type, StructType):
        return [
            leaf for f in data_type for leaf in _leaves(f"{path}.{physical_name(f)}", f.data_type)
        ]
    return [path]
