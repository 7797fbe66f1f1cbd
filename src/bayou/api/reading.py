"""How the short API reads: scan files one after another, rows filtered and columns cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ArgumentError, CorruptTableError, SchemaError, SerializationError
from bayou.kernel import Engine, Predicate, Scan, Snapshot, read_scan_file
from bayou.kernel.predicates.model import referenced_columns

__all__ = ["files_table", "read_batches"]

pc: Any = pyarrow.compute

_FILES_FIELDS: list[pa.Field[Any]] = [
    pa.field("path", pa.string(), False),
    pa.field("size", pa.int64(), False),
    pa.field("modification_time", pa.int64(), False),
    pa.field("partition_values", pa.map_(pa.string(), pa.string())),
    pa.field("num_records", pa.int64()),
    pa.field("stats", pa.string()),
]
_FILES_SCHEMA = pa.schema(_FILES_FIELDS)
_NUM_RECORDS = pa.schema([pa.field("numRecords", pa.int64())])


def read_batches(
    engine: Engine,
    snapshot: Snapshot,
    columns: Sequence[str] | None,
    filter: Predicate | str | None,
) -> pa.RecordBatchReader:
    """Rows of a version as a stream; see `TableHandle.to_batches`."""
    if isinstance(columns, str):
        raise ArgumentError(
            f"columns is the text {columns!r}; give a list of names, [{columns!r}].",
            argument="columns",
        )
    names = list(snapshot.schema.names if columns is None else columns)
    metadata = [n for n in names if n in Scan.METADATA_COLUMNS]
    _refuse_unknown(snapshot, [n for n in names if n not in metadata])
    builder = snapshot.scan_builder().with_filter(filter).with_metadata_columns(metadata)
    remaining = builder.build().remaining_filter
    needed = {path[0] for path in referenced_columns(remaining)} if remaining else set()
    read = [f for f in snapshot.schema if f.name in needed or f.name in names]
    scan = builder.with_read_schema(type(snapshot.schema)(tuple(read))).build()
    state = scan.scan_state(engine)
    types = {f.name: f for f in state.logical_arrow_schema}
    schema = pa.schema([types[n] for n in names])

    def batches() -> Iterator[pa.RecordBatch]:
        files = scan.scan_files(engine).flat_map(lambda found: found.rows())
        with files.flat_map(lambda file: read_scan_file(engine, state, file)) as found:
            for batch in found:
                rows = batch
                if remaining is not None:
                    mask = engine.expressions.evaluate_predicate(batch, remaining)
                    if mask.true_count == 0:
                        continue
                    rows = batch.filter(mask)
                yield rows.select(names)

    return pa.RecordBatchReader.from_batches(schema, batches())


def files_table(engine: Engine, snapshot: Snapshot, filter: Predicate | str | None) -> pa.Table:
    """The live files of a version; see `SnapshotHandle.files`."""
    scan = snapshot.scan_builder().with_filter(filter).with_statistics().build()
    batches: list[pa.RecordBatch] = []
    for files in scan.scan_files(engine):
        add = files.selected().column("add")
        stats = pc.struct_field(add, "stats")
        try:
            counts = engine.json.parse_json(stats, _NUM_RECORDS).column("numRecords")
        except SerializationError as error:
            raise CorruptTableError(
                f"The log of {snapshot.path} holds statistics that aren't JSON: {error}",
                table=snapshot.path,
            ) from error
        batches.append(
            pa.RecordBatch.from_arrays(
                [
                    pc.struct_field(add, "path"),
                    pc.struct_field(add, "size"),
                    pc.struct_field(add, "modificationTime"),
                    pc.struct_field(add, "partitionValues"),
                    counts,
                    stats,
                ],
                schema=_FILES_SCHEMA,
            )
        )
    return pa.Table.from_batches(batches, schema=_FILES_SCHEMA)


def _refuse_unknown(snapshot: Snapshot, names: Sequence[str]) -> None:
    known = set(snapshot.schema.names)
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SchemaError(
            f"{snapshot.path} has no column {', '.join(map(repr, unknown))}; it has "
            f"{', '.join(snapshot.schema.names)}.",
            table=snapshot.path,
            column=unknown[0],
        )
