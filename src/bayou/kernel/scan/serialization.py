"""A scan as bytes, for the processes that replay its slices."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from bayou.kernel.arrow.ipc import array_from_bytes, array_to_bytes
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.checkpoint.add_files import StatsForm
from bayou.kernel.expressions.serialization import from_wire, to_wire
from bayou.kernel.log.file_action_keys import TouchedKeys
from bayou.kernel.scan.source import ScanDefinition, ScanSource
from bayou.kernel.table_features.column_mapping import ColumnMappingMode
from bayou.protocol.schema import StructType

__all__ = ["decode_scan", "encode_scan"]


def encode_scan(scan: ScanDefinition) -> bytes:
    """All but the files of the log, which travel in the slices."""
    source = scan.source
    wire = _WireScan(
        table=source.table,
        schema=source.schema.to_json(),
        partition_columns=source.partition_columns,
        columns=source.columns,
        touched_keys=array_to_bytes(source.touched.keys),
        touched_paths=array_to_bytes(source.touched.paths),
        predicate=None if scan.predicate is None else to_wire(scan.predicate),
        read_schema=scan.read_schema.to_json(),
        statistics=scan.statistics,
        metadata_columns=scan.metadata_columns,
        row_tracking=source.row_tracking,
        column_mapping=source.column_mapping,
        stats_forms=source.stats_forms,
        double_files=array_to_bytes(source.double_files),
        time_zone=scan.time_zone,
    )
    return _WIRE.encode(wire)


def decode_scan(data: bytes) -> ScanDefinition:
    """The inverse of `encode_scan`; its source has no checkpoint and no tail.

    Raises:
        SerializationError: not such bytes, or of a newer version of the package.
    """
    return _WIRE.decode(data, _definition)


class _WireScan(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    table: str
    schema: str
    partition_columns: tuple[str, ...]
    columns: tuple[str, ...]
    touched_keys: bytes
    touched_paths: bytes
    predicate: list[Any] | None
    read_schema: str
    statistics: bool
    metadata_columns: tuple[str, ...]
    row_tracking: tuple[str, str] | None
    column_mapping: ColumnMappingMode
    stats_forms: tuple[StatsForm, ...]
    double_files: bytes | None = None
    time_zone: str = "UTC"


_WIRE = WireFormat("scan", 1, _WireScan)


def _definition(wire: _WireScan) -> ScanDefinition:
    schema = StructType.from_json(wire.schema)
    source = ScanSource(
        table=wire.table,
        schema=schema,
        partition_columns=wire.partition_columns,
        columns=wire.columns,
        version=-1,
        checkpoint=None,
        contents=None,
        stated_totals=None,
        touched=TouchedKeys(
            array_from_bytes(wire.touched_paths), array_from_bytes(wire.touched_keys)
        ),
        tail=None,
        double_files=pa.array([], pa.string())
        if wire.double_files is None
        else array_from_bytes(wire.double_files),
        row_tracking=wire.row_tracking,
        column_mapping=wire.column_mapping,
        stats_forms=wire.stats_forms,
    )
    return ScanDefinition(
        source=source,
        predicate=None if wire.predicate is None else from_wire(wire.predicate),
        read_schema=StructType.from_json(wire.read_schema),
        statistics=wire.statistics,
        metadata_columns=wire.metadata_columns,
        time_zone=wire.time_zone,
    )
