"""Row tracking for a table that already has files (PROTOCOL.md, Row Tracking).

The feature is first added to the protocol, so that new files get row ids. Then the existing files
are added again with row ids (backfill). Finally, the table property is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from bayou.errors import ConcurrentDeleteReadError
from bayou.kernel.commands.alter.alteration import Alteration
from bayou.kernel.commands.alter.protocol import add_feature
from bayou.kernel.commands.version_files import live_files
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.protocol import features
from bayou.protocol.actions import AddFile

_FILES_PER_COMMIT = 100_000
_MAX_RETRIES = 50


def enable_row_tracking(
    engine: Engine, state: TableState, *, engine_info: str
) -> tuple[TableState, int]:
    """Assign row ids to all files; afterwards, the caller can set `delta.enableRowTracking`.

    Returns the table's new state and the number of commits.
    """
    commits = 0
    if features.ROW_TRACKING not in features.writer_features(state.protocol):
        commits += add_feature(
            engine, state, features.ROW_TRACKING, engine_info=engine_info
        ).num_commits
        state = _reload(engine, state)
    state, done = _recommit(
        engine,
        state,
        engine_info=engine_info,
        operation=Operation.ROW_TRACKING_BACKFILL,
        change=lambda add: add if add.base_row_id is None else None,
    )
    return state, commits + done


def without_row_ids(
    engine: Engine, state: TableState, *, engine_info: str
) -> tuple[TableState, int]:
    """Remove the row ids from all files of a table whose row tracking is suspended.

    Returns the table's new state and the number of commits.
    """

    def change(add: AddFile) -> AddFile | None:
        if add.base_row_id is None and add.default_row_commit_version is None:
            return None
        return msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None)

    return _recommit(
        engine,
        state,
        engine_info=engine_info,
        operation=Operation.ROW_TRACKING_UNBACKFILL,
        change=change,
    )


def _recommit(
    engine: Engine,
    state: TableState,
    *,
    engine_info: str,
    operation: Operation,
    change: Callable[[AddFile], AddFile | None],
) -> tuple[TableState, int]:
    """Change the `add` actions of the live files, in one or more commits.

    If another writer concurrently removes or changes a file, a commit of this file's action would
    undo the change. The commit therefore fails, and is repeated with actions that are computed
    from the table's new state.

    Args:
        change: function that returns a file's changed `add` action, or None to keep the action.

    Returns:
        The table's new state and the number of commits.
    """
    commits = conflicts = 0
    while True:
        adds = list(islice(_changed_files(engine, state, change), _FILES_PER_COMMIT))
        if not adds:
            return state, commits
        alteration = Alteration(
            engine=engine,
            state=state,
            engine_info=engine_info,
            operation=operation,
            parameters={"batchId": str(commits)},
            reads_paths=frozenset(add.path for add in adds),
        )
        try:
            alteration.commit(actions=adds)
            commits += 1
        except ConcurrentDeleteReadError:
            conflicts += 1
            if conflicts > _MAX_RETRIES:
                raise
        state = _reload(engine, state)


def _changed_files(
    engine: Engine, state: TableState, change: Callable[[AddFile], AddFile | None]
) -> Iterator[AddFile]:
    with live_files(engine, state) as files:
        for file in files:
            changed = change(file.add)
            if changed is not None:
                yield msgspec.structs.replace(changed, data_change=False)


def _reload(engine: Engine, state: TableState) -> TableState:
    return load_table_state(engine, state.path, catalog=state.catalog)
