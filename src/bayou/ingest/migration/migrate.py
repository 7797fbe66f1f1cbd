"""Migrates JSON files into a topic's table, in batches.

A migration can be interrupted at any time and resumed. The migration ledger contains the files and
records of each batch, because it is written before the batch. A transaction identifier of the
target shows whether the last batch was committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import msgspec
import pyarrow as pa

from bayou.engines import for_path
from bayou.errors import (
    BayouError,
    CommitConflictError,
    ConcurrentTransactionError,
    PipelineError,
)
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import ledger_path
from bayou.ingest.events import MigrationReport
from bayou.ingest.migration.json_files import (
    JsonFile,
    is_read_in_parts,
    is_whole,
    json_files,
    records_of,
)
from bayou.ingest.migration.ledger import Ledger, Part, application_id, migrated_source
from bayou.ingest.migration.metadata_columns import FromKafka, OldRecords
from bayou.ingest.migration.migrated_files import KnownFiles, checksum_of, is_complete
from bayou.ingest.topic_table.direct_writer import MIGRATED, DirectWriter, record_batch
from bayou.kernel import Engine

_BATCH_RECORDS = 50_000
_BATCH_BYTES = 64 << 20


def migrate_json(
    configuration: Configuration,
    topic: Topic,
    source: str,
    *,
    batch_records: int = _BATCH_RECORDS,
    on_commit: Callable[[MigrationReport], None] | None = None,
    dry_run: bool = False,
) -> MigrationReport:
    """Write the records of JSON files into a topic's table, in the same way as Kafka records.

    A second call only migrates new files, and records that were appended to migrated files. If the
    last line of a file has no newline, the line may be incomplete. It is migrated if it is a
    complete JSON value, or if the file hasn't changed for `connector.migration.settle-seconds`.
    Otherwise a later migration reads the line.

    Args:
        source: a folder or a file, as a local path or as a URI in the topic's object store.
        batch_records: maximum number of records in a commit.
        on_commit: function that is called after each commit to the target, with the report so far.
        dry_run: if true, files and records are only counted, and nothing is written.

    Raises:
        PipelineError: a file can't be read, the migrated records of a file have changed, another
            process migrates the same files, or the topic shares its table with other topics.
        BayouError: the records can't be written.
    """
    return _Migration(configuration, topic, source, batch_records, on_commit).run(dry_run=dry_run)


@dataclass(slots=True)
class _Piece:
    file: JsonFile
    skipped: int
    values: list[bytes] = field(default_factory=list)
    complete: bool = False
    from_kafka: list[bool] = field(default_factory=list)


class _Migration:
    def __init__(
        self,
        configuration: Configuration,
        topic: Topic,
        source: str,
        batch_records: int,
        on_commit: Callable[[MigrationReport], None] | None,
    ) -> None:
        if topic.shares_table:
            raise PipelineError(
                f"topic {topic.key!r}: {topic.table_path} has records of several Kafka topics, so "
                "JSON files can't be migrated into it. Give the topic its own table: add the "
                "placeholder '{topic}' to table-path, or move the topic to its own section.",
                topic=topic.key,
            )
        storage_options = configuration.connector.storage.storage_options()
        self._topic = topic
        self._storage_options = storage_options
        self._engine: Engine = for_path(source, storage_options)
        self._source = self._engine.files.resolve_path(source)
        self._ledger = Ledger(topic.table_path, storage_options)
        self._writer = DirectWriter(configuration, topic)
        self._old = OldRecords(FromKafka(topic, storage_options))
        self._batch_records = batch_records
        migration = configuration.connector.migration
        self._settle_seconds = migration.settle_seconds
        self._refuses_renamed = migration.on_renamed_file == "fail"
        self._on_commit = on_commit
        self._began = time.monotonic()
        self._files: frozenset[str] = frozenset()  # with symbolic links resolved
        self._report = MigrationReport(topic=topic.key, source=self._source)

    def run(self, *, dry_run: bool) -> MigrationReport:
        other_files: list[str] = []
        files = json_files(self._engine, self._source, other_files)
        if other_files:
            name = min(other_files).encode(errors="surrogateescape")
            example = name.decode(errors="backslashreplace")
            self._report = replace(self._report, other_files=len(other_files), other_file=example)
        # Read the target before the ledger: another migration adds a batch to the ledger first, so
        # the ledger then has all batches of the target.
        transactions = self._writer.transactions()
        self._state = self._ledger.read()
        self._check_ledger(transactions)
        for part in self._state.of(self._source):
            if not part.is_of(self._old.topic):
                continue
            offsets = {int(p): o for p, o in msgspec.json.decode(part.offsets).items()}
            self._old.offsets |= offsets
        known = KnownFiles(self._engine, self._state, files)
        if not dry_run:
            self._repeat_unfinished({p.source for file in files for p in known.parts(file)})
        pending: list[tuple[JsonFile, list[Part]]] = []
        real_paths: set[str] = set()
        for file in files:
            real = self._engine.files.real_path(file.path)
            if real in real_paths:  # a link to another file of the folder
                continue
            real_paths.add(real)
            parts = known.parts(file)
            if not any(part.records for part in parts):
                self._check_not_renamed(known, file)
            if any(is_complete(part, file) for part in parts):
                self._report = replace(self._report, known=self._report.known + 1)
            else:
                pending.append((file, parts))
        self._files = frozenset(real_paths)
        for pieces in self._batches(pending):
            if dry_run:
                self._count(pieces)
            else:
                self._commit(pieces)
        return self._finished()

    def _check_ledger(self, transactions: Mapping[str, int]) -> None:
        """Check that each migrated batch in the target is also in the ledger.

        If the ledger lacks a batch, the records of the batch would be migrated twice.
        """
        for application, batch in sorted(transactions.items()):
            source = migrated_source(application)
            if source is not None and batch >= self._state.next_batch(source):
                raise PipelineError(
                    f"topic {self._topic.key!r}: {self._topic.table_path} has batch {batch} of the "
                    f"migration of {source}, but {ledger_path(self._topic.table_path)} doesn't "
                    "have that batch. The target was copied or cloned without its migration "
                    "ledger. Copy or clone the ledger too, or disable connector.migration.",
                    topic=self._topic.key,
                )

    def _check_not_renamed(self, known: KnownFiles, file: JsonFile) -> None:
        """Raise an error if a file was migrated under another path before it was renamed.

        Without this check, its records would be migrated twice. The check is disabled if the
        setting `on-renamed-file` is `migrate`.
        """
        before = known.renamed(file) if self._refuses_renamed else None
        if before is not None:
            raise PipelineError(
                f"topic {self._topic.key!r}: {file.path} begins with the records of {before}, "
                f"which was migrated. {before} no longer has these records: it was renamed, moved "
                f"or compressed. Rename {file.path} back, or remove it from the folder. To add its "
                "records again as new rows, set connector.migration.on-renamed-file: migrate.",
                topic=self._topic.key,
            )

    def _finished(self) -> MigrationReport:
        return replace(
            self._report, seconds=time.monotonic() - self._began, offsets=dict(self._old.offsets)
        )

    def _repeat_unfinished(self, sources: set[str]) -> None:
        """Write the batches that are in the ledger but not in the target.

        These are batches of this migration's folder and of the folders `sources`.
        """
        transactions = self._writer.transactions()
        for source in sorted({self._source, *sources}):
            parts = [part for part in self._state.of(source) if not part.is_in(transactions)]
            for batch in sorted({part.batch for part in parts}):
                self._repeat([part for part in parts if part.batch == batch])

    def _repeat(self, parts: list[Part]) -> None:
        numbered: list[tuple[_Piece, int]] = []
        for part in parts:
            if not part.records:
                continue
            files = json_files(self._engine, part.path)
            values: list[bytes] = []
            if files:
                end = part.skipped + part.records
                records = records_of(self._engine, _truncated(files[0], part))
                values = list(islice(records, part.skipped, end))
            if not files or checksum_of(values) != part.checksum:
                raise PipelineError(
                    f"topic {self._topic.key!r}: {part.file} in {part.source} was "
                    f"{'changed' if files else 'deleted'} while it was migrated. Restore the "
                    "original file and start again.",
                    topic=self._topic.key,
                )
            numbered.append((_Piece(files[0], part.skipped, values, part.complete), part.first))
        # The batch may be from a migration for another Kafka topic, before `kafka-topic` changed.
        old = self._old
        if not parts[0].is_of(old.topic):
            old = OldRecords(FromKafka(self._topic, self._storage_options, parts[0].topic))
        for piece, _ in numbered:
            piece.values, piece.from_kafka = old.stripped(piece.values)
        self._write(numbered, parts[0].source, parts[0].batch, old.topic)

    def _batches(self, pending: list[tuple[JsonFile, list[Part]]]) -> Iterator[list[_Piece]]:
        waiting: list[_Piece] = []
        count = size = 0
        for file, parts in pending:
            records = _NewRecords(self._engine, file, parts, self._settle_seconds)
            piece = _Piece(file, records.skipped)
            waiting.append(piece)
            has_new = False
            for value in records:
                has_new = True
                if count >= self._batch_records or size >= _BATCH_BYTES:
                    records.check_not_replaced()
                    yield [p for p in waiting if p.values or p.complete]
                    piece = _Piece(file, piece.skipped + len(piece.values))
                    waiting, count, size = [piece], 0, 0
                piece.values.append(value)
                count += 1
                size += len(value)
            records.check_not_replaced()
            piece.complete = not records.last_is_incomplete
            is_known = bool(parts) and not has_new and not records.last_is_incomplete
            self._report = replace(
                self._report,
                files=self._report.files + (not is_known),
                known=self._report.known + is_known,
                waiting=self._report.waiting + records.last_is_incomplete,
            )
        if pieces := [p for p in waiting if p.values or p.complete]:
            yield pieces

    def _count(self, pieces: list[_Piece]) -> None:
        """Count the records of a batch for a dry run."""
        records = sum(len(piece.values) for piece in pieces)
        for piece in pieces:
            piece.values, piece.from_kafka = self._old.stripped(piece.values)
        self._report = replace(
            self._report,
            records=self._report.records + records,
            from_kafka=self._report.from_kafka + sum(sum(p.from_kafka) for p in pieces),
        )

    def _commit(self, pieces: list[_Piece]) -> None:
        checksums = [checksum_of(piece.values) for piece in pieces]
        for piece in pieces:
            piece.values, piece.from_kafka = self._old.stripped(piece.values)
        while True:
            parts = self._parts(pieces, checksums)
            try:
                self._ledger.add(parts, self._state.commits)
                break
            except CommitConflictError as error:
                self._refresh_state(error)
        self._state.added(parts)
        numbered = [(piece, part.first) for piece, part in zip(pieces, parts, strict=True)]
        self._write(numbered, self._source, parts[0].batch, self._old.topic)

    def _parts(self, pieces: list[_Piece], checksums: list[str]) -> list[Part]:
        """Return the ledger rows of a batch.

        The records of the batch get sequence numbers that follow the last sequence number in the
        ledger.
        """
        offsets = {str(p): o for p, o in self._old.offsets.items()}
        number = self._state.next_number
        batch = self._state.next_batch(self._source)
        parts: list[Part] = []
        for piece, checksum in zip(pieces, checksums, strict=True):
            parts.append(
                Part(
                    source=self._source,
                    batch=batch,
                    file=piece.file.name,
                    size=piece.file.size,
                    skipped=piece.skipped,
                    records=len(piece.values),
                    first=number,
                    complete=piece.complete,
                    checksum=checksum,
                    offsets=msgspec.json.encode(offsets).decode(),
                    modified=piece.file.modified,
                    topic=self._old.topic,
                )
            )
            number += len(piece.values)
        return parts

    def _refresh_state(self, error: BayouError) -> None:
        """Read the ledger again after a conflict with another process.

        Raises:
            PipelineError: the other process migrates the same folder or the same files, so records
                would be migrated twice.
        """
        before, self._state = self._state, self._ledger.read()
        known = frozenset(before.parts)
        new_parts = [part for part in self._state.parts if part not in known]
        paths = {self._engine.files.real_path(part.path) for part in new_parts}
        if paths & self._files or any(part.source == self._source for part in new_parts):
            raise self._second_process() from error

    def _second_process(self) -> PipelineError:
        return PipelineError(
            f"topic {self._topic.key!r}: another process migrates {self._source}. Wait until it "
            "ends, and start again.",
            topic=self._topic.key,
        )

    def _write(
        self, pieces: list[tuple[_Piece, int]], source: str, batch: int, kafka_topic: str
    ) -> None:
        records = []
        for piece, first in pieces:
            if not piece.values:
                continue
            timestamps = [piece.file.timestamp] * len(piece.values)
            rows = record_batch(
                kafka_topic, piece.values, partition=MIGRATED, first=first, timestamps=timestamps
            )
            if any(piece.from_kafka):
                rows = rows.filter(pa.array([not kafka for kafka in piece.from_kafka]))
            records.append(rows)
        try:
            written = self._writer.write(records, {application_id(source): batch})
        except ConcurrentTransactionError as error:
            raise self._second_process() from error
        self._report = replace(
            self._report,
            records=self._report.records + sum(len(piece.values) for piece, _ in pieces),
            from_kafka=self._report.from_kafka + sum(sum(p.from_kafka) for p, _ in pieces),
            rows=self._report.rows + written.rows,
            dead_letters=self._report.dead_letters + written.dead_letters,
            filtered=self._report.filtered + written.filtered,
            version=self._report.version if written.version is None else written.version,
        )
        if self._on_commit is not None:
            self._on_commit(self._finished())


class _NewRecords:
    """Iterates over those records of a file that aren't migrated yet.

    Raises `PipelineError` if the file no longer begins with the migrated records.

    Attributes:
        skipped: number of the file's records that earlier migrations have migrated.
        last_is_incomplete: whether the last line was skipped because it may be incomplete; set when
            the iteration has ended.
    """

    def __init__(
        self, engine: Engine, file: JsonFile, parts: list[Part], settle_seconds: float
    ) -> None:
        self._engine = engine
        self._file = file
        self._parts = parts
        self._settle_seconds = settle_seconds
        self._checking = True
        self.skipped = parts[-1].skipped + parts[-1].records if parts else 0
        self.last_is_incomplete = False

    def __iter__(self) -> Iterator[bytes]:
        records = records_of(self._engine, self._file, self._accepts_last)
        for part in self._parts:
            if checksum_of(islice(records, part.records)) != part.checksum:
                raise PipelineError(
                    f"{self._file.path}: its first {part.skipped + part.records} records differ "
                    "from the migrated records. Move the file away. If the file has records that "
                    "the table lacks, write these records to a file with another name.",
                    topic="",
                )
        self._checking = False
        yield from records

    def check_not_replaced(self) -> None:
        """Check that the file didn't change while several requests read its content.

        Raises:
            PipelineError: another file has replaced it, so the records may be from two files.
        """
        if is_read_in_parts(self._file) and not self._is_as_listed():
            raise PipelineError(
                f"{self._file.path}: another file replaced it while it was migrated. Start the "
                "migration again when the file doesn't change.",
                topic="",
            )

    def _accepts_last(self, line: bytes) -> bool:
        # A line of a migrated part was already accepted by an earlier migration.
        self.last_is_incomplete = not (self._checking or is_whole(line) or self._is_settled())
        return not self.last_is_incomplete

    def _is_settled(self) -> bool:
        """Whether the file hasn't changed since it was listed and for at least `settle_seconds`."""
        age = time.time() - self._file.modified / 1000
        return self._is_as_listed() and age >= self._settle_seconds

    def _is_as_listed(self) -> bool:
        file = self._file
        now = self._engine.files.status(file.path)
        # Some stores list milliseconds, but only return seconds for a single object.
        same_time = now.modification_time // 1000 == file.modified // 1000
        return same_time and now.size == file.size


def _truncated(file: JsonFile, part: Part) -> JsonFile:
    """Return a file with the size that the file had when a part of it was migrated.

    A compressed file is returned unchanged.
    """
    grown = part.size < file.size and not file.is_compressed
    return replace(file, size=part.size) if grown else file
