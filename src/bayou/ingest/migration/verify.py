"""Verifies a migration: compares each source file with the table by counts and checksums."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.migration.json_files import JsonFile, json_files, records_of
from bayou.ingest.migration.known_files import KnownFiles, checksum_of
from bayou.ingest.migration.ledger import Ledger, Part
from bayou.ingest.migration.metadata_columns import FromKafka, OldRecords
from bayou.ingest.topic_table.writer import MIGRATED
from bayou.kernel.arrow.compute import pc

__all__ = ["FileCheck", "verify_migration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """The comparison of a source file with the table.

    Attributes:
        file: path of the file relative to the folder.
        records: number of records in the file now.
        rows: rows of the file in the table; for an upsert, rows that no newer record replaced.
        dead_letters: dead letters of the file.
        problem: the problem, None if the file is migrated correctly.
    """

    file: str
    records: int
    rows: int
    dead_letters: int
    problem: str | None = None


def verify_migration(configuration: Configuration, topic: Topic, source: str) -> list[FileCheck]:
    """Compare every file in a folder with the table.

    The file's checksum must be the checksum of the migrated records. Each record must be exactly
    one row or dead letter, unless the table reads it from Kafka. Rows that an upsert has replaced
    or deleted since aren't reported as missing; rows of a batch that wasn't committed are.

    Raises:
        BayouError: a file or a table can't be read.
    """
    storage_options = configuration.connector.storage.storage_options()
    engine = for_path(source, storage_options)
    root = engine.files.resolve_path(source)
    files = json_files(engine, root)
    state = Ledger(topic.table_path, storage_options).read()
    known = KnownFiles(engine, state, (file.path for file in files))
    old = OldRecords(FromKafka(topic, storage_options))
    table = open_table(topic.table_path, storage_options)
    transactions = table.snapshot().transactions if table.exists() else {}
    appends = topic.upsert_keys is None
    rows = _numbers(topic.table_path, "_kafka_partition", "_kafka_offset", storage_options)
    letters_path = dead_letters_path(topic.table_path)
    dead_letters = _numbers(letters_path, "partition", "offset", storage_options)
    return [
        _check(
            file,
            known.parts(file),
            records_of(engine, file),
            (rows, dead_letters),
            old,
            exact=lambda part: appends or not part.is_in(transactions),
        )
        for file in files
    ]


def _numbers(path: str, partition: str, number: str, storage_options: dict[str, str]) -> Any:
    """Return the sorted numbers of the migrated records in a table."""
    handle = open_table(path, storage_options)
    if not handle.exists():
        return pa.array([], pa.int64())
    table: Any = handle.to_arrow(columns=[number], filter=f"{partition} = {MIGRATED}")
    values = table.column(0).combine_chunks()
    return values.take(pc.sort_indices(values))


def _check(
    file: JsonFile,
    parts: list[Part],
    file_records: Iterator[bytes],
    numbers: tuple[Any, Any],
    old: OldRecords,
    *,
    exact: Callable[[Part], bool],
) -> FileCheck:
    """Compare a file with the table.

    Args:
        file: the file.
        parts: the ledger's parts of the file.
        file_records: the records of the file.
        numbers: the numbers of migrated records in the table and the dead letter table.
        old: recognizes records that the table reads from Kafka.
        exact: whether each record of a part must still be in the table.
    """
    rows, dead_letters = numbers
    records = row_count = dead_letter_count = 0
    problem = None if parts else "it isn't migrated"
    for part in parts:
        values = list(islice(file_records, part.records))
        records += len(values)
        if checksum_of(values) != part.checksum:
            problem = f"its records from {part.skipped} on differ from the migrated records"
        part_rows, part_letters = _within(rows, part), _within(dead_letters, part)
        row_count += len(part_rows)
        dead_letter_count += len(part_letters)
        known = len(part_rows) + len(part_letters) + sum(old.stripped(values)[1])
        unique = len(part_rows.unique()), len(part_letters.unique())
        if unique != (len(part_rows), len(part_letters)):
            problem = "records of it are in the table more than once"
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
        problem=problem,
    )


def _within(numbers: Any, part: Part) -> Any:
    """Return the numbers of a part, by binary search because there may be many parts."""
    start, end = (
        bisect.bisect_left(range(len(numbers)), number, key=lambda at: numbers[at].as_py())
        for number in (part.first, part.first + part.records)
    )
    return numbers.slice(start, end - start)
