"""Source files beside the table, file by file: counts, and checksums of what they hold."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.migration.json_files import JsonFile, json_files, records_of
from bayou.ingest.migration.known_files import KnownFiles, checksum_of
from bayou.ingest.migration.ledger import Ledger, Part
from bayou.ingest.migration.metadata_columns import FromKafka, OldRecords
from bayou.ingest.topic_table.writer import MIGRATED

__all__ = ["FileCheck", "verify_migration"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """A source file and what the table has of it.

    Attributes:
        file: its name below the folder.
        records: in the file now.
        rows: of the table that are the file's; of an upsert those that no newer record replaced.
        dead_letters: of the file.
        problem: what is wrong, None where all is well.
    """

    file: str
    records: int
    rows: int
    dead_letters: int
    problem: str | None = None


def verify_migration(configuration: Configuration, topic: Topic, source: str) -> list[FileCheck]:
    """Compare every file below a folder with the table.

    The file's checksum must be that of the records that were migrated; each of them must be a row
    or a dead letter, once, or one that the table gets from Kafka. Rows that an upsert has replaced
    or deleted since aren't missed; those of a batch that never came to the table are.

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
    done = table.snapshot().transactions if table.exists() else {}
    appends = topic.upsert_keys is None
    rows = _numbers(topic.table_path, "_kafka_partition", "_kafka_offset", storage_options)
    letters = _numbers(dead_letters_path(topic.table_path), "partition", "offset", storage_options)
    return [
        _checked(
            file,
            known.parts(file),
            records_of(engine, file),
            (rows, letters),
            old,
            exact=lambda part: appends or not part.is_in(done),
        )
        for file in files
    ]


def _numbers(path: str, partition: str, number: str, storage_options: dict[str, str]) -> Any:
    """Numbers of the migrated records that a table has, sorted."""
    handle = open_table(path, storage_options)
    if not handle.exists():
        return pa.array([], pa.int64())
    found: Any = handle.to_arrow(columns=[number], filter=f"{partition} = {MIGRATED}")
    values = found.column(0).combine_chunks()
    return values.take(pc.sort_indices(values))


def _checked(
    file: JsonFile,
    parts: list[Part],
    there: Iterator[bytes],
    numbers: tuple[Any, Any],
    old: OldRecords,
    *,
    exact: Callable[[Part], bool],
) -> FileCheck:
    """Compare a file with the table.

    Args:
        exact: whether each record of a part has to be there still.
    """
    rows, letters = numbers
    records = row_count = letter_count = 0
    problem = None if parts else "it isn't migrated"
    for part in parts:
        values = list(islice(there, part.records))
        records += len(values)
        if checksum_of(values) != part.checksum:
            problem = f"its records from {part.skipped} on aren't those that were migrated"
        of_rows, of_letters = _within(rows, part), _within(letters, part)
        row_count += len(of_rows)
        letter_count += len(of_letters)
        decided = len(of_rows) + len(of_letters) + sum(old.stripped(values)[1])
        if len(of_rows.unique()) < len(of_rows) or len(of_letters.unique()) < len(of_letters):
            problem = "records of it are in the table more than once"
        elif exact(part) and decided != part.records:
            problem = f"{part.records - decided} of its records aren't in the table"
    rest = sum(1 for _ in there)
    if parts and (rest or not parts[-1].complete):
        problem = f"{rest} records at its end aren't migrated"
    return FileCheck(
        file=file.name,
        records=records + rest,
        rows=row_count,
        dead_letters=letter_count,
        problem=problem,
    )


def _within(numbers: Any, part: Part) -> Any:
    """Those of a part; there are many parts, so they are looked up and not gone through."""
    start, end = (
        bisect.bisect_left(range(len(numbers)), number, key=lambda at: numbers[at].as_py())
        for number in (part.first, part.first + part.records)
    )
    return numbers.slice(start, end - start)
