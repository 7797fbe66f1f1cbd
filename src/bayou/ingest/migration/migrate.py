"""JSON files into a topic's table: in batches, each recorded before it is done.

Killed at any moment it goes on where it was: the ledger says what the batch under way was to
contain, the target's transaction identifier whether it does.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec

from bayou.engines import for_path
from bayou.errors import ConcurrentTransactionError, PipelineError
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.direct_writer import MIGRATED, DirectWriter, record_batch
from bayou.ingest.migration.json_files import JsonFile, json_files, records_of
from bayou.ingest.migration.ledger import Ledger, Part
from bayou.ingest.progress import MigrationReport
from bayou.ingest.rows import KAFKA_COLUMNS
from bayou.kernel import Engine

__all__ = ["application_id", "checksum_of", "migrate_json"]

_BATCH_RECORDS = 50_000
_BATCH_BYTES = 64 << 20


def migrate_json(
    configuration: Configuration,
    topic: Topic,
    source: str,
    *,
    batch_records: int = _BATCH_RECORDS,
    told: Callable[[MigrationReport], None] | None = None,
) -> MigrationReport:
    """Move the JSON files below a folder into a topic's table, as the topic's records are.

    Repeatable: what is there stays, files that are new or have grown are read.

    Args:
        source: a folder or a file, local or a URI of the topic's store.
        batch_records: records of a commit, at most.
        told: called after each commit.

    Raises:
        PipelineError: a file can't be read, or was changed before its part was in the table;
            another process migrates the same.
        BayouError: it can't be written.
    """
    return _Migration(configuration, topic, source, batch_records, told).run()


def application_id(source: str) -> str:
    """The target's transaction identifier for a folder."""
    return f"migration/{source}"


@dataclass(slots=True)
class _Piece:
    """Records of one file that wait for a batch."""

    file: JsonFile
    skipped: int
    values: list[bytes] = field(default_factory=list)
    complete: bool = False


class _Migration:
    def __init__(
        self,
        configuration: Configuration,
        topic: Topic,
        source: str,
        batch_records: int,
        told: Callable[[MigrationReport], None] | None,
    ) -> None:
        storage_options = configuration.connector.storage.storage_options()
        self._topic = topic
        self._engine: Engine = for_path(source, storage_options)
        self._source = self._engine.files.resolve_path(source)
        self._ledger = Ledger(topic.table_path, storage_options)
        self._writer = DirectWriter(configuration, topic)
        self._batch_records = batch_records
        self._told = told
        self._began = time.monotonic()
        self._report = MigrationReport(topic=topic.key, source=self._source)
        self._offsets: dict[int, int] = {}

    def run(self) -> MigrationReport:
        parts = self._ledger.parts(self._source)
        files = {file.name: file for file in json_files(self._engine, self._source)}
        done = self._writer.transactions().get(application_id(self._source), -1)
        for part in parts:
            self._offsets |= {int(p): o for p, o in msgspec.json.decode(part.offsets).items()}
        self._next_batch = max((part.batch for part in parts), default=-1) + 1
        self._next_number = self._ledger.next_number()
        for batch in sorted({part.batch for part in parts if part.batch > done}):
            self._repeat([part for part in parts if part.batch == batch], files)
        known: dict[str, Part] = {part.file: part for part in parts}
        todo: list[tuple[JsonFile, int]] = []
        for name, file in files.items():
            last = known.get(name)
            if last is not None and last.complete and last.size == file.size:
                self._report = replace(self._report, known=self._report.known + 1)
            else:
                todo.append((file, 0 if last is None else last.skipped + last.records))
        for pieces in self._batches(todo):
            self._commit(pieces)
        return self._finished()

    def _finished(self) -> MigrationReport:
        return replace(
            self._report, seconds=time.monotonic() - self._began, offsets=dict(self._offsets)
        )

    def _repeat(self, parts: list[Part], files: Mapping[str, JsonFile]) -> None:
        """A batch that the ledger has and the target lacks."""
        pieces: list[tuple[_Piece, int]] = []
        for part in parts:
            file = files.get(part.file)
            values: list[bytes] = []
            if file is not None:
                values = list(
                    islice(
                        records_of(self._engine, file), part.skipped, part.skipped + part.records
                    )
                )
            if file is None or checksum_of(values) != part.checksum:
                raise PipelineError(
                    f"topic {self._topic.key!r}: {part.file} below {self._source} was "
                    f"{'deleted' if file is None else 'changed'} while it was migrated. Bring the "
                    "file back as it was and start again.",
                    topic=self._topic.key,
                )
            piece = _Piece(file, part.skipped, values, part.complete)
            pieces.append((piece, part.first))
        self._write(pieces, parts[0].batch)

    def _batches(self, todo: list[tuple[JsonFile, int]]) -> Iterator[list[_Piece]]:
        waiting: list[_Piece] = []
        count = size = 0
        for file, skipped in todo:
            piece = _Piece(file, skipped)
            waiting.append(piece)
            for value in islice(records_of(self._engine, file), skipped, None):
                if count >= self._batch_records or size >= _BATCH_BYTES:
                    yield [p for p in waiting if p.values or p.complete]
                    piece = _Piece(file, piece.skipped + len(piece.values))
                    waiting, count, size = [piece], 0, 0
                piece.values.append(value)
                count += 1
                size += len(value)
            piece.complete = True
            self._report = replace(self._report, files=self._report.files + 1)
        if waiting:
            yield waiting

    def _commit(self, pieces: list[_Piece]) -> None:
        numbered: list[tuple[_Piece, int]] = []
        parts: list[Part] = []
        for piece in pieces:
            checksum = checksum_of(piece.values)
            numbered.append((piece, self._next_number))
            parts.append(
                Part(
                    source=self._source,
                    batch=self._next_batch,
                    file=piece.file.name,
                    size=piece.file.size,
                    skipped=piece.skipped,
                    records=len(piece.values),
                    first=self._next_number,
                    complete=piece.complete,
                    checksum=checksum,
                )
            )
            self._next_number += len(piece.values)
            _without_made_columns(piece.values, self._offsets)
        offsets = msgspec.json.encode({str(p): o for p, o in self._offsets.items()}).decode()
        parts = [msgspec.structs.replace(part, offsets=offsets) for part in parts]
        try:
            self._ledger.add(parts)
        except ConcurrentTransactionError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: another process migrates {self._source}; let that one "
                "end.",
                topic=self._topic.key,
            ) from error
        self._write(numbered, self._next_batch, stripped=True)
        self._next_batch += 1

    def _write(
        self, pieces: list[tuple[_Piece, int]], batch: int, *, stripped: bool = False
    ) -> None:
        name = self._topic.config.kafka_topic
        records = []
        count = 0
        for piece, first in pieces:
            values = piece.values
            if not stripped:
                values = _without_made_columns(values, self._offsets)
            count += len(values)
            moments = [piece.file.moment] * len(values)
            if values:
                records.append(
                    record_batch(name, values, partition=MIGRATED, first=first, timestamps=moments)
                )
        written = self._writer.write(records, {application_id(self._source): batch})
        self._report = replace(
            self._report,
            records=self._report.records + count,
            rows=self._report.rows + written.rows,
            dead_letters=self._report.dead_letters + written.dead_letters,
            version=self._report.version if written.version is None else written.version,
        )
        if self._told is not None:
            self._told(self._finished())


def _without_made_columns(values: list[bytes], offsets: dict[int, int]) -> list[bytes]:
    """Take out what an older pipeline has added to records, in place; learn Kafka's offsets of it.

    Args:
        offsets: the last one of each partition, brought up to date.
    """
    for at, value in enumerate(values):
        if _MADE not in value:
            continue
        try:
            record: Any = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # it will be a dead letter
        if not isinstance(record, dict) or not _NAMES & record.keys():
            continue
        partition, offset = record.get("_kafka_partition"), record.get("_kafka_offset")
        if type(partition) is int and type(offset) is int and partition >= 0:
            offsets[partition] = max(offsets.get(partition, -1), offset)
        values[at] = msgspec.json.encode({k: v for k, v in record.items() if k not in _NAMES})
    return values


_MADE = b'"_'
_NAMES = frozenset((*KAFKA_COLUMNS.names, "_kafka_timestamp"))


def checksum_of(values: list[bytes]) -> str:
    """SHA-256 of records as they stand in their file."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(value)
        digest.update(b"\n")
    return digest.hexdigest()
