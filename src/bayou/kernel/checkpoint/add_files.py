"""Reading of the `add` actions in a checkpoint's Parquet files, as columns.

A checkpoint may contain statistics as JSON (`stats`) and as a struct (`stats_parsed`). Each form is
optional (PROTOCOL.md, Checkpoints). The table properties may have changed since the checkpoint was
written, so the reader checks which form the file contains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from bayou.errors import SchemaError, StorageError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.checkpoint.parsed_stats import stats_to_json
from bayou.kernel.checkpoint.read import check_paths, unreadable_checkpoint
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.scan.scan_file import ADD_TYPE

StatsForm: TypeAlias = Literal["json", "struct"]

_BATCH_ROWS = 16_384
"""Maximum number of rows in a batch; low because `add` actions are large."""


@dataclass(frozen=True, slots=True)
class CheckpointAdds:
    """A batch of `add` actions of a checkpoint.

    Attributes:
        adds: the actions as structs of the type `ADD_TYPE`. Fields that weren't read are null.
        parsed: the field `stats_parsed` of the actions; None if it wasn't read. Statistics that
            were read as JSON are in the field `stats` of `adds`.
        statistics: parsed statistics of the columns in a scan's filter, one row for each action;
            None before they are computed.
    """

    adds: pa.StructArray
    parsed: pa.StructArray | None = None
    statistics: pa.RecordBatch | None = None

    def filter(self, selection: pa.BooleanArray) -> CheckpointAdds:
        return CheckpointAdds(
            self.adds.filter(selection),
            None if self.parsed is None else self.parsed.filter(selection),
            None if self.statistics is None else self.statistics.filter(selection),
        )


def stats_forms(*, as_json: bool, as_struct: bool) -> tuple[StatsForm, ...]:
    """Return the forms of statistics to look for in a checkpoint, the preferred form first.

    The struct is preferred if `as_struct` is true, because a reader can select its fields.

    Args:
        as_json: whether the table properties enable statistics as JSON.
        as_struct: whether the table properties enable statistics as a struct (`stats_parsed`).
    """
    if as_struct:
        return ("struct", "json")
    return ("json", "struct") if as_json else ("json",)


@closeable
def read_checkpoint_adds(
    engine: Engine,
    table: str,
    split: FileSplit,
    columns: Collection[str],
    *,
    parsed: Any = None,
    forms: Sequence[StatsForm] = ("json",),
    as_json: bool = False,
) -> Iterator[CheckpointAdds]:
    """Read the `add` actions in a range of row groups of a checkpoint.

    Args:
        columns: fields of `ADD_TYPE` to read. Statistics are read only if `stats` is one of them.
        parsed: type with which `stats_parsed` is read, with physical names. If None, statistics
            are read only as JSON.
        forms: forms of statistics to look for, the preferred form first. The first form that has
            values in the first batch is read for all batches. If the first batch has no
            statistics, the form is selected for each batch separately.
        as_json: whether to convert statistics that are read from `stats_parsed` to JSON.
    """
    fields = [f for f in ADD_TYPE if f.name in columns and f.name != "stats"]
    if "stats" not in columns:
        with _read(engine, table, split, fields) as batches:
            yield from batches
        return
    candidates = [form for form in forms if form == "json" or parsed is not None] or ["json"]
    readable: list[StatsForm] = []
    for form in candidates:
        with _read(engine, table, split, _with_stats(fields, [form], parsed)) as batches:
            try:
                first = next(batches, None)
            except SchemaError:  # the types of these columns differ in the checkpoint
                continue
            if first is None:
                return
            if candidates == [form] or _has_stats(first):
                yield _stats_to_json(first) if as_json else first
                yield from batches.map(_stats_to_json) if as_json else batches
                return
        readable.append(form)
    # The files of the first batch have no statistics, but other files may have some.
    with _read(engine, table, split, _with_stats(fields, readable, parsed)) as batches:
        for batch in batches:
            chosen = _with_first_form(batch, readable)
            yield _stats_to_json(chosen) if as_json else chosen


def _with_stats(fields: list[Any], forms: Sequence[StatsForm], parsed: Any) -> list[Any]:
    return [
        *fields,
        *(
            pa.field("stats", pa.string()) if form == "json" else pa.field("stats_parsed", parsed)
            for form in forms
        ),
    ]


def _with_first_form(batch: CheckpointAdds, forms: Sequence[StatsForm]) -> CheckpointAdds:
    """Reduce a batch with several forms of statistics to the first form that has values.

    If no form has values, the batch is reduced to JSON.
    """
    as_json = CheckpointAdds(batch.adds)
    if batch.parsed is None:
        return as_json
    one_form = {"json": as_json, "struct": CheckpointAdds(batch.adds, batch.parsed)}
    return next((one_form[form] for form in forms if _has_stats(one_form[form])), as_json)


def _has_stats(batch: CheckpointAdds) -> bool:
    if batch.parsed is not None:
        return batch.parsed.null_count < len(batch.parsed)
    stats = batch.adds.field("stats")
    return stats.null_count < len(stats)


def _stats_to_json(batch: CheckpointAdds) -> CheckpointAdds:
    if batch.parsed is None:
        return batch
    columns = [
        stats_to_json(batch.parsed) if f.name == "stats" else batch.adds.field(i)
        for i, f in enumerate(ADD_TYPE)
    ]
    return CheckpointAdds(pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE)))


def _read(
    engine: Engine, table: str, split: FileSplit, fields: list[Any]
) -> CloseableIterator[CheckpointAdds]:
    schema = pa.schema([pa.field("add", pa.struct(fields))])
    return CloseableIterator(_batches(engine, table, split, schema))


def _batches(
    engine: Engine, table: str, split: FileSplit, schema: pa.Schema
) -> Iterator[CheckpointAdds]:
    try:
        with engine.parquet.read_parquet_files([split], schema, batch_size=_BATCH_ROWS) as batches:
            for batch in batches:
                adds: Any = batch.column("add")
                if adds.null_count == len(adds):
                    continue
                adds = adds.drop_null() if adds.null_count else adds
                check_paths(table, split.path, adds)
                yield _to_add_type(adds)
    except StorageError as error:
        raise unreadable_checkpoint(table, split.path, error) from error


def _to_add_type(adds: pa.StructArray) -> CheckpointAdds:
    indexes = {f.name: i for i, f in enumerate(adds.type)}
    columns = [
        adds.field(indexes[f.name]) if f.name in indexes else pa.nulls(len(adds), f.type)
        for f in ADD_TYPE
    ]
    parsed: Any = adds.field(indexes["stats_parsed"]) if "stats_parsed" in indexes else None
    return CheckpointAdds(pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE)), parsed)
