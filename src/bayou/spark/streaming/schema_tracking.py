"""Schema evolution of a stream with a schema log.

A batch ends before the files of each version v that changes the metadata or the protocol:

1. The end offset of this batch is (v, METADATA_CHANGE_INDEX).
2. The stream then returns the offset (v, POST_METADATA_CHANGE_INDEX), so that Spark commits the
   batch.
3. When Spark commits the batch, the stream writes the new metadata to the schema log. The query
   stops with an error.
4. The next run of the query uses the new metadata. If the change renames, drops or widens columns,
   this run fails unless an option of the stream allows the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bayou.errors import FileMissingError, StreamingSourceError, VersionNotFoundError
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.table_changes.schema_changes import (
    changes_between,
    read_problem,
    same_metadata,
    same_protocol,
    with_metadata,
)
from bayou.kernel.table_changes.streamed_commits import CommitFiles
from bayou.protocol.actions import Metadata, Protocol
from bayou.spark.streaming.errors import streaming_error
from bayou.spark.streaming.log_tail import CommitReader
from bayou.spark.streaming.offsets import (
    BASE_INDEX,
    METADATA_CHANGE_INDEX,
    POST_METADATA_CHANGE_INDEX,
    SourceOffset,
)
from bayou.spark.streaming.options import StreamOptions
from bayou.spark.streaming.schema_log import SchemaLog, SchemaLogEntry

_UNKNOWN_SOURCE = "sources/0"
_NO_ENTRY = -1
"""Number of the entry before the first entry of a schema log."""


class SchemaTracking:
    """The schema log of a running stream, and the table state that the stream uses.

    Args:
        state: the table's state when the stream is opened.
        options: the stream's options; `schemaTrackingLocation` is set.

    Attributes:
        read_state: `state` with the metadata and protocol of the log's latest entry.
    """

    def __init__(self, engine: Engine, state: TableState, options: StreamOptions) -> None:
        assert options.schema_tracking_location is not None
        self._state = state
        self._options = options
        self._log = SchemaLog(
            engine, options.schema_tracking_location, state, options.source_tracking_id
        )
        self._commits = CommitReader(
            state.path, table_id=state.table_id, feed=False, fail_on_data_loss=True
        )
        self._entry = self._log.current
        self.read_state = state
        if self._entry is not None:
            self._set_read_state(self._entry)

    @property
    def needs_initialization(self) -> bool:
        """Whether the log has no entry yet."""
        return self._log.current is None

    def check_consent(self) -> None:
        """Check that the options allow the schema change in the log's latest entry.

        Raises:
            StreamingSourceError: a column is renamed, dropped or widened, and no option allows
                this. The error is also raised for a schema change that no option can allow.
        """
        current, previous = self._log.current, self._log.previous
        if current is None or previous is None:
            return
        table, known = self._state.path, self._state.metadata
        old, new = previous.metadata(known), current.metadata(known)
        change = changes_between(table, old, new)
        needed = [
            (kind, option, columns)
            for kind, option, columns in (
                ("rename", "allowSourceColumnRename", change.renamed),
                ("drop", "allowSourceColumnDrop", change.dropped),
                ("typechange", "allowSourceColumnTypeChange", change.widened),
            )
            if columns and self._options.allowed.get(kind) not in ("always", str(current.version))
        ]
        if not needed:
            if not change:
                problem = read_problem(table, old, new, widens=True)
                if problem is not None:
                    raise streaming_error(
                        "DELTA_SCHEMA_CHANGED_WITH_VERSION",
                        f"Table {table}: version {current.version} changes the schema: {problem}. "
                        "A stream can't continue across this change. Start the query with a new "
                        "checkpointLocation.",
                        table=table,
                        version=current.version,
                    )
            return
        columns = "; ".join(f"{kind}: {', '.join(names)}" for kind, _, names in needed)
        settings = ", ".join(f".option('{option}', '{current.version}')" for _, option, _ in needed)
        raise streaming_error(
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
            f"Table {table}: columns changed between versions {previous.version} and "
            f"{current.version} ({columns}). Adapt the query to the change, then start it with "
            f"{settings} (or 'always').",
            table=table,
            version=current.version,
        )

    def merge_consecutive(self, engine: Engine) -> None:
        """Replace the log's current entry by an entry that includes the next metadata changes.

        The query then stops once, and not at each of these changes. A commit is included if it
        changes the metadata or the protocol, and has no files. The merge ends before the first
        other commit.

        The log's first entry isn't replaced: rows of the initial snapshot may have been read with
        it, so `check_consent` must compare the new entry with it.
        """
        current = self._log.current
        if current is None:
            return
        metadata = protocol = None
        last = current.version
        for files in self._commits.commits(engine, current.version):
            changes = files.metadata is not None or files.protocol is not None
            if not changes or files.has_files:
                break
            last = files.version
            metadata = files.metadata or metadata
            protocol = files.protocol or protocol
        if last == current.version:
            return
        known, previous = self._state, self._log.previous_for_replacement()
        entry = SchemaLogEntry.of(
            last,
            metadata or current.metadata(known.metadata),
            protocol or current.protocol_action(known.protocol),
            current.source_path,
            None if previous == _NO_ENTRY else previous,
        )
        self._log.write(entry)
        self._set_read_state(entry)

    def initialize(
        self, engine: Engine, start: SourceOffset, end: int | None, is_new: bool
    ) -> None:
        """Write the first entry of the log.

        The entry has the metadata of version `end`. If `end` is None, the entry has the metadata of
        the table at the offset `start`.

        Args:
            start: the offset at which the stream starts or continues.
            end: the last version of a batch that was planned before the schema log existed; None
                if there is no such batch.
            is_new: whether the stream has read no rows yet.

        Raises:
            StreamingSourceError: no single schema can read all versions up to `end`. The error is
                also raised if the entry's metadata differs from the metadata that the stream was
                opened with. In the second case, the query must be restarted.
        """
        version = start.version
        if not is_new and start.index == BASE_INDEX and version > 0:
            version -= 1
        first = self._load(engine, version)
        metadata, protocol, last = first.metadata, first.protocol, first.version
        if end is not None and end > version:
            metadata, protocol = self._common_metadata(engine, first, end)
            last = end
        self._write(engine, last, metadata, protocol)
        if self._differs(metadata, protocol, last):
            raise self._metadata_evolution(last)

    def is_change(self, files: CommitFiles) -> bool:
        """Whether a commit has other metadata or another protocol than `read_state`."""
        if self.needs_initialization:
            return False
        return self._differs(files.metadata, files.protocol, files.version)

    def pending(self, engine: Engine, start: SourceOffset) -> SourceOffset | None:
        """Return the end offset of the next batch if this batch must be empty.

        - After METADATA_CHANGE_INDEX, the next batch is empty and ends at
          POST_METADATA_CHANGE_INDEX.
        - After POST_METADATA_CHANGE_INDEX, the result is `start` until the schema log has the
          metadata change.
        - In all other cases the result is None, and the next batch can read files.
        """
        if start.index == METADATA_CHANGE_INDEX:
            return replace(start, index=POST_METADATA_CHANGE_INDEX)
        if start.index == POST_METADATA_CHANGE_INDEX and self.is_change(
            self._commit(engine, start.version)
        ):
            return start
        return None

    def evolve(self, engine: Engine, end: SourceOffset) -> None:
        """Write the metadata change at the offset `end` to the log, if there is a change.

        Raises:
            StreamingSourceError: the log was updated, and the query must be restarted.
        """
        if not end.at_metadata_change:
            return
        files = self._commit(engine, end.version)
        if self.is_change(files):
            metadata = files.metadata or self.read_state.metadata
            protocol = files.protocol or self.read_state.protocol
            self._write(engine, end.version, metadata, protocol)
            raise self._metadata_evolution(end.version)

    def check_initial(self, engine: Engine, snapshot: TableState) -> None:
        """If an initial snapshot has newer metadata than the log, write this metadata to the log.

        Raises:
            StreamingSourceError: the log was updated, and the query must be restarted.
        """
        entry = self._entry
        if entry is None or snapshot.version < entry.version:
            return
        if self._differs(snapshot.metadata, snapshot.protocol, snapshot.version):
            previous = self._log.previous_for_replacement()
            self._write(
                engine, snapshot.version, snapshot.metadata, snapshot.protocol, previous=previous
            )
            raise self._metadata_evolution(snapshot.version)

    def _set_read_state(self, entry: SchemaLogEntry) -> None:
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
        """Return the source's folder in the checkpoint, for `SchemaLogEntry.source_path`.

        Spark doesn't pass the checkpoint's location to Python sources. Bayou therefore uses the
        nearest folder above the schema tracking location that contains Spark's file `metadata`.
        """
        for folder in _ancestors(self._log.root):
            try:
                engine.files.status(f"{folder}/metadata")
            except FileMissingError:
                continue
            scheme = "file:" if folder.startswith("/") else ""
            return f"{scheme}{folder}/{_UNKNOWN_SOURCE}"
        return _UNKNOWN_SOURCE

    def _common_metadata(
        self, engine: Engine, first: TableState, end: int
    ) -> tuple[Metadata, Protocol]:
        """Return the metadata and protocol of version `end`.

        Raises:
            StreamingSourceError: a version from `first` to `end` can't be read with this metadata.
        """
        table = self._state.path
        all_metadata: list[Metadata] = [first.metadata]
        protocol = first.protocol
        for files in self._commits.commits(engine, first.version + 1, end):
            if files.metadata is not None:
                all_metadata.append(files.metadata)
            protocol = files.protocol or protocol
        last = all_metadata[-1]
        for earlier in all_metadata[:-1]:
            if changes_between(table, earlier, last) or read_problem(table, earlier, last):
                raise streaming_error(
                    "DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA",
                    f"Table {table}: the batch in the checkpoint has versions {first.version} to "
                    f"{end}, which can't be read with one schema. Start the query with a new "
                    "checkpointLocation.",
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
        return next(self._commits.commits(engine, version, version))

    def _metadata_evolution(self, version: int) -> StreamingSourceError:
        return streaming_error(
            "DELTA_STREAMING_METADATA_EVOLUTION",
            f"Table {self._state.path}: version {version} changes the schema, the properties or "
            f"the protocol, and the schema log {self._log.folder} is updated. Restart the query to "
            "continue.",
            table=self._state.path,
            version=version,
        )


def _ancestors(folder: str) -> Iterator[str]:
    """Yield the folder and all folders above it, except for the root."""
    while folder.rpartition("/")[0] and not folder.endswith("/"):
        yield folder
        folder = folder.rpartition("/")[0]
