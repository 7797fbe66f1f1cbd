"""Files of a scan, as columns (`ScanFileBatch`) and as objects (`ScanFile`).

A scan row has two columns:

- `add`: struct with the fields of an `add` action, named as in the log (PROTOCOL.md, Add File and
  Remove File), with `stats` as JSON; see `ADD_TYPE`.
- `tableRoot`: string, the table's path, to which `add.path` is relative.

Connectors can read the columns, or call `ScanFileBatch.rows`, which returns a `ScanFile` for each
row.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import CorruptTableError
from bayou.json_decoding import JsonDecoder
from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.row import FilteredColumnarBatch, Row
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.engine import FileStatus
from bayou.kernel.log.listing import damaged_checkpoint
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor, RemoveFile
from bayou.protocol.deletion_vectors import DeletionVectorError, stored_vector
from bayou.protocol.file_names import decode_data_file_uri, is_absolute_uri

_STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR_TYPE = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)
ADD_TYPE = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("partitionValues", _STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("stats", pa.string()),
        pa.field("tags", _STRING_MAP),
        pa.field("deletionVector", DELETION_VECTOR_TYPE),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
        pa.field("clusteringProvider", pa.string()),
    ]
)
_ROOT_TYPE = pa.dictionary(pa.int8(), pa.string())
SCAN_SCHEMA = pa.schema([pa.field("add", ADD_TYPE), pa.field("tableRoot", _ROOT_TYPE)])


class _WireScanFile(msgspec.Struct, frozen=True, array_like=True):
    table_root: str
    add: AddFile


class _NumRecords(msgspec.Struct, frozen=True, rename="camel"):
    num_records: int | None = None
    tight_bounds: bool | None = None


_NUM_RECORDS = JsonDecoder(_NumRecords)
_WIRE = WireFormat("scan file", 1, _WireScanFile)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFile(Row):
    """A logical file that a scan reads: one row of a batch with `SCAN_SCHEMA`.

    Attributes:
        table_root: path of the table.
        add: the `add` action, with `add.path` percent-encoded as in the log.

    Examples:
        >>> print(file.path, file.size, file.partition_values, file.num_records)
    """

    table_root: str
    add: AddFile

    @property
    def path(self) -> str:
        """The path as written in the log."""
        return self.add.path

    @property
    def status(self) -> FileStatus:
        """The data file's absolute decoded path, size in bytes and modification time in ms."""
        return FileStatus(
            path=data_file_path(self.table_root, self.add.path),
            size=self.add.size,
            modification_time=self.add.modification_time,
        )

    @property
    def size(self) -> int:
        """Size of the data file in bytes."""
        return self.add.size

    @property
    def modification_time(self) -> int:
        """Modification time in the log, milliseconds since the epoch."""
        return self.add.modification_time

    @property
    def partition_values(self) -> Mapping[str, str | None]:
        """Serialized partition values by physical column name, as in the log."""
        return self.add.partition_values

    @property
    def deletion_vector(self) -> DeletionVectorDescriptor | None:
        """Descriptor of the deletion vector; None if the file has no deletion vector."""
        return self.add.deletion_vector

    @property
    def num_records(self) -> int | None:
        """Number of rows, including deleted rows, from the file's statistics; None if unknown.

        The number is unknown if the scan doesn't read statistics. If the file has a deletion
        vector, the number is known only if `tightBounds` is false. Otherwise, `numRecords` may
        exclude deleted rows, because some writers, such as Trino's ANALYZE, exclude them.
        """
        if self.add.stats is None:
            return None
        try:
            statistics = _NUM_RECORDS.decode(self.add.stats)
        except msgspec.DecodeError:
            return None
        if self.deletion_vector is not None and statistics.tight_bounds is not False:
            return None
        return statistics.num_records

    def to_bytes(self) -> bytes:
        """Serialize the file for another process."""
        return _WIRE.encode(_WireScanFile(self.table_root, self.add))

    @classmethod
    def from_bytes(cls, data: bytes) -> ScanFile:
        """Deserialize a scan file from the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes aren't a scan file, or a newer version of Bayou wrote
                them.
        """
        return _WIRE.decode(data, lambda wire: cls(table_root=wire.table_root, add=wire.add))

    def to_batch(self) -> pa.RecordBatch:
        """Return the file as a batch with one scan row."""
        return scan_batch(self.table_root, adds_to_array([self.add]))


@dataclass(frozen=True, slots=True)
class ScanFileBatch(FilteredColumnarBatch):
    """Scan files as a batch with `SCAN_SCHEMA`, and a mask of the files to read.

    Examples:
        >>> with scan.scan_files(engine) as batches:
        ...     for batch in batches:
        ...         print(batch.num_selected, [f.size for f in batch.rows()])
    """

    @closeable
    def rows(self) -> Iterator[ScanFile]:
        """Yield the selected files as objects.

        Raises:
            CorruptTableError: an `add` has no path or no size, or contains a string that isn't
                UTF-8.
        """
        batch = self.selected()
        add: Any = batch.column("add")
        roots: list[Any] = batch.column("tableRoot").to_pylist()
        for required in ("path", "size"):
            if add.field(required).null_count:
                raise damaged_checkpoint(
                    roots[0], f"the checkpoint is damaged: an add action has no {required}"
                )
        try:
            fields = {f.name: _values(add.field(i)) for i, f in enumerate(add.type)}
        except UnicodeDecodeError as error:
            raise damaged_checkpoint(
                roots[0], f"the checkpoint is damaged: a string in it isn't UTF-8 ({error})"
            ) from error
        for i, root in enumerate(roots):
            vector = fields["deletionVector"][i]
            yield ScanFile(
                table_root=root,
                add=AddFile(
                    path=fields["path"][i],
                    partition_values=fields["partitionValues"][i] or {},
                    size=fields["size"][i],
                    modification_time=fields["modificationTime"][i] or 0,
                    data_change=bool(fields["dataChange"][i]),
                    stats=fields["stats"][i],
                    tags=fields["tags"][i],
                    deletion_vector=None
                    if vector is None
                    else DeletionVectorDescriptor(
                        storage_type=vector["storageType"],
                        path_or_inline_dv=vector["pathOrInlineDv"],
                        offset=vector["offset"],
                        size_in_bytes=vector["sizeInBytes"],
                        cardinality=vector["cardinality"],
                    ),
                    base_row_id=fields["baseRowId"][i],
                    default_row_commit_version=fields["defaultRowCommitVersion"][i],
                    clustering_provider=fields["clusteringProvider"][i],
                ),
            )


def data_file_path(table_root: str, uri: str) -> str:
    """Return the absolute path of a data file from its URI in the log.

    Decode every path in a log with this function: it raises an error for a relative path that is
    outside of the table's directory.
    """
    if is_absolute_uri(uri):
        path = decode_data_file_uri(uri)
        if path.startswith("file:"):
            return "/" + path.removeprefix("file:").lstrip("/")
        return path
    path = decode_data_file_uri(uri)
    return path if path.startswith("/") else _relative_path(table_root, path)


def vector_file_path(table_root: str, descriptor: DeletionVectorDescriptor) -> str | None:
    """Return the absolute path of a deletion vector file; None if the vector is inline."""
    if descriptor.storage_type == "i":
        return None
    try:
        stored = stored_vector(descriptor)
    except DeletionVectorError as error:
        raise CorruptTableError(
            f"{table_root}: the descriptor of deletion vector {descriptor.unique_id} is invalid: "
            f"{error}. Restore an earlier version of the table.",
            table=table_root,
        ) from error
    if stored.is_absolute:
        return data_file_path(table_root, stored.path)
    return _relative_path(table_root, stored.path)


def _relative_path(table_root: str, path: str) -> str:
    if ".." in path and f"{posixpath.normpath(path)}/".startswith("../"):
        raise CorruptTableError(
            f"{table_root}: the log references the file {path!r}, a relative path that leaves the "
            "table's directory. Files of other directories must have absolute paths. Restore an "
            "earlier version of the table.",
            table=table_root,
            file=path,
        )
    return f"{table_root}/{path}"


def _values(column: pa.Array[Any]) -> Sequence[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_map(column.type):
        return column.to_pylist(maps_as_pydicts="lossy")
    return column.to_pylist()


def scan_batch(table_root: str, adds: pa.StructArray) -> pa.RecordBatch:
    """Create a batch with `SCAN_SCHEMA` from an array of `ADD_TYPE`."""
    roots = pa.DictionaryArray.from_arrays(
        pa.repeat(to_scalar(0, pa.int8()), len(adds)), to_array([table_root], pa.string())
    )
    return pa.RecordBatch.from_arrays([adds, roots], schema=SCAN_SCHEMA)


def adds_to_array(adds: Sequence[AddFile]) -> pa.StructArray:
    """Convert actions to a struct array of `ADD_TYPE`."""
    return file_actions_to_array(adds, ADD_TYPE)


def file_actions_to_array(
    actions: Sequence[AddFile | RemoveFile], kind: pa.StructType
) -> pa.StructArray:
    """Convert actions to a struct array of type `kind`, whose fields are named as in the log."""
    columns: list[pa.Array[Any]] = []
    for field in kind:
        values: Any = list(map(attrgetter(_ATTRIBUTES[field.name]), actions))
        convert = _CONVERTERS.get(field.name)
        if convert is not None:
            values = [None if v is None else convert(v) for v in values]
        columns.append(to_array(values, field.type))
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _map_items(strings: Mapping[str, str | None]) -> Any:
    return list(strings.items())


def _vector_fields(vector: DeletionVectorDescriptor) -> Mapping[str, Any]:
    return {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline_dv,
        "offset": vector.offset,
        "sizeInBytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }


_ATTRIBUTES = dict(
    name
    for kind in (AddFile, RemoveFile)
    for name in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
)
_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "partitionValues": _map_items,
    "tags": _map_items,
    "deletionVector": _vector_fields,
}
