"""Results of tasks that change rows: the written files, and the actions that commit them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from bayou.errors import ArgumentError
from bayou.kernel.arrow.serialization import PickledTask
from bayou.kernel.data_writer.data_writer import delete_data_files
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.commit_table_actions import current_time_ms, to_remove
from bayou.protocol.actions import Action, AddCDCFile, AddFile, RemoveFile


@dataclass(slots=True, kw_only=True)
class RowChanges(PickledTask):
    """The files that tasks have written, and the actions that commit these files.

    Attributes:
        added: `add` actions of new data files.
        with_deletion_vectors: `add` actions of existing files that get a new deletion vector.
        removed: `remove` actions of removed files, and of files that get a new deletion vector.
        change_files: `cdc` actions of change data files.
        vector_files: absolute paths of written deletion vector files, not URL-encoded.
        num_deleted_rows: number of deleted rows. None if a file without a row count in the log was
            removed without being read.
        num_removed_files: number of removed files, without files that get a new deletion vector.
        num_removed_bytes: total size of the same files in bytes.
        num_vectors_added: number of files that get their first deletion vector.
        num_vectors_updated: number of files whose deletion vector is replaced.
        num_vectors_removed: number of removed files that had a deletion vector.
        scan_seconds: duration of the search for matching rows. If there are several workers, this
            is the longest of their durations.
    """

    added: list[AddFile] = field(default_factory=list)
    with_deletion_vectors: list[AddFile] = field(default_factory=list)
    removed: list[RemoveFile] = field(default_factory=list)
    change_files: list[AddCDCFile] = field(default_factory=list)
    vector_files: list[str] = field(default_factory=list)
    num_copied_rows: int = 0
    num_deleted_rows: int | None = 0
    num_updated_rows: int = 0
    num_inserted_rows: int = 0
    num_removed_files: int = 0
    num_removed_bytes: int = 0
    num_vectors_added: int = 0
    num_vectors_updated: int = 0
    num_vectors_removed: int = 0
    scan_seconds: float = 0.0

    @property
    def actions(self) -> list[Action]:
        """Actions for the commit; empty if nothing changes."""
        return [*self.removed, *self.with_deletion_vectors, *self.added, *self.change_files]

    def remove_files(self, files: Iterable[ScanFile], *, data_change: bool = True) -> None:
        """Remove whole files without reading them."""
        now = current_time_ms()
        for file in files:
            self.remove(file.add, now, data_change=data_change)
            rows = file.num_records
            if rows is None or self.num_deleted_rows is None:
                self.num_deleted_rows = None
                continue
            vector = file.deletion_vector
            self.num_deleted_rows += rows - (0 if vector is None else vector.cardinality)

    def remove(self, add: AddFile, now: int, *, data_change: bool = True) -> None:
        """Remove a file without counting its rows.

        Args:
            now: `deletionTimestamp` of the `remove` action.
        """
        self.removed.append(to_remove(add, now, data_change=data_change))
        self.num_removed_files += 1
        self.num_removed_bytes += add.size
        if add.deletion_vector is not None:
            self.num_vectors_removed += 1

    def vector_counts(self) -> dict[str, int]:
        """Return the metrics of deletion vectors.

        As in delta-spark, a replaced vector is counted as updated, as added and as removed.
        """
        return {
            "num_deletion_vectors_added": self.num_vectors_added + self.num_vectors_updated,
            "num_deletion_vectors_removed": self.num_vectors_removed + self.num_vectors_updated,
            "num_deletion_vectors_updated": self.num_vectors_updated,
        }

    def discard(self, engine: Engine, table: str) -> None:
        """Delete the written files. Don't call this after a commit whose result is unknown."""
        delete_data_files(engine, table, [*self.added, *self.change_files])
        engine.files.delete_files(self.vector_files)

    @classmethod
    def combined(cls, results: Iterable[RowChanges]) -> RowChanges:
        """Combine the results of several workers on different files of one table."""
        total = cls()
        for changes in results:
            for name in _LISTS:
                getattr(total, name).extend(getattr(changes, name))
            for name in _COUNTS:
                one, other = getattr(total, name), getattr(changes, name)
                setattr(total, name, None if one is None or other is None else one + other)
            total.scan_seconds = max(total.scan_seconds, changes.scan_seconds)
        removed = [remove.path for remove in total.removed]
        if len(set(removed)) < len(removed):
            duplicate = next(path for path, count in Counter(removed).items() if count > 1)
            raise ArgumentError(
                f"{duplicate}: two workers changed this file. Call `discard` of each result to "
                "delete the files that the workers wrote. Then repeat the operation, and assign "
                "each file to one worker.",
                argument="results",
            )
        return total


_LISTS = ("added", "with_deletion_vectors", "removed", "change_files", "vector_files")
_COUNTS = tuple(f.name for f in fields(RowChanges) if f.name.startswith("num_"))
