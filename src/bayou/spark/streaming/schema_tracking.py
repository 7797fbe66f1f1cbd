"""Streams that follow changes of schema: stop before one, write it down, go on after a restart.

A change of metadata or protocol in commit v stands at (v, METADATA_CHANGE), before the commit's
files. A batch ends there. When Spark commits that batch, which it does on seeing another offset
(v, POST_METADATA_CHANGE), the new metadata goes into the schema log and the query stops. The next
run reads with it. Renames, drops and type changes it takes only if an option allows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bayou.errors import FileMissingError, StreamingSourceError, VersionNotFoundError
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.table_changes.commit_files import CommitFiles
from bayou.kernel.table_changes.schema_changes import (
    changes_between,
    read_problem,
    same_metadata,
    same_protocol,
    with_metadata,
)
from bayou.protocol.actions import Metadata, Protocol
from bayou.spark.streaming.errors import refusal
from bayou.spark.streaming.log_tail import Tail
from bayou.spark.streaming.offsets import (
    BASE_INDEX,
    METADATA_CHANGE_INDEX,
    POST_METADATA_CHANGE_INDEX,
    SourceOffset,
)
from bayou.spark.streaming.options import StreamOptions
from bayou.spark.streaming.schema_log import SchemaLog, SchemaLogEntry

__all__ = ["SchemaTracking"]

_UNKNOWN_SOURCE = "sources/0"


class SchemaTracking:
    """The schema log of a running stream, and what the stream reads with.

    Args:
        engine: reaches table and log.
        state: the table's version at which the stream is opened.
        options: of the stream; `schemaTrackingLocation` is set.

    Raises:
        StreamingSourceError: the log's latest change needs the user's consent, or the log is
            another table's.
    """

    def __init__(self, engine: Engine, state: TableState, options: StreamOptions) -> None:
        assert options.schema_tracking_location is not None
        self._state = state
        self._options = options
        self._log = SchemaLog(
            engine, options.schema_tracking_location, state, options.source_tracking_id
        )
        self._tail = Tail(state.path, table_id=state.table_id, feed=False, fail_on_data_loss=True)
        self._entry = self._log.current
        self.read_state = state
        if self._entry is not None:
            self._read_with(self._entry)

    @property
    def needs_initialization(self) -> bool:
        """Whether the log has no entry yet."""
        return self._log.current is None

    def check_consent(self) -> None:
        """Refuse to go on with the log's latest entry where it takes columns away unasked.

        Raises:
            StreamingSourceError: names the options that allow it.
        """
        current, previous = self._log.current, self._log.previous
        if current is None or previous is None:
            return
        table, known = self._state.path, self._state.metadata
        old, new = previous.metadata(known), current.metadata(known)
        change = changes_between(table, old, new)
        needed = [
            (word, option, columns)
            for word, option, columns in (
                ("rename", "allowSourceColumnRename", change.renamed),
                ("drop", "allowSourceColumnDrop", change.dropped),
                ("typechange", "allowSourceColumnTypeChange", change.widened),
            )
            if columns and self._options.allowed.get(word) not in ("always", str(current.version))
        ]
        if not needed:
            if not change:
                problem = read_problem(table, old, new, widens=True)
                if problem is not None:
                    raise refusal(
                        "DELTA_SCHEMA_CHANGED_WITH_VERSION",
                        f"The schema of {table} changed in version {current.version}: {problem}. "
                        "A stream can't go on across that. Start over with a new checkpoint.",
                        table=table,
                        version=current.version,
                    )
            return
        columns = "; ".join(f"{word}: {', '.join(names)}" for word, _, names in needed)
        settings = ", ".join(f".option('{option}', '{current.version}')" for _, option, _ in needed)
        raise refusal(
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
            f"Columns of {table} changed between version {previous.version} and "
            f"{current.version} ({columns}). Change what reads this stream accordingly, then start "
            f"the query with {settings} (or 'always').",
            table=table,
            version=current.version,
        )

    def merge_consecutive(self, engine: Engine) -> None:
        """Take over at once all changes that follow the current one with no files in between.

        For when a query is being made, so that it is written for the latest of them.
        """
        current = self._log.current
        if current is None:
            return
        metadata = protocol = None
        last = current.version
        for files in self._tail.commits(engine, current.version):
            changes = files.metadata is not None or files.protocol is not None
            if not changes or files.has_files:
                break
            last = files.version
            metadata = files.metadata or metadata
            protocol = files.protocol or protocol
        if last == current.version:
            return
        known = self._state
        entry = SchemaLogEntry.of(
            last,
            metadata or current.metadata(known.metadata),
            protocol or current.protocol_action(known.protocol),
            current.source_path,
            self._log.previous_for_replacement(),
        )
        self._log.write(entry)
        self._read_with(entry)

    def initialize(self, engine: Engine, start: SourceOffset, end: int | None, fresh: bool) -> None:
        """Write the first entry: the metadata at a stream's start.

        Args:
            start: where the stream stands.
            end: the last version of a batch that was planned before there was a log.
            fresh: whether nothing was read yet.

        Raises:
            StreamingSourceError: it isn't what the stream was opened with (start it again), or
                versions of the batch have no schema in common.
        """
        version = start.version
        if not fresh and start.index == BASE_INDEX and version > 0:
            version -= 1
        begun = self._load(engine, version)
        metadata, protocol, last = begun.metadata, begun.protocol, begun.version
        if end is not None and end > version:
            metadata, protocol = self._common(engine, begun, end)
            last = end
        self._write(engine, last, metadata, protocol)
        if self._differs(metadata, protocol, last):
            raise self._evolved(last)

    def is_change(self, files: CommitFiles) -> bool:
        """Whether a commit sets metadata or a protocol that isn't the one read with."""
        if self.needs_initialization:
            return False
        return self._differs(files.metadata, files.protocol, files.version)

    def pending(self, engine: Engine, start: SourceOffset) -> SourceOffset | None:
        """The next offset where the stream stands at a change; None where it may go on."""
        if start.index == METADATA_CHANGE_INDEX:
            return replace(start, index=POST_METADATA_CHANGE_INDEX)
        if start.index == POST_METADATA_CHANGE_INDEX and self.is_change(
            self._commit(engine, start.version)
        ):
            return start
        return None

    def evolve(self, engine: Engine, end: SourceOffset) -> None:
        """Write down the change at which a batch ended.

        Raises:
            StreamingSourceError: it is written; the query must be started again.
        """
        if not end.at_metadata_change:
            return
        files = self._commit(engine, end.version)
        if self.is_change(files):
            metadata = files.metadata or self.read_state.metadata
            protocol = files.protocol or self.read_state.protocol
            self._write(engine, end.version, metadata, protocol)
            raise self._evolved(end.version)

    def check_initial(self, engine: Engine, snapshot: TableState) -> None:
        """Write down the metadata of an initial snapshot that is newer than the log.

        Raises:
            StreamingSourceError: it is written; the query must be started again.
        """
        entry = self._entry
        if entry is None or snapshot.version < entry.version:
            return
        if self._differs(snapshot.metadata, snapshot.protocol, snapshot.version):
            previous = self._log.previous_for_replacement()
            self._write(
                engine, snapshot.version, snapshot.metadata, snapshot.protocol, previous=previous
            )
            raise self._evolved(snapshot.version)

    def _read_with(self, entry: SchemaLogEntry) -> None:
        state = self._state
        metadata = entry.metadata(state.metadata)
        self.read_state = with_metadata(state, metadata, entry.protocol_action(state.protocol))
        self._entry = entry

    def _differs(self, metadata: Metadata | None, protocol: Protocol | None, version: int) -> bool:
        if self._entry is not None and self._entry.version >= version:
            return False
        read = self.read_state
        if protocol is not None and not same_protocol(protocol, read.protocol):
            return True
        return metadata is not None and not same_metadata(metadata, read.metadata)

    def _write(
        self,
        engine: Engine,
        version: int,
        metadata: Metadata,
        protocol: Protocol,
        previous: int | None = None,
    ) -> None:
        known = self._log.current
        source = self._source_path(engine) if known is None else known.source_path
        self._log.write(SchemaLogEntry.of(version, metadata, protocol, source, previous))

    def _source_path(self, engine: Engine) -> str:
        """The source's folder in the checkpoint, which Spark doesn't tell.

        The checkpoint is the nearest folder above the log with Spark's file `metadata`.
        """
        for folder in _ancestors(self._log.root):
            try:
                engine.files.status(f"{folder}/metadata")
            except FileMissingError:
                continue
            scheme = "file:" if folder.startswith("/") else ""
            return f"{scheme}{folder}/{_UNKNOWN_SOURCE}"
        return _UNKNOWN_SOURCE

    def _common(self, engine: Engine, begun: TableState, end: int) -> tuple[Metadata, Protocol]:
        """Metadata with which all versions of a planned batch can be read."""
        table = self._state.path
        seen: list[Metadata] = [begun.metadata]
        protocol = begun.protocol
        for files in self._tail.commits(engine, begun.version + 1, end):
            if files.metadata is not None:
                seen.append(files.metadata)
            protocol = files.protocol or protocol
        last = seen[-1]
        for earlier in seen[:-1]:
            if changes_between(table, earlier, last) or read_problem(table, earlier, last):
                raise refusal(
                    "DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA",
                    f"The batch that was planned before reads versions {begun.version} to {end} of "
                    f"{table}, whose schemas have no one in common. Start over with a new "
                    "checkpoint.",
                    table=table,
                    version=end,
                )
        return last, protocol

    def _load(self, engine: Engine, version: int) -> TableState:
        if version == self._state.version:
            return self._state
        try:
            return load_table_state(engine, self._state.path, version)
        except VersionNotFoundError as error:
            if error.latest is not None and version > error.latest:
                return load_table_state(engine, self._state.path)
            raise

    def _commit(self, engine: Engine, version: int) -> CommitFiles:
        found: Iterator[CommitFiles] = self._tail.commits(engine, version, version)
        return next(found)

    def _evolved(self, version: int) -> StreamingSourceError:
        return refusal(
            "DELTA_STREAMING_METADATA_EVOLUTION",
            f"The schema, the properties or the protocol of {self._state.path} changed in version "
            f"{version}, and the schema log {self._log.folder} has been updated. Start the query "
            "again to go on with them.",
            table=self._state.path,
            version=version,
        )


def _ancestors(folder: str) -> Iterator[str]:
    """The folder and those above it, as long as they aren't a store's root."""
    while folder.rpartition("/")[0] and not folder.endswith("/"):
        yield folder
        folder = folder.rpartition("/")[0]
