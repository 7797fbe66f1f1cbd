"""The scan state, with which any process can read files of a scan. Also encodes scans as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import CorruptTableError, SchemaError, UnsupportedFeatureError
from bayou.kernel.arrow.serialization import WireFormat, array_from_bytes, array_to_bytes
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.checkpoint.add_files import StatsForm
from bayou.kernel.engine import METADATA_COLUMN_KEY, ROW_INDEX
from bayou.kernel.expressions.model import Predicate
from bayou.kernel.expressions.serialization import from_tree, to_tree
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.scan.scan_definition import ScanDefinition, ScanSource
from bayou.kernel.table_features.column_mapping import (
    ColumnMappingMode,
    physical_field,
    physical_name,
    physical_path,
)
from bayou.protocol.actions import CHANGE_TYPE
from bayou.protocol.schema import VOID, StructField, StructType

FILE_PATH = "_metadata.file_path"
FILE_NAME = "_metadata.file_name"
FILE_SIZE = "_metadata.file_size"
FILE_MODIFICATION_TIME = "_metadata.file_modification_time"
ROW_INDEX_COLUMN = "_metadata.row_index"
ROW_ID = "_metadata.row_id"
ROW_COMMIT_VERSION = "_metadata.row_commit_version"

_METADATA_TYPES: dict[str, pa.DataType] = {
    FILE_PATH: pa.string(),
    FILE_NAME: pa.string(),
    FILE_SIZE: pa.int64(),
    FILE_MODIFICATION_TIME: pa.timestamp("us", tz="UTC"),
    ROW_INDEX_COLUMN: pa.int64(),
    ROW_ID: pa.int64(),
    ROW_COMMIT_VERSION: pa.int64(),
}
METADATA_COLUMNS = tuple(_METADATA_TYPES)


def check_metadata_columns(
    table: str, names: tuple[str, ...], *, has_row_tracking: bool
) -> tuple[str, ...]:
    """Check that all names are metadata columns of the table, and return the names."""
    for name in names:
        if name not in METADATA_COLUMNS:
            raise SchemaError(
                f"{table}: {name!r} isn't a metadata column. Use one of "
                f"{', '.join(METADATA_COLUMNS)}.",
                table=table,
                column=name,
            )
        if name in (ROW_ID, ROW_COMMIT_VERSION) and not has_row_tracking:
            raise UnsupportedFeatureError(
                f"{table}: the table has no {name}, because row tracking is disabled. Set the "
                "table property delta.enableRowTracking.",
                table=table,
                features=["rowTracking"],
            )
    return names


class _WireScanState(msgspec.Struct, frozen=True, array_like=True):
    table: str
    logical_schema: str
    partition_columns: tuple[str, ...]
    metadata_columns: tuple[str, ...]
    row_tracking: tuple[str, str] | None
    predicate: list[Any] | None
    column_mapping: ColumnMappingMode
    deletion_vectors: bool
    time_zone: str = "UTC"
    dictionary_columns: tuple[str, ...] = ()


_WIRE = WireFormat("scan state", 1, _WireScanState)


@dataclass(frozen=True, kw_only=True)
class ScanState:
    """The state that is needed to read any file of a scan.

    Attributes:
        table: path of the table.
        logical_schema: columns of the scan's rows, in order.
        partition_columns: logical names of the partition columns, in the table's order.
        metadata_columns: names of the metadata columns that are appended to the rows. Possible
            names are `METADATA_COLUMNS` and, for files of the change data feed, `_change_type`.
        row_tracking: physical names of two materialized columns: index 0 for row ids, index 1 for
            row commit versions. None if row tracking is disabled.
        predicate: predicate on logical names, with which the engine can skip row groups.
        column_mapping: column mapping mode of the data files.
        deletion_vectors: whether files may have deletion vectors.
        time_zone: time zone for `timestamp` partition values whose strings have no time zone.
        dictionary_columns: logical names of string columns to return as dictionary arrays. Columns
            with few different values are read faster in this form.

    Examples:
        >>> state = ScanState.from_bytes(scan.scan_state(engine).to_bytes())
        >>> print(state.logical_arrow_schema.names)
    """

    table: str
    logical_schema: StructType
    partition_columns: tuple[str, ...]
    metadata_columns: tuple[str, ...] = ()
    row_tracking: tuple[str, str] | None = None
    predicate: Predicate | None = None
    column_mapping: ColumnMappingMode = "none"
    deletion_vectors: bool = False
    time_zone: str = "UTC"
    dictionary_columns: tuple[str, ...] = ()

    @cached_property
    def logical_arrow_schema(self) -> pa.Schema:
        """Schema of the batches that `transform_physical_data` returns."""
        fields: list[pa.Field[Any]] = [
            pa.field(CHANGE_TYPE, pa.string())
            if name == CHANGE_TYPE
            else pa.field(name, _METADATA_TYPES[name], False)
            for name in self.metadata_columns
        ]
        columns = map(self._in_result, to_arrow_schema(self.logical_schema))
        return pa.schema([*columns, *fields])

    @cached_property
    def data_columns(self) -> tuple[StructField, ...]:
        """The columns of `logical_schema` without partition columns and void columns."""
        return tuple(
            f
            for f in self.logical_schema
            if f.name not in self.partition_columns and f.data_type != VOID
        )

    @cached_property
    def physical_read_schema(self) -> pa.Schema:
        """Columns to read from a data file, with physical names.

        The order of the columns is:

        - `data_columns`. They are nullable, because a file may be older than a column. In column
          mapping mode `id`, every field has its id (`FIELD_ID_KEY`).
        - The materialized row ids and row commit versions, if requested.
        - `_change_type`, if requested.
        - The row index, if it is requested or needed for row ids or deletion vectors. If there are
          no other columns, the row index is read too, because a batch without columns has no row
          count.

        Raises:
            CorruptTableError: the column mapping mode is `id`, and a column has no id.
        """
        try:
            fields = [
                self._in_result(physical_field(f, self.column_mapping), f.name)
                for f in self.data_columns
            ]
        except ValueError as error:
            raise CorruptTableError(
                f"{self.table}: the schema is incomplete: {error}. Restore an earlier version of "
                "the table.",
                table=self.table,
            ) from error
        row_id, commit_version = self.row_tracking or ("", "")
        if ROW_ID in self.metadata_columns and row_id:
            fields.append(pa.field(row_id, pa.int64()))
        if ROW_COMMIT_VERSION in self.metadata_columns and commit_version:
            fields.append(pa.field(commit_version, pa.int64()))
        if CHANGE_TYPE in self.metadata_columns:
            fields.append(pa.field(CHANGE_TYPE, pa.string()))
        reads_row_index = {ROW_INDEX_COLUMN, ROW_ID} & set(self.metadata_columns)
        if reads_row_index or self.deletion_vectors or not fields:
            fields.append(
                pa.field(ROW_INDEX_COLUMN, pa.int64(), metadata={METADATA_COLUMN_KEY: ROW_INDEX})
            )
        return pa.schema(fields)

    @cached_property
    def reads_as_is(self) -> bool:
        """Whether `physical_read_schema` and `logical_arrow_schema` are equal.

        If they are equal, the rows of data files without a deletion vector are returned unchanged.
        """
        return self.physical_read_schema.equals(self.logical_arrow_schema, check_metadata=True)

    @cached_property
    def physical_predicate(self) -> Predicate | None:
        """`predicate` with physical names, for `read_parquet_files`."""
        if self.predicate is None or self.column_mapping == "none":
            return self.predicate
        try:
            from bayou.kernel.expressions.resolution import map_columns

            return map_columns(
                self.predicate, lambda path: physical_path(self.logical_schema, path)
            )
        except KeyError:  # the predicate references a field that isn't read
            return None

    def _in_result(self, field: pa.Field[Any], name: str | None = None) -> pa.Field[Any]:
        """Return `field` with the Arrow type of its values in the scan's rows.

        The type is a dictionary of strings for the `dictionary_columns`. Other types don't change.

        Args:
            name: logical name of the column. If None, the name of `field` is the logical name.
        """
        encoded = (name or field.name) in self.dictionary_columns
        return field.with_type(pa.dictionary(pa.int32(), pa.string())) if encoded else field

    def partition_key(self, field: StructField) -> str:
        """Return the name of a partition column in `add.partitionValues`."""
        return field.name if self.column_mapping == "none" else physical_name(field)

    def to_bytes(self) -> bytes:
        """Serialize the state for another process."""
        return _WIRE.encode(
            _WireScanState(
                self.table,
                self.logical_schema.to_json(),
                self.partition_columns,
                self.metadata_columns,
                self.row_tracking,
                None if self.predicate is None else to_tree(self.predicate),
                self.column_mapping,
                self.deletion_vectors,
                self.time_zone,
                self.dictionary_columns,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> ScanState:
        """Deserialize a scan state from the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes aren't a scan state, or a newer version of Bayou wrote
                them.
        """
        return _WIRE.decode(
            data,
            lambda wire: cls(
                table=wire.table,
                logical_schema=StructType.from_json(wire.logical_schema),
                partition_columns=wire.partition_columns,
                metadata_columns=wire.metadata_columns,
                row_tracking=wire.row_tracking,
                predicate=None if wire.predicate is None else from_tree(wire.predicate),
                column_mapping=wire.column_mapping,
                deletion_vectors=wire.deletion_vectors,
                time_zone=wire.time_zone,
                dictionary_columns=wire.dictionary_columns,
            ),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def encode_scan(scan: ScanDefinition) -> bytes:
    """Serialize a scan definition for a process that replays slices.

    The log files and the live files aren't included, because each `LogSlice` contains the ones that
    are needed to replay it.
    """
    source = scan.source
    wire = _WireScan(
        table=source.table,
        schema=source.schema.to_json(),
        partition_columns=source.partition_columns,
        columns=source.columns,
        seen_keys=array_to_bytes(source.seen_keys.keys),
        seen_paths=array_to_bytes(source.seen_keys.paths),
        predicate=None if scan.predicate is None else to_tree(scan.predicate),
        read_schema=scan.read_schema.to_json(),
        statistics=scan.statistics,
        metadata_columns=scan.metadata_columns,
        row_tracking=source.row_tracking,
        column_mapping=source.column_mapping,
        stats_forms=source.stats_forms,
        exact_double_files=array_to_bytes(source.exact_double_files),
        time_zone=scan.time_zone,
        dictionary_columns=scan.dictionary_columns,
    )
    return _WIRE_FORMAT.encode(wire)


def decode_scan(data: bytes) -> ScanDefinition:
    """Deserialize a scan definition.

    A scan with this definition can replay slices, but can't create them.
    """
    return _WIRE_FORMAT.decode(data, _definition)


class _WireScan(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    table: str
    schema: str
    partition_columns: tuple[str, ...]
    columns: tuple[str, ...]
    seen_keys: bytes
    seen_paths: bytes
    predicate: list[Any] | None
    read_schema: str
    statistics: bool
    metadata_columns: tuple[str, ...]
    row_tracking: tuple[str, str] | None
    column_mapping: ColumnMappingMode
    stats_forms: tuple[StatsForm, ...]
    exact_double_files: bytes | None = None
    time_zone: str = "UTC"
    dictionary_columns: tuple[str, ...] = ()


_WIRE_FORMAT = WireFormat("scan", 1, _WireScan)


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
        checksum_totals=None,
        seen_keys=FileActionKeys(
            array_from_bytes(wire.seen_paths), array_from_bytes(wire.seen_keys)
        ),
        tail=None,
        exact_double_files=pa.nulls(0, pa.string())
        if wire.exact_double_files is None
        else array_from_bytes(wire.exact_double_files),
        row_tracking=wire.row_tracking,
        column_mapping=wire.column_mapping,
        stats_forms=wire.stats_forms,
    )
    return ScanDefinition(
        source=source,
        predicate=None if wire.predicate is None else from_tree(wire.predicate),
        read_schema=StructType.from_json(wire.read_schema),
        statistics=wire.statistics,
        metadata_columns=wire.metadata_columns,
        time_zone=wire.time_zone,
        dictionary_columns=wire.dictionary_columns,
    )
