"""Rows that differ between two versions or two tables, compared as multisets of rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from bayou.api.argument_checks import checked_names
from bayou.api.rows.json_text import json_members
from bayou.api.rows.read import PlannedRead
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Predicate, Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.suggestions import did_you_mean

CHANGE = "_change"
"""Name of the result column that contains `-` for rows of the first version or table, and `+` for
rows of the second."""

_BUCKETS = 64
_PENDING_ROWS = 1 << 21
_CHUNK_BYTES = 1 << 27
_FIELDS: list[pa.Field[Any]] = [
    pa.field("digest", pa.binary(16)),
    pa.field("count", pa.int64()),
]
_SURPLUS = pa.schema(_FIELDS)


def differing_rows(
    before: tuple[Engine, Snapshot],
    after: tuple[Engine, Snapshot],
    columns: Sequence[str] | None,
    where: Predicate | str | None,
    key: Sequence[str] | None,
) -> pa.RecordBatchReader:
    """Return the rows that differ; see `SnapshotHandle.diff`.

    Both versions are read twice. The first pass computes a 128-bit digest of each row, and counts
    the rows with this digest in each version. The counts are spilled to the local disk. The second
    pass returns the rows whose digest has different counts in the two versions.
    """
    names = _compared_columns(before[1], after[1], columns, key)
    left = PlannedRead.plan(*before, names, where, None)
    right = PlannedRead.plan(*after, names, where, None)
    if before[1].path == after[1].path and _same_fields(before[1], after[1], names):
        shared = left.file_keys() & right.file_keys()
        left, right = left.without_files(shared), right.without_files(shared)
    types = dict(zip(right.schema.names, right.schema.types, strict=True))
    schema = pa.schema([(CHANGE, pa.string()), *types.items()])
    rows = _rows(left, right, schema)
    if key is None:
        return pa.RecordBatchReader.from_batches(schema, rows)
    table = pa.Table.from_batches(list(rows), schema)
    order: list[Any] = [*((name, "ascending") for name in key), (CHANGE, "descending")]
    return table.sort_by(order).to_reader()


def _compared_columns(
    before: Snapshot, after: Snapshot, columns: Sequence[str] | None, key: Sequence[str] | None
) -> list[str]:
    """Return the columns to compare: by default all columns of `after` that `before` also has.

    Raises:
        ArgumentError: one of the versions lacks a column in `columns` or `key`.
    """
    on_both = [name for name in after.schema.names if name in before.schema.names]
    requested = checked_names(columns, "columns")
    for argument, names in (("columns", requested), ("key", checked_names(key, "key"))):
        for name in names or ():
            if name not in on_both:
                raise ArgumentError(
                    f"{argument}: column {name!r} isn't in both schemas."
                    f"{did_you_mean(name, on_both)} The common columns are {', '.join(on_both)}.",
                    argument=argument,
                )
    selected = on_both if requested is None else list(requested)
    compared = [*(name for name in key or () if name not in selected), *selected]
    if CHANGE in compared:
        raise ArgumentError(
            f"columns: the result has an additional column {CHANGE!r}, but the tables already "
            "have a column of this name. Select other columns.",
            argument="columns",
        )
    return compared


def _same_fields(before: Snapshot, after: Snapshot, names: Sequence[str]) -> bool:
    """Whether columns have the same definition in both versions.

    If so, a file that is in both versions has the same values in these columns.
    """
    old = {field.name: field for field in before.schema}
    new = {field.name: field for field in after.schema}
    return all(old[name] == new[name] for name in names)


def _rows(left: PlannedRead, right: PlannedRead, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with tempfile.TemporaryDirectory(prefix="bayou-diff-") as folder:
        digests = _DigestCounts(Path(folder))
        for read, sign in ((left, 1), (right, -1)):
            for batch in read.to_batches():
                digests.add(_digests(_with_types(batch, schema)), sign)
        surplus = digests.surplus()
    positive = pc.greater(surplus["count"], 0)
    for read, mark, selected in (
        (left, "-", surplus.filter(positive)),
        (right, "+", surplus.filter(pc.invert(positive))),
    ):
        if selected.num_rows:
            yield from _surplus_rows(read, mark, selected, schema)


def _with_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast columns to the types in `schema`; a column that can't be cast keeps its type."""
    columns: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        type = schema.field(name).type  # noqa: A001
        columns.append(column if column.type == type else _cast(column, type))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _cast(column: Any, type: Any) -> Any:
    try:
        return pc.cast(column, type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def _digests(batch: pa.RecordBatch) -> Any:
    """Return the digest of each row."""
    if not batch.num_columns:
        return pa.array([b"\0" * 16] * batch.num_rows, pa.binary(16))
    text = pc.cast(json_members(batch.schema.names, batch.columns), pa.binary())
    return pa.array([xxhash.xxh3_128_digest(row) for row in text.to_pylist()], pa.binary(16))


class _DigestCounts:
    """Row counts by digest: the count in the first version minus the count in the second.

    The counts are spilled to several files. The first bits of a digest select its file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[pa.Table] = []
        self._rows = 0
        self._spilled: list[pa.ipc.RecordBatchStreamWriter] = []
        self._sinks: list[Any] = []

    def add(self, digests: Any, sign: int) -> None:
        counts = pa.repeat(pa.scalar(sign, pa.int64()), len(digests))
        self._pending.append(pa.Table.from_arrays([digests, counts], schema=_SURPLUS))
        self._rows += len(digests)
        if self._rows > _PENDING_ROWS:
            self._reduce()

    def _reduce(self) -> None:
        table = _summed(pa.concat_tables(self._pending))
        self._pending, self._rows = [table], table.num_rows
        if self._rows > _PENDING_ROWS // 2:
            self._spill(table)
            self._pending, self._rows = [], 0

    def _spill(self, table: pa.Table) -> None:
        if not self._spilled:
            for number in range(_BUCKETS):
                sink = pa.OSFile(str(self._folder / str(number)), "wb")
                self._sinks.append(sink)
                self._spilled.append(pa.ipc.new_stream(sink, _SURPLUS))
        buckets = _first_bytes(table["digest"])
        for number, writer in enumerate(self._spilled):
            writer.write_table(table.filter(pc.equal(buckets, number)))

    def surplus(self) -> pa.Table:
        """Return the digests whose number of rows differs between the two versions.

        The column `count` is positive if the first version has more rows with the digest, and
        negative if the second version has more.
        """
        pending = pa.concat_tables([*self._pending, _SURPLUS.empty_table()])
        if not self._spilled:
            return _summed(pending)
        self._spill(pending)
        tables: list[pa.Table] = []
        for number, (writer, sink) in enumerate(zip(self._spilled, self._sinks, strict=True)):
            writer.close()
            sink.close()
            with pa.memory_map(str(self._folder / str(number))) as source:
                tables.append(_summed(pa.ipc.open_stream(source).read_all()))
        return pa.concat_tables(tables)


def _first_bytes(digests: Any) -> Any:
    values = digests.combine_chunks()
    data = pa.Array.from_buffers(
        pa.uint8(), 16 * (len(values) + values.offset), [None, values.buffers()[1]]
    )
    rows = pa.FixedSizeListArray.from_arrays(data.slice(16 * values.offset), 16)
    return pc.bit_wise_and(pc.list_element(rows, 0), pa.scalar(_BUCKETS - 1, pa.uint8()))


def _summed(table: pa.Table) -> pa.Table:
    summed = table.group_by("digest").aggregate([("count", "sum")])
    summed = summed.filter(pc.not_equal(summed["count_sum"], 0))
    return pa.Table.from_arrays([summed["digest"], summed["count_sum"]], schema=_SURPLUS)


def _surplus_rows(
    read: PlannedRead, mark: str, surplus: pa.Table, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a version has more often than the other version.

    Args:
        read: the read of the version.
        mark: value of the column `_change` in the result.
        surplus: table with the columns `digest` and `count`. The count is the number of rows that
            this version has more than the other version.
        schema: schema of the result.
    """
    wanted = surplus["digest"].combine_chunks()
    left = pc.abs(surplus["count"]).to_pylist()
    for chunk in _chunks(read, len(wanted)):
        batch = _with_types(chunk, schema)
        found = pc.index_in(_digests(batch), value_set=wanted)
        batch, indexes = batch.filter(pc.is_valid(found)), found.drop_null().to_pylist()
        taken: list[bool] = []
        for index in indexes:
            taken.append(left[index] > 0)
            left[index] -= 1
        batch = batch.filter(pa.array(taken, pa.bool_()))
        if batch.num_rows:
            marks = pa.repeat(pa.scalar(mark), batch.num_rows)
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip([marks, *batch.columns], schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _chunks(read: PlannedRead, wanted: int) -> Iterator[pa.RecordBatch]:
    """Combine batches into larger batches, so that fewer lookups of digests are needed.

    A lookup finds the rows of a batch whose digest is in the table of wanted digests. Each lookup
    hashes this whole table first, so a lookup for each small batch would be slow.

    Args:
        wanted: number of wanted digests. A larger batch has at least a quarter of this number of
            rows, or `_CHUNK_BYTES` bytes; the last batch may be smaller.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in read.to_batches():
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= wanted // 4 or size >= _CHUNK_BYTES:
            yield _concatenated(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _concatenated(waiting)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows: pa.RecordBatch = pa.concat_batches(batches)  # type: ignore[attr-defined]
    return rows
