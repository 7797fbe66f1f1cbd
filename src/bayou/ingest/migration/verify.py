"""Verifies a migration: compares each source file with the table by counts and checksums."""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa

from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.migration.json_files import JsonFile, json_files, records_of
from bayou.ingest.migration.ledger import Ledger, Part
from bayou.ingest.migration.metadata_columns import FromKafka, OldRecords
from bayou.ingest.migration.migrated_files import KnownFiles, checksum_of
from bayou.ingest.topic_table.direct_writer import MIGRATED, DirectWriter, record_batch
from bayou.kernel.arrow.compute import pc


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """The comparison of a source file with the table.

    Attributes:
        file: path of the file relative to the folder.
        records: number of records in the file.
        rows: number of rows in the table that come from the file. In an upsert, a newer record may
            have replaced some of them.
        dead_letters: number of dead letters that come from the file.
        filtered: number of the file's records without a row or a dead letter that
            `processing.where` filters out.
        problem: description of the problem; None if there is none.
    """

    file: str
    records: int
    rows: int
    dead_letters: int
    filtered: int = 0
    problem: str | None = None


def verify_migration(configuration: Configuration, topic: Topic, source: str) -> list[FileCheck]:
    """Compare all files in a folder with the table.

    The records of a file must have the checksums that the migration recorded. Each record must have
    exactly one row or one dead letter. Exceptions are records that `processing.where` filters out,
    and records that the migration has skipped because the pipeline reads them from Kafka.

    In an upsert, a later record may have replaced or deleted the row of an earlier record, so a
    missing row isn't a problem.
    """
    storage_options = configuration.connector.storage.storage_options()
    engine = for_path(source, storage_options)
    root = engine.files.resolve_path(source)
    files = json_files(engine, root)
    state = Ledger(topic.table_path, storage_options).read()
    known = KnownFiles(engine, state, files)

    @cache
    def old_records(kafka_topic: str | None) -> OldRecords:
        return OldRecords(FromKafka(topic, storage_options, kafka_topic))

    table = open_table(topic.table_path, storage_options)
    transactions = table.snapshot().transactions if table.exists() else {}
    appends = topic.upsert_keys is None
    rows = _numbers(topic.table_path, storage_options)
    letters_path = dead_letters_path(topic.table_path)
    writer = None
    if topic.config.processing.where is not None:
        writer = DirectWriter(configuration, topic)

    def filtered(records: pa.RecordBatch) -> int:
        return 0 if writer is None else writer.filtered(records)

    dead_letters = _dead_letters(letters_path, storage_options)
    return [
        _check(
            file,
            known.parts(file),
            records_of(engine, file),
            (rows, dead_letters),
            lambda part: old_records(part.topic),
            exact=lambda part: appends or not part.is_in(transactions),
            filtered=filtered,
        )
        for file in files
    ]


def _numbers(path: str, storage_options: dict[str, str]) -> Any:
    """Return the sorted sequence numbers of the migrated rows of a target.

    Each migrated record has a sequence number, which its row stores in `_kafka_offset`.
    """
    handle = open_table(path, storage_options)
    if not handle.exists():
        return pa.array([], pa.int64())
    table: Any = handle.to_arrow(["_kafka_offset"], f"_kafka_partition = {MIGRATED}")
    values = table.column(0).combine_chunks()
    return values.take(pc.sort_indices(values))


def _dead_letters(path: str, storage_options: dict[str, str]) -> pa.Table:
    """Return the dead letters of migrated records, sorted by sequence number.

    The column `number` has the sequence numbers of the records, and `hash` has their hashes.
    """
    numbers: list[Any] = []
    hashes: list[bytes] = []
    handle = open_table(path, storage_options)
    if handle.exists():
        condition = f"partition = {MIGRATED}"
        with handle.snapshot().to_batches(["offset", "value"], condition) as batches:
            for batch in batches:
                numbers += batch.column("offset").to_pylist()
                hashes += map(_hash, batch.column("value").to_pylist())
    columns: list[Any] = [pa.array(numbers, pa.int64()), pa.array(hashes, pa.binary())]
    return pa.table(columns, names=["number", "hash"]).sort_by("number")


def _hash(value: Any) -> bytes:
    return hashlib.blake2b(value or b"", digest_size=16).digest()


def _check(
    file: JsonFile,
    parts: list[Part],
    file_records: Iterator[bytes],
    numbers: tuple[Any, pa.Table],
    old_records: Callable[[Part], OldRecords],
    *,
    exact: Callable[[Part], bool],
    filtered: Callable[[pa.RecordBatch], int],
) -> FileCheck:
    """Compare a file with the table.

    Args:
        numbers: the sorted sequence numbers of migrated rows from `_numbers`, and the table of
            dead letters from `_dead_letters`.
        old_records: function that returns the `OldRecords` for a part. `OldRecords` recognizes the
            records that the pipeline reads from Kafka.
        exact: function that returns whether a part must have a row for each record.
        filtered: function that returns how many records of a batch `processing.where` filters out.
    """
    rows, dead_letters = numbers
    records = row_count = dead_letter_count = filtered_count = 0
    problem = None if parts else "it isn't migrated"
    for part in parts:
        values = list(islice(file_records, part.records))
        records += len(values)
        old = old_records(part)
        stripped, from_kafka = old.stripped(values)
        is_unchanged = checksum_of(values) == part.checksum
        if not is_unchanged:
            problem = f"its records from {part.skipped} on differ from the migrated records"
        part_rows = _within(rows, part)
        part_letters = _letters_of(dead_letters, part, stripped if is_unchanged else None)
        # A record with a row is counted once: an interrupted replay hasn't deleted its dead letter.
        part_letters = part_letters.filter(pc.invert(pc.is_in(part_letters, value_set=part_rows)))
        row_count += len(part_rows)
        dead_letter_count += len(part_letters)
        part_records = record_batch(
            old.topic,
            stripped,
            partition=MIGRATED,
            first=part.first,
            timestamps=[file.timestamp] * len(stripped),
        ).filter(pc.invert(pa.array(from_kafka, pa.bool_())))
        # A record that has a row wasn't filtered out; the condition may be newer than the
        # migration.
        found = pc.is_in(
            part_records.column("offset"), value_set=pa.concat_arrays([part_rows, part_letters])
        )
        part_filtered = filtered(part_records.filter(pc.invert(found)))
        filtered_count += part_filtered
        known = len(part_rows) + len(part_letters) + sum(from_kafka) + part_filtered
        unique = len(part_rows.unique()), len(part_letters.unique())
        if unique != (len(part_rows), len(part_letters)):
            problem = "some of its records are in the table more than once"
        elif exact(part) and known != part.records:
            problem = f"{part.records - known} of its records aren't in the table"
    rest = sum(1 for _ in file_records)
    if parts and (rest or not parts[-1].complete):
        problem = f"{rest} records at its end aren't migrated"
    return FileCheck(
        file=file.name,
        records=records + rest,
        rows=row_count,
        dead_letters=dead_letter_count,
        filtered=filtered_count,
        problem=problem,
    )


def _within(numbers: Any, part: Part) -> Any:
    """Return those sequence numbers in `numbers` that belong to a part; `numbers` is sorted."""
    start, end = _bounds(numbers, part)
    return numbers.slice(start, end - start)


def _bounds(numbers: Any, part: Part) -> tuple[int, int]:
    """Return the start and end index of the sequence numbers that belong to a part.

    Args:
        numbers: sorted sequence numbers.
    """
    start, end = (
        bisect.bisect_left(range(len(numbers)), number, key=lambda at: numbers[at].as_py())
        for number in (part.first, part.first + part.records)
    )
    return start, end


def _letters_of(dead_letters: pa.Table, part: Part, values: Sequence[bytes] | None) -> Any:
    """Return the sequence numbers of the dead letters of a part's records.

    A dead letter with the same sequence number can be of another record, from an earlier migration
    to a table that was deleted. Such a dead letter isn't returned.

    Args:
        values: the records of the part; None if the file has changed. If None, records aren't
            compared, and all dead letters with the part's sequence numbers are returned.
    """
    start, end = _bounds(dead_letters.column("number"), part)
    letters = dead_letters.slice(start, end - start)
    numbers: Any = letters.column("number").combine_chunks()
    if values is None:
        return numbers
    hashes = pa.array([_hash(values[n - part.first]) for n in numbers.to_pylist()], pa.binary())
    return numbers.filter(pc.equal(letters.column("hash").combine_chunks(), hashes))
