"""Records of Kafka, or from elsewhere in the same columns, as rows of a target and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.masks import masked
from bayou.ingest.batch.rows import RowLayout, with_partition_texts
from bayou.ingest.dead_letters.records import dead_letter_rows
from bayou.ingest.decode import Decoded, DecodePlan, merge_fields
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.ingest.upsert import DELETED, ChangeReader, UpsertKeys
from bayou.protocol.schema import StructType

__all__ = ["RecordReader", "RecordReading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReading:
    """How records are read. Pickles.

    Attributes:
        plan: how to decode.
        layout: the target's columns.
        ingestion_timestamp: microseconds since the epoch.
        format: what values are.
        masks: by the path of a field, see `masked`.
        upsert: the key where rows are upserted; None where they are appended.
        debezium: records are in Debezium's envelope.
        partition_columns: the table's.
        folders: whether their values are in the names of folders.
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
    """Reads batches, one after the other. Not for several threads at once.

    Attributes:
        new_fields: fields that have no column yet; once there is one, no rows come any more.
        ignored: fields that were left out.
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
        """Rows of the target and dead letters, None for none; rows of an upsert have `DELETED`.

        Args:
            source: columns of the Kafka source, headers packed.
        """
        reading = self._reading
        for part, decoded, deleted in self._decoded(source):
            self.new_fields = merge_fields(self.new_fields, decoded.new_fields)
            self.ignored |= decoded.ignored
            if self.new_fields.fields:
                continue  # go on to learn the other new fields; nothing of this will stay
            letters = rows = None
            good = decoded
            if reading.masks:
                good = replace(good, columns=masked(good.columns, reading.masks))
            good = with_partition_texts(
                good, reading.partition_columns, folders=reading.folders and not deleted
            )
            if len(good.bad_positions):
                letters = dead_letter_rows(good, part, reading.ingestion_timestamp)
            if len(good.positions):
                rows = reading.layout.rows(good, part, reading.ingestion_timestamp)
                if reading.upsert is not None:
                    flags: Any = pa.repeat(pa.scalar(deleted), rows.num_rows)
                    rows = rows.append_column(DELETED, flags)
            yield rows, letters

    def _decoded(self, source: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Decoded, bool]]:
        """Records, what became of them, and whether they delete their keys."""
        if self._changes is None:
            yield source, self._decoder.decode(source.column("value")), False
            return
        for change in self._changes.read(source):
            yield change.source, change.decoded, change.deleted
