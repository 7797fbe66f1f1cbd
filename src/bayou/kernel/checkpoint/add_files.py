"""Files out of a checkpoint's Parquet files, as columns, with their statistics in either form.

Statistics may stand there as JSON text (`stats`), as columns (`stats_parsed`), both, or not at all
(PROTOCOL.md, Checkpoints): a checkpoint is older than the properties that say so now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from bayou.errors import SchemaError, StorageError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.checkpoint.contents import unreadable_checkpoint
from bayou.kernel.checkpoint.parsed_stats import stats_texts
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.scan.scan_file import ADD_TYPE

__all__ = ["CheckpointAdds", "StatsForm", "read_checkpoint_adds", "stats_forms"]

StatsForm: TypeAlias = Literal["json", "struct"]

_BATCH_ROWS = 16_384
"""Fewer than an engine's default: adds are wide, and small arrays need no new pages of memory."""


@dataclass(frozen=True, slots=True)
class CheckpointAdds:
    """Some files of a checkpoint.

    Attributes:
        adds: `ADD_TYPE`, with nulls for fields that weren't read.
        parsed: their statistics as columns, by physical names; None where they are text.
        statistics: what a filter asks of them (`Pruning.statistics`); None where that is yet to be
            worked out.
    """

    adds: pa.StructArray
    parsed: pa.StructArray | None = None
    statistics: pa.RecordBatch | None = None

    def filter(self, selection: pa.BooleanArray) -> CheckpointAdds:
        """Some of them."""
        return CheckpointAdds(
            self.adds.filter(selection),
            None if self.parsed is None else self.parsed.filter(selection),
            None if self.statistics is None else self.statistics.filter(selection),
        )


def stats_forms(*, as_json: bool, as_struct: bool) -> tuple[StatsForm, ...]:
    """Forms to look for, the likelier one first, by the table properties that say what is written.

    Columns come before text where both are written: of them only those needed are read.
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
    as_text: bool = False,
) -> Iterator[CheckpointAdds]:
    """The adds of a slice of a checkpoint.

    Args:
        columns: fields of `ADD_TYPE` to read. Of statistics the first form is read that the first
            batch has; `stats` among them is read in its turn only.
        parsed: struct type of the statistics that are wanted, by physical names; None for text
            alone, where it stands as text.
        forms: see `stats_forms`.
        as_text: statistics that are columns become text.

    Raises:
        CorruptTableError: the file is gone or isn't a checkpoint.
    """
    plain = [f for f in ADD_TYPE if f.name in columns and f.name != "stats"]
    if "stats" not in columns:
        with _read(engine, table, split, plain) as batches:
            yield from batches
        return
    choices = [form for form in forms if form == "json" or parsed is not None] or ["json"]
    for form in choices:
        with _read(engine, table, split, _with_stats(plain, form, parsed)) as batches:
            try:
                first = next(batches, None)
            except SchemaError:  # columns of that name were of another type then
                continue
            if first is None:
                return
            if form == choices[-1] or _has_stats(first):
                yield _as_text(first) if as_text else first
                yield from batches.map(_as_text) if as_text else batches
                return
    with _read(engine, table, split, plain) as batches:
        yield from batches


def _with_stats(plain: list[Any], form: StatsForm, parsed: Any) -> list[Any]:
    if form == "json":
        return [*plain, pa.field("stats", pa.string())]
    return [*plain, pa.field("stats_parsed", parsed)]


def _has_stats(batch: CheckpointAdds) -> bool:
    if batch.parsed is not None:
        return batch.parsed.null_count < len(batch.parsed)
    texts = batch.adds.field("stats")
    return texts.null_count < len(texts)


def _as_text(batch: CheckpointAdds) -> CheckpointAdds:
    if batch.parsed is None:
        return batch
    columns = [
        stats_texts(batch.parsed) if f.name == "stats" else batch.adds.field(i)
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
                yield _widened(adds.drop_null() if adds.null_count else adds)
    except StorageError as error:
        raise unreadable_checkpoint(table, split.path, error) from error


def _widened(adds: pa.StructArray) -> CheckpointAdds:
    """The struct with all fields of `ADD_TYPE`, nulls for those that weren't read."""
    have = {f.name: i for i, f in enumerate(adds.type)}
    columns = [
        adds.field(have[f.name]) if f.name in have else pa.nulls(len(adds), f.type)
        for f in ADD_TYPE
    ]
    parsed: Any = adds.field(have["stats_parsed"]) if "stats_parsed" in have else None
    return CheckpointAdds(pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE)), parsed)
