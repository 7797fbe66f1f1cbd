"""pyiceberg's writers of manifests and manifest lists.

pyiceberg's classes write the headers, the metadata and the blocks. They also check the sequence
numbers, and count files, rows and partitions. The subclasses in this module add the following:

- A manifest has blocks of 100 entries, and an index (see `encoded_manifest`).
- Entries of older manifests are copied without decoding them.

pyiceberg 0.12 doesn't write format version 3. When a release of pyiceberg writes it, replace
`ManifestWriterV3` and `ManifestListWriterV3` with the writers of the release.

Import this module only inside functions, because pyiceberg is an optional dependency.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyiceberg.manifest
from pyiceberg.avro.file import SYNC_SIZE, AvroOutputFile
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    PARTITION_FIELD_SUMMARY_TYPE,
    UNASSIGNED_SEQ,
    ManifestContent,
    ManifestListWriter,
    ManifestListWriterV2,
    ManifestWriter,
    ManifestWriterV2,
    PartitionFieldSummary,
    write_manifest_list,
)

from bayou.errors import PrerequisiteError
from bayou.kernel.iceberg.manifests.avro_file import DEFLATE, Block
from bayou.kernel.iceberg.manifests.encoded_manifest import (
    EncodedEntries,
    MovedEntries,
)
from bayou.kernel.iceberg.manifests.entries import (
    DATA_MANIFEST,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
    NewSnapshot,
    PartitionSpec,
)
from bayou.kernel.iceberg.manifests.entry_encoder import EntrySchema, RecordWriter, values_of
from bayou.kernel.iceberg.values import IcebergValue, value_from_bytes

_BLOCK_RECORDS = 100
_FLOATS = ("float", "double")
_USED_ATTRIBUTES: Mapping[type, Sequence[str]] = {
    AvroOutputFile: (
        *("output_file", "file_schema", "schema_name", "sync_bytes", "writer", "encoder"),
        "write_block",
    ),
    ManifestWriter: (
        *("_writer", "_output_file", "_meta", "_partitions", "_min_sequence_number"),
        *("_existing_files", "_existing_rows", "_deleted_files", "_deleted_rows"),
        *("new_writer", "add_entry", "prepare_entry", "to_manifest_file"),
    ),
    ManifestListWriter: ("_writer", "_output_file", "_meta", "add_manifests"),
}


def check_pyiceberg() -> None:
    """Raise a `PrerequisiteError` if pyiceberg's classes lack an attribute that is used here."""
    for used, names in _USED_ATTRIBUTES.items():
        for name in names:
            if name not in used.__annotations__ and not hasattr(used, name):
                raise PrerequisiteError(
                    f"pyiceberg: in this version, {used.__name__} has no {name}, which Bayou uses. "
                    "Install a supported version with pip install 'bayou[iceberg]'.",
                    what="pyiceberg",
                )


class MemoryOutputFile(OutputFile):
    """A file in memory that pyiceberg writes.

    `data` contains the bytes of the file once the stream that `create` returns is closed.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.data = b""

    def __len__(self) -> int:
        return len(self.data)

    def exists(self) -> bool:
        """Whether the file was written."""
        return bool(self.data)

    def to_input_file(self) -> Any:
        """Raise `io.UnsupportedOperation`, because the file can't be read."""
        raise io.UnsupportedOperation(f"{self.location}: this in-memory file can only be written")

    def create(self, overwrite: bool = False) -> Any:
        """Return the stream to write the file."""
        return _MemoryStream(self)


class _MemoryStream(io.BytesIO):
    def __init__(self, file: MemoryOutputFile) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            self._file.data = self.getvalue()
        super().close()


class _EncodedRecordWriter:
    """Value of `AvroOutputFile.writer` for records that are already encoded."""

    def write(self, encoder: Any, record: bytes) -> None:
        encoder.write(record)


class EncodedRecordFile(AvroOutputFile):
    """An Avro file of encoded records, in blocks of 100 records."""

    def __init__(
        self, output_file: OutputFile, schema: Any, schema_name: str, metadata: Mapping[str, str]
    ) -> None:
        # AvroOutputFile's constructor would build a writer for each field, which takes a
        # millisecond.
        self.output_file = output_file
        self.file_schema = schema
        self.schema_name = schema_name
        self.metadata = metadata
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self.writer = _EncodedRecordWriter()
        self._pending: list[bytes] = []

    def write_block(self, objects: Sequence[bytes]) -> None:
        """Add records; each time 100 records are pending, they are written as a block."""
        self._pending += objects
        while len(self._pending) >= _BLOCK_RECORDS:
            super().write_block(self._pending[:_BLOCK_RECORDS])
            del self._pending[:_BLOCK_RECORDS]

    def copy_block(self, block: Block) -> None:
        """Copy a block from another file. Both files must have the same schema and codec."""
        self.flush()
        self.encoder.write_int(block.count)
        self.encoder.write_bytes(block.data)
        self.encoder.write(self.sync_bytes)

    def flush(self) -> None:
        """Write the pending records as a block."""
        if self._pending:
            super().write_block(self._pending)
            self._pending = []

    def __exit__(self, *exception: object) -> None:
        self.flush()
        super().__exit__(*exception)


class EncodedManifestWriter(ManifestWriterV2):
    """Writes a manifest with an index (see `encoded_manifest`)."""

    _min_sequence_number: int | None

    def __init__(
        self,
        location: str,
        spec: PartitionSpec,
        schema: EntrySchema,
        snapshot: NewSnapshot,
        *,
        index: Mapping[str, str],
    ) -> None:
        self.file = MemoryOutputFile(location)
        super().__init__(schema.spec, schema.table, self.file, snapshot.snapshot_id, DEFLATE)
        self._types = spec.types
        self._entry_schema = schema.entry
        self._snapshot = snapshot
        self._index = index
        self._record = b""

    @property
    def _meta(self) -> dict[str, str]:
        # The index comes first: to read it, only the first bytes of the file are needed.
        return {**self._index, **super()._meta}

    def new_writer(self) -> EncodedRecordFile:
        """Return the Avro file that the entries are written to."""
        return EncodedRecordFile(
            self._output_file, self._entry_schema, "manifest_entry", self._meta
        )

    def prepare_entry(self, entry: ManifestEntry) -> bytes:
        """Check an entry, and return its encoded record."""
        super().prepare_entry(entry)
        return self._record

    def add_encoded(self, encoded: EncodedEntries) -> None:
        """Add entries and their records."""
        for entry, self._record in zip(encoded.entries, encoded.records, strict=True):
            self.add_entry(entry)

    def add_moved(self, moved: MovedEntries) -> None:
        """Add entries of an older manifest.

        The new manifest gets the partition bounds and the smallest sequence number of the older
        manifest. These values aren't computed again, so they also cover the DELETED entries.
        """
        for block in moved.existing:
            if isinstance(block, Block):
                self._writer.copy_block(block)
            else:
                self._writer.write_block(block)
        if moved.deleted:
            self._writer.flush()  # later, only blocks without deleted entries can be copied
            self._writer.write_block(moved.deleted)
        source, deleted = moved.source, len(moved.deleted)
        minimum = source.min_sequence_number
        deleted_rows = sum(file.record_count for file in moved.deleted_files)
        self._existing_files += source.live_files_count - deleted
        self._existing_rows += source.live_rows_count - deleted_rows
        self._deleted_files += deleted
        self._deleted_rows += deleted_rows
        self._partitions += _partitions_with_summaries(source.partitions, self._types)
        if self._min_sequence_number is not None:
            minimum = min(minimum, self._min_sequence_number)
        self._min_sequence_number = minimum

    def manifest_file(self) -> ManifestFile:
        """Return the written manifest, as an entry for manifest lists."""
        written = self.to_manifest_file()
        minimum = written.min_sequence_number
        sequence_number = self._snapshot.sequence_number
        return ManifestFile(
            manifest_path=written.manifest_path,
            manifest_length=written.manifest_length,
            partition_spec_id=written.partition_spec_id,
            content=int(written.content),
            sequence_number=sequence_number,
            min_sequence_number=sequence_number if minimum == UNASSIGNED_SEQ else minimum,
            added_snapshot_id=written.added_snapshot_id,
            added_files_count=written.added_files_count,
            existing_files_count=written.existing_files_count,
            deleted_files_count=written.deleted_files_count,
            added_rows_count=written.added_rows_count,
            existing_rows_count=written.existing_rows_count,
            deleted_rows_count=written.deleted_rows_count,
            partitions=tuple(
                FieldSummary(
                    contains_null=summary.contains_null,
                    contains_nan=summary.contains_nan,
                    lower_bound=summary.lower_bound,
                    upper_bound=summary.upper_bound,
                )
                for summary in written.partitions
            ),
        )


class ManifestWriterV3(EncodedManifestWriter):
    """Writes manifests of data files and of deletion vectors in format version 3."""

    def __init__(
        self,
        location: str,
        spec: PartitionSpec,
        schema: EntrySchema,
        snapshot: NewSnapshot,
        *,
        index: Mapping[str, str],
        content: int,
    ) -> None:
        super().__init__(location, spec, schema, snapshot, index=index)
        self._content = content
        self._table_schema = spec.schema

    @property
    def version(self) -> int:
        """Iceberg format version of the manifest."""
        return 3

    @property
    def _meta(self) -> dict[str, str]:
        content = "data" if self._content == DATA_MANIFEST else "deletes"
        return {**super()._meta, "schema": json.dumps(self._table_schema), "content": content}

    def content(self) -> ManifestContent:
        """Return whether the manifest contains data files or deletion vectors."""
        return ManifestContent(self._content)


class ManifestListWriterV3(ManifestListWriterV2):
    """Writes a manifest list in format version 3."""

    _meta: dict[str, str]

    def __init__(self, output_file: OutputFile, snapshot: NewSnapshot) -> None:
        super().__init__(
            output_file,
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number,
            DEFLATE,
        )
        first_row_id = str(snapshot.first_row_id or 0)
        self._meta = {**self._meta, "format-version": "3", "first-row-id": first_row_id}

    def __enter__(self) -> Self:
        schema = MANIFEST_LIST_FILE_SCHEMAS[3]
        self._writer = AvroOutputFile(
            self._output_file, schema, "manifest_file", metadata=self._meta
        )
        self._writer.__enter__()
        return self


def manifest_list(
    format_version: int, manifests: Sequence[ManifestFile], snapshot: NewSnapshot
) -> bytes:
    """Return the bytes of a manifest list."""
    file = MemoryOutputFile("")
    writer = (
        ManifestListWriterV3(file, snapshot)
        if format_version >= 3
        else write_manifest_list(
            format_version,
            file,
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number,
            DEFLATE,
        )
    )
    with writer:
        file_writer = writer._writer
        file_writer.writer = RecordWriter(file_writer.writer)
        if manifests:  # some Avro readers don't expect a block without records
            writer.add_manifests(_listed(manifests, format_version))
    return file.data


def _listed(manifests: Sequence[ManifestFile], format_version: int) -> list[Any]:
    """Convert manifests to pyiceberg's `ManifestFile` objects."""
    struct = MANIFEST_LIST_FILE_SCHEMAS[format_version].as_struct()
    values_of_manifest = values_of(ManifestFile, struct)
    partitions = [field.name for field in struct.fields].index("partitions")
    values_of_summary = values_of(FieldSummary, PARTITION_FIELD_SUMMARY_TYPE)
    listed = []
    for manifest in manifests:
        values = list(values_of_manifest(manifest))
        values[partitions] = [
            PartitionFieldSummary(*values_of_summary(each)) for each in manifest.partitions
        ]
        listed.append(pyiceberg.manifest.ManifestFile(*values))
    return listed


def _partitions_with_summaries(
    summaries: Sequence[FieldSummary], types: Sequence[str]
) -> list[tuple[IcebergValue, ...]]:
    """Return artificial partitions from which pyiceberg computes the field summaries `summaries`.

    pyiceberg's writer doesn't accept field summaries. It computes the summaries from the partitions
    of the files.
    """
    columns = []
    for summary, iceberg_type in zip(summaries, types, strict=True):
        bounds = (summary.lower_bound, summary.upper_bound)
        values = [value_from_bytes(bound, iceberg_type) for bound in bounds if bound is not None]
        if summary.contains_nan is not False and iceberg_type in _FLOATS:
            values.append(math.nan)
        if summary.contains_null or not values:
            values.append(None)
        columns.append(values)
    longest = max(map(len, columns), default=0)
    padded = [[*values, *[values[-1]] * (longest - len(values))] for values in columns]
    return list(zip(*padded, strict=True))
