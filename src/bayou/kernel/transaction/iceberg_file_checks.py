"""Checks of data files for Iceberg compatibility; `iceberg_compat` has the other rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.table_features.iceberg_compat import (
    check_add,
    deletion_vectors_not_purged,
    iceberg_compat_version,
)
from bayou.kernel.transaction.commit_file_actions import num_records
from bayou.protocol import features
from bayou.protocol.actions import Action, AddFile


def checked_actions(
    table: str, configuration: Mapping[str, str], actions: Iterable[Action]
) -> Iterable[Action]:
    """Return the actions unchanged; each added file is checked when the iteration reaches it.

    Raises:
        IcebergCompatError: during the iteration, if a file violates a rule of the Iceberg
            compatibility version that `configuration` enables.
    """
    version = iceberg_compat_version(configuration)
    return actions if version is None else _checked(table, version, actions)


def _checked(table: str, version: int, actions: Iterable[Action]) -> Iterator[Action]:
    for action in actions:
        if isinstance(action, AddFile):
            check_add(table, version, action, num_records(action.stats))
        yield action


def check_purged(
    engine: Engine,
    table: str,
    state: TableState | None,
    configuration: Mapping[str, str],
    operation: Operation,
) -> None:
    """If a commit enables Iceberg compatibility, check that no live file has a deletion vector.

    Only versions 1 and 2 of Iceberg compatibility are checked, because version 3 allows deletion
    vectors. A RESTORE isn't checked. REORG TABLE ... APPLY (UPGRADE UNIFORM ...) isn't checked
    either, because it rewrites files with deletion vectors in later commits.

    Args:
        state: the table before the commit; None for a new table.

    Raises:
        IcebergCompatError: a file has a deletion vector.
    """
    version = iceberg_compat_version(configuration)
    if (
        state is None
        or version not in (1, 2)
        or iceberg_compat_version(state.properties) is not None
        or operation in (Operation.UPGRADE_UNIFORM, Operation.RESTORE)
        or features.DELETION_VECTORS not in features.all_features(state.protocol)
    ):
        return
    scan = ScanBuilder(state).with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            if file.deletion_vector is not None:
                raise deletion_vectors_not_purged(table, version, file.add.path)
