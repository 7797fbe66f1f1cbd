"""DELETE: rows for which a condition is true go away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.kernel.engine import Engine
from bayou.kernel.operations.file_change import FileChange
from bayou.kernel.operations.row_changes import RowChanges, apply_row_changes
from bayou.kernel.operations.row_operation import (
    RowOperation,
    commit_row_changes,
    history_metrics,
)
from bayou.kernel.predicates.model import Predicate
from bayou.kernel.scan_file import ScanFile
from bayou.kernel.table_state import TableState
from bayou.kernel.writes.operation import Operation

__all__ = ["DeleteMetrics", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMetrics:
    """What a DELETE did; times are in milliseconds. The history has the same, in camel case.

    Attributes:
        version: the table's afterwards; where nothing matched, the one that was read.
        num_deleted_rows: None where files went away whose statistics don't tell their rows.
        num_copied_rows: rows that were left in files that were rewritten.
        num_deletion_vectors_added: vectors that are new, those that replace one included.
        num_deletion_vectors_removed: vectors that are gone, those that were replaced included.
        num_deletion_vectors_updated: vectors that replace one.
    """

    version: int
    num_removed_files: int = 0
    num_added_files: int | None = 0
    num_deleted_rows: int | None = 0
    num_copied_rows: int | None = 0
    num_deletion_vectors_added: int = 0
    num_deletion_vectors_removed: int = 0
    num_deletion_vectors_updated: int = 0
    num_added_change_files: int = 0
    num_removed_bytes: int = 0
    num_added_bytes: int = 0
    execution_time_ms: int = 0
    scan_time_ms: int = 0
    rewrite_time_ms: int = 0


def delete(
    engine: Engine,
    table: TableState,
    where: Predicate | str | None = None,
    *,
    engine_info: str,
    user_metadata: str | None = None,
) -> DeleteMetrics:
    """Delete rows, and commit; nothing is committed where no row matches.

    Files whose rows all match, by partition values or by statistics that can't be wrong, are
    removed without being read. Of the others those columns are read that the condition names; then
    a deletion vector marks the matching rows (`delta.enableDeletionVectors`), or the rest is copied
    to a new file.

    Args:
        table: the version that is read.
        where: rows for which it is true; SQL text or a predicate. None: all rows.

    Raises:
        PredicateError: the condition can't be understood, or fails for a row.
        ConstraintViolationError: the table is append-only.
        CommitConflictError: another writer's commit won and doesn't go with this one.
        UnsupportedFeatureError, DataFileError, CommitFailedError: as the names say.
    """
    operation = RowOperation.begin(
        engine,
        table,
        Operation.DELETE,
        where,
        without_condition=["true"],
        engine_info=engine_info,
        user_metadata=user_metadata,
    )
    state = operation.state
    # Of deletion vectors and of files that go away the feed is made without change data files.
    recorded = state.records_changes and not (state.marks_rows or operation.matching.by_files_alone)
    whole: list[ScanFile] = []

    def changes() -> Iterator[FileChange]:
        with operation.files(engine) as files:
            for found in files:
                if found.positions is None and not recorded:
                    whole.append(found.file)
                    continue
                yield FileChange(
                    file=found.file,
                    deleted=found.all_positions(engine),
                    rewrite=not state.marks_rows,
                )

    changed = apply_row_changes(engine, state, changes(), record_changes=recorded)
    changed.remove_files(whole)
    counts = {**_counts(changed), **operation.times()}
    version = commit_row_changes(engine, operation.transaction, changed, history_metrics(counts))
    return DeleteMetrics(version=version, **counts)


def _counts(changes: RowChanges) -> dict[str, Any]:
    known = changes.num_deleted_rows is not None
    return {
        "num_removed_files": changes.num_removed_files,
        "num_added_files": len(changes.added) if known else None,
        "num_deleted_rows": changes.num_deleted_rows,
        "num_copied_rows": changes.num_copied_rows if known else None,
        **changes.vector_counts(),
        "num_added_change_files": len(changes.change_files),
        "num_removed_bytes": changes.num_removed_bytes,
        "num_added_bytes": sum(add.size for add in changes.added),
    }
