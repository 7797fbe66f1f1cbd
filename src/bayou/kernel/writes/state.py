"""What a worker needs to write files for a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from bayou.kernel.engine import ParquetWriteOptions
from bayou.kernel.wire_format import WireFormat
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import VOID, DataType, StructType

__all__ = ["TransactionState", "WriteContext"]

_DEFAULT_TARGET_FILE_SIZE = 128 * 1024 * 1024


class _WireState(msgspec.Struct, frozen=True, array_like=True):
    table: str
    schema: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]


_WIRE = WireFormat("transaction state", 1, _WireState)


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
    """

    table: str
    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]

    @property
    def data_schema(self) -> StructType:
        """The columns that stand in data files: neither partition columns nor void ones."""
        return StructType(
            tuple(
                f
                for f in self.schema
                if f.name not in self.partition_columns and f.data_type != VOID
            )
        )

    @property
    def parquet_options(self) -> ParquetWriteOptions:
        """How the table's properties want Parquet written."""
        properties = TableProperties(self.configuration)
        return ParquetWriteOptions(
            compression=properties.compression_codec,
            target_file_size=properties.target_file_size or _DEFAULT_TARGET_FILE_SIZE,
        )

    def statistics_columns(self) -> tuple[str, ...]:
        """Leaf columns with statistics (PROTOCOL.md, Per-file Statistics).

        Those that `delta.dataSkippingStatsColumns` names, else the first
        `delta.dataSkippingNumIndexedCols` leaves in the table's order.
        """
        properties = TableProperties(self.configuration)
        named = properties.data_skipping_columns
        if named is not None:
            return tuple(".".join(path) for path in named)
        leaves = [path for f in self.data_schema for path in _leaves(f.name, f.data_type)]
        count = properties.data_skipping_column_count
        return tuple(leaves if count < 0 else leaves[:count])

    def to_bytes(self) -> bytes:
        """For another process."""
        return _WIRE.encode(
            _WireState(
                self.table,
                self.schema.to_json(),
                self.partition_columns,
                dict(self.configuration),
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
            ),
        )


def _leaves(path: str, data_type: DataType) -> list[str]:
    if isinstance(data_type, StructType):
        return [leaf for f in data_type for leaf in _leaves(f"{path}.{f.name}", f.data_type)]
    return [path]
