"""Reads records in the columns of the Kafka source as rows of a target and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.masks import apply_masks
from bayou.ingest.batch.rows import RowLayout, with_partition_strings
from bayou.ingest.dead_letters.records import dead_letter_rows
from bayou.ingest.decode import Decoded, DecodePlan, merge_fields
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.ingest.upsert import DELETED, ChangeReader, UpsertKeys
from bayou.protocol.schema import StructType

__all__ = ["RecordReader", "RecordReading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReading:
    """How records are read. Can be pickled.

    Attributes:
        plan: how to decode records.
        layout: the target's columns.
        ingestion_timestamp: microseconds since the epoch.
        format: the format of the values.
        masks: masks by the path of a field, see `masked`.
        upsert: the keys of an upsert; None to append rows.
        debezium: whether records are in Debezium's envelope.
        partition_columns: the table's partition columns.
        folders: whether partition values are in folder names.
    """

    plan: DecodePlan
    layout: RowLayout
    ingestion_timestamp: int
    format: RecordFormat = field(default_factory=RecordFormat)
    masks: Mapping[str, str] = field(default_factory=dict)
    upsert: UpsertKeys | None = None
    debezium: bool = False
    partition_columns: tuple[str, ...] = ()
    folders: bool = True


class RecordReader:
    """Reads batches sequentially. Not thread-safe.

    Attributes:
        new_fields: fields without a column; after the first one, `read` yields no more rows.
        ignored: fields that were dropped.
    """

    def __init__(self, reading: RecordReading) -> None:
        self._reading = reading
        self._decoder = RecordDecoder(reading.format, reading.plan)
        self._changes: ChangeReader | None = None
        if reading.upsert is not None:
            self._changes = ChangeReader(
                self._decoder, reading.plan.columns, reading.upsert, debezium=reading.debezium
            )
        self.new_fields = StructType()
        self.ignored: frozenset[str] = frozenset()

    def read(
        self, source: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None]]:
        """Yield rows of the target and dead letters, None for none; upsert rows have `DELETED`.

        Args:
            source: columns of the Kafka source, with packed headers.
        """
        reading = self._reading
        for part, decoded, deleted in self._decoded(source):
            self.new_fields = merge_fields(self.new_fields, decoded.new_fields)
            self.ignored |= decoded.ignored
            if self.new_fields.fields:
                continue  # only collect the other new fields; the rows will be read again
            dead_letters = rows = None
            good = decoded
            if reading.masks:
                good = replace(good, columns=apply_masks(good.columns, reading.masks))
            good = with_partition_strings(
                good, reading.partition_columns, folders=reading.folders and not deleted
            )
            if len(good.bad_positions):
                dead_letters = dead_letter_rows(good, part, reading.ingestion_timestamp)
            if len(good.positions):
                rows = reading.layout.rows(good, part, reading.ingestion_timestamp)
                if reading.upsert is not None:
                    flags: Any = pa.repeat(pa.scalar(deleted), rows.num_rows)
                    rows = rows.append_column(DELETED, flags)
            yield rows, dead_letters

    def _decoded(self, source: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Decoded, bool]]:
        """Yield records, their decoded values, and whether they delete their keys."""
        if self._changes is None:
            yield source, self._decoder.decode(source.column("value")), False
            return
        for change in self._changes.read(source):
            yield change.source, change.decoded, change.deleted
