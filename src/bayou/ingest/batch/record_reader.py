"""Converts Kafka records to rows of the target table and to dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.expressions import RowExpressions
from bayou.ingest.batch.filtered_decoder import FilteredDecoder
from bayou.ingest.batch.masks import apply_masks
from bayou.ingest.batch.row_layout import RowLayout, with_key_json, with_partition_strings
from bayou.ingest.dead_letters.records import dead_letter_rows
from bayou.ingest.decode import Decoded, DecodePlan, merge_fields
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat
from bayou.ingest.upsert import DELETED, ChangeReader, UpsertKeys, key_columns
from bayou.protocol.schema import StructType

MAX_IGNORED_PATHS = 1_000
"""Maximum number of dropped fields that a `RecordReader` reports.

The names of fields can be ids that differ in each record. Each commit records the dropped fields,
so the log would become larger than the rows.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReading:
    """Settings of a `RecordReader`. Can be pickled.

    Attributes:
        ingestion_timestamp: the `_ingestion_timestamp` of all rows and dead letters, in
            microseconds since the epoch.
        masks: the mask of each field path; see `apply_masks`.
        expressions: the derived columns and the filter.
        deletes_filtered: for an upsert, whether a record that is filtered out deletes the row of
            its key.
        folders: whether the folder names of data files contain the partition values. If True, the
            length of the values is limited.
    """

    plan: DecodePlan
    layout: RowLayout
    ingestion_timestamp: int
    format: RecordFormat = field(default_factory=RecordFormat)
    masks: Mapping[str, str] = field(default_factory=dict)
    expressions: RowExpressions = field(default_factory=RowExpressions)
    upsert: UpsertKeys | None = None
    debezium: bool = False
    deletes_filtered: bool = False
    partition_columns: tuple[str, ...] = ()
    folders: bool = True


class RecordReader:
    """Converts batches of records to rows and dead letters. Not thread-safe.

    Attributes:
        new_fields: record fields for which the table has no column. From the first new field on,
            `read` yields no rows and only collects new fields.
        ignored: paths of the fields that were dropped; at most `MAX_IGNORED_PATHS`.
        filtered: number of records that the filter removed. Records that delete a key aren't
            counted.
    """

    def __init__(self, reading: RecordReading) -> None:
        self._reading = reading
        self._decoder = FilteredDecoder(reading.format, reading.plan, reading.expressions)
        self._changes: ChangeReader | None = None
        if reading.upsert is not None:
            self._changes = ChangeReader(
                self._decoder.decoder,
                reading.plan.columns,
                reading.upsert,
                decode=self._decoder.decode,
                decode_keys=self._key_decoder() if reading.deletes_filtered else None,
                debezium=reading.debezium,
            )
        self.new_fields = StructType()
        self.ignored: frozenset[str] = frozenset()
        self.filtered = 0

    def read(
        self, source: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None]]:
        """Convert a batch; yield pairs of rows and dead letters.

        Each pair is for one part of the batch. Rows or dead letters are None if the part has none.

        Rows of an upsert have the additional column `DELETED`: whether the record deletes its key.

        Args:
            source: records, with the columns of the Kafka source. All headers of a record are
                packed in one binary value.
        """
        reading = self._reading
        for part, accepted, deleted in self.decode(source):
            dead_letters = rows = None
            if len(accepted.bad_positions):
                dead_letters = dead_letter_rows(accepted, part, reading.ingestion_timestamp)
            if len(accepted.positions):
                rows = reading.layout.rows(accepted, part, reading.ingestion_timestamp)
                if reading.upsert is not None:
                    flags: Any = pa.repeat(pa.scalar(deleted), rows.num_rows)
                    rows = rows.append_column(DELETED, flags)
            yield rows, dead_letters

    def decode(self, source: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Decoded, bool]]:
        """Decode and filter a batch, apply masks and add derived columns; see `read`.

        Yields tuples of records, their decoded values, and whether the records delete rows of an
        upsert. From the first new field on, nothing is yielded.
        """
        reading = self._reading
        for part, decoded, deleted in self._decoded(source):
            self.new_fields = merge_fields(self.new_fields, decoded.new_fields)
            self.ignored = _limited(self.ignored | decoded.ignored)
            if self.new_fields.fields:
                continue  # only collect new fields: the batch is read again with their columns
            self.filtered += len(decoded.filtered)
            accepted = decoded
            if reading.masks:
                accepted = replace(accepted, columns=apply_masks(accepted.columns, reading.masks))
            if deleted:
                accepted = reading.expressions.without_values(accepted)
            else:
                accepted = reading.expressions.derive(accepted, part)
            accepted = with_partition_strings(
                accepted, part, reading.partition_columns, folders=reading.folders and not deleted
            )
            accepted, part_with_key = with_key_json(
                accepted, part, reading.layout, self._decoder.decoder, deleted=deleted
            )
            yield part_with_key, accepted, deleted

    def _key_decoder(self) -> RecordDecoder:
        """Return a decoder for the upsert keys of records that the filter removes.

        It decodes only the key columns and ordering columns, and doesn't validate records.
        """
        reading = self._reading
        assert reading.upsert is not None
        columns = key_columns(reading.plan.columns, reading.upsert)
        plan = DecodePlan(columns=columns, json_schema=None, discover=False, ignore=True)
        return RecordDecoder(replace(reading.format, json_schema=None), plan)

    def _decoded(self, source: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Decoded, bool]]:
        if self._changes is None:
            yield source, self._decoder.decode(source.column("value"), source), False
            return
        for change in self._changes.read(source):
            yield change.source, change.decoded, change.deleted


def _limited(paths: frozenset[str]) -> frozenset[str]:
    if len(paths) <= MAX_IGNORED_PATHS:
        return paths
    return frozenset(sorted(paths)[:MAX_IGNORED_PATHS])
