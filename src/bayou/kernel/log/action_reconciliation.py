"""Reconciliation of the actions of commits (PROTOCOL.md, Action Reconciliation).

Commits are added to an `ActionAccumulator`, from the newest to the oldest. File actions are stored
as columns in a `FileActionStore`, in memory (`MemoryStore`) or on the local disk (`SpilledStore`).
Both stores call `reconcile`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from typing import Protocol as Interface

import pyarrow as pa

from bayou.kernel.arrow.arrays import arange, to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.checkpoint.schema import REMOVE_TYPE, removes_to_array
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, FileActionKeys
from bayou.kernel.log.widened_double_stats import (
    ChangeToDouble,
    DatedMetadata,
    exact_double_files,
    newest_change_to_double,
)
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
)

_MAX_BUFFERED_ACTIONS = 16_384


@dataclass(slots=True, kw_only=True)
class NewestActions:
    """The newest protocol, metadata, transactions and domain metadata.

    Attributes:
        transactions: the newest `txn` action of each application, by application id.
        domains: the newest `domainMetadata` action of each domain, by domain.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    def add(self, action: Action) -> None:
        """Add an action. Actions must be added from the newest to the oldest."""
        match action:
            case Transaction():
                self.transactions.setdefault(action.app_id, action)
            case DomainMetadata():
                self.domains.setdefault(action.domain, action)
            case Metadata():
                self.metadata = self.metadata or action
            case Protocol():
                self.protocol = self.protocol or action
            case _:
                pass


@dataclass(frozen=True, slots=True)
class ActionColumns:
    """`add` actions or `remove` actions as columns.

    Attributes:
        commits: index of each action's commit, counted from the newest commit (0); int32.
        keys: log-replay key of each action, as a string: canonical path, `KEY_SEPARATOR` and
            deletion vector id.
        files: the actions, `ADD_TYPE` or `REMOVE_TYPE`.
    """

    commits: pa.Array[Any]
    keys: pa.Array[Any]
    files: pa.StructArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledFiles:
    """Result of the reconciliation: live files (`ADD_TYPE`) and tombstones (`REMOVE_TYPE`).

    Attributes:
        seen_keys: log-replay keys (path and deletion vector id) of all files that were added or
            removed.
        exact_double_files: paths of the files that were written after the last change of a column
            from float to double. The bounds of double columns in these files are exact.
    """

    adds: tuple[pa.StructArray, ...]
    removes: tuple[pa.StructArray, ...]
    seen_keys: FileActionKeys
    exact_double_files: pa.Array[Any]


class FileActionStore(Interface):
    """Stores the file actions of commits until all commits are read."""

    def write(self, adds: ActionColumns | None, removes: ActionColumns | None) -> None:
        """Store file actions. They must be written from the newest commit to the oldest."""
        ...

    def reconciled(self, change: ChangeToDouble | None) -> ReconciledFiles:
        """Reconcile all actions.

        Args:
            change: the newest change of a column from float to double; None if there is none.
        """
        ...


class MemoryStore:
    """Stores file actions in memory. The reconciled files are ordered from oldest to newest."""

    def __init__(self) -> None:
        self._adds: list[ActionColumns] = []
        self._removes: list[ActionColumns] = []

    def write(self, adds: ActionColumns | None, removes: ActionColumns | None) -> None:
        if adds is not None:
            self._adds.append(adds)
        if removes is not None:
            self._removes.append(removes)

    def reconciled(self, change: ChangeToDouble | None) -> ReconciledFiles:
        adds = _concatenate(self._adds, ADD_TYPE)
        self._adds.clear()
        removes = _concatenate(self._removes, REMOVE_TYPE)
        self._removes.clear()
        return reconcile(adds, removes, change)


class ActionAccumulator:
    """Reconciles the actions of commits: only the newest action of each file is retained."""

    def __init__(self, store: FileActionStore) -> None:
        self.newest = NewestActions()
        self.commit_info: CommitInfo | None = None
        self._store = store
        self._history: list[DatedMetadata] = []
        # Version of each commit, newest first; None for a commit, such as a RESTORE, that may add
        # files that were written before the commit.
        self._versions: list[int | None] = []
        self._adds: list[AddFile] = []
        self._removes: list[RemoveFile] = []
        self._commits: dict[type, list[int]] = {AddFile: [], RemoveFile: []}

    def add_commit(self, version: int, actions: Iterable[Action], *, is_compacted: bool) -> None:
        """Add the actions of a log file. Log files must be added from the newest to the oldest.

        Args:
            is_compacted: whether the log file is a log compaction file. Such a file may have
                several actions for the same path and deletion vector id. Only the first of these
                actions is used.
        """
        info: CommitInfo | None = None
        changes: list[Metadata] = []
        commit = len(self._versions)
        for action in actions:
            match action:
                case AddFile() | RemoveFile():
                    if isinstance(action, AddFile):
                        self._adds.append(action)
                    else:
                        self._removes.append(action)
                    self._commits[type(action)].append(commit)
                    if len(self._adds) + len(self._removes) >= _MAX_BUFFERED_ACTIONS:
                        self._write()
                    if is_compacted:
                        self._versions.append(None)
                        commit += 1
                case CommitInfo():
                    info = info or action
                case _:
                    self.newest.add(action)
                    if isinstance(action, Metadata):
                        changes.append(action)
        if commit == 0:
            self.commit_info = info
        is_dated = not is_compacted and (info is None or info.get("operation") != "RESTORE")
        self._versions.append(version if is_dated else None)
        self._history += [
            DatedMetadata(version=None if is_compacted else version, metadata=m, info=info)
            for m in changes
        ]

    def reconciled_files(self) -> ReconciledFiles:
        self._write()
        return self._store.reconciled(newest_change_to_double(self._history, self._versions))

    def _write(self) -> None:
        adds, removes = self._adds, self._removes
        adds.reverse()  # oldest first, as in the log
        removes.reverse()
        self._store.write(
            self._columns(adds, adds_to_array(adds)) if adds else None,
            self._columns(removes, removes_to_array(removes)) if removes else None,
        )

    def _columns(
        self, actions: list[AddFile] | list[RemoveFile], files: pa.StructArray
    ) -> ActionColumns:
        commits = self._commits[type(actions[0])]
        commits.reverse()
        keys = (action.key for action in actions)
        strings = [path + KEY_SEPARATOR + (dv_id or "") for path, dv_id in keys]
        numbers = to_array(commits, pa.int32())
        actions.clear()
        commits.clear()
        return ActionColumns(numbers, to_array(strings, pa.string()), files)


_FEW_KEYS = 1000
"""Maximum number of log-replay keys that are compared without importing `pyarrow.compute`.

The import takes 30 ms.
"""


def reconcile(
    adds: ActionColumns, removes: ActionColumns, change: ChangeToDouble | None
) -> ReconciledFiles:
    """For each log-replay key, select the actions of the newest commit that contains the key.

    The log-replay key of an action is its path and deletion vector id. `adds` and `removes` must
    contain all actions of each key. If a commit repeats an action of a key, which violates the
    protocol, only the last one is selected, as in delta-spark.
    """
    actions = [columns for columns in (adds, removes) if len(columns.keys)] or [adds]
    keys = _concat([columns.keys for columns in actions])
    commits = _concat([columns.commits for columns in actions])
    paths = _concat([columns.files.field("path") for columns in actions])
    newest = _newest(keys, commits, len(adds.keys))
    return ReconciledFiles(
        adds=(_filter(adds.files, newest, 0),),
        removes=(_filter(removes.files, newest, len(adds.keys)),),
        seen_keys=FileActionKeys.from_columns(paths, keys),
        exact_double_files=exact_double_files(adds.commits, adds.keys, adds.files, keys, change),
    )


def _newest(keys: pa.Array[Any], commits: pa.Array[Any], num_adds: int) -> Any:
    """For each log-replay key, select the actions of the newest commit that contains the key.

    Returns a mask of the selected actions; None if all actions are selected.

    Args:
        num_adds: number of `add` actions; the `remove` actions follow them.
    """
    if len(keys) <= _FEW_KEYS and len(set(keys.to_pylist())) == len(keys):
        return None
    encoded: Any = keys.dictionary_encode()
    if len(encoded.dictionary) == len(keys):
        return None
    codes = encoded.indices
    order = pc.sort_indices(
        pa.table({"code": codes, "commit": commits}),
        sort_keys=[("code", "ascending"), ("commit", "ascending")],
    )
    # For a Python number, pyarrow imports pandas.
    zero, true = to_scalar(0, pa.int32()), to_scalar(True, pa.bool_())
    is_next_code = pc.not_equal(pc.pairwise_diff(codes.take(order)), zero)
    newest = commits.take(order.filter(pc.fill_null(is_next_code, true)))
    selected = pc.equal(commits, newest.take(codes))
    is_next_commit = pc.not_equal(pc.pairwise_diff(commits.take(order)), zero)
    if pc.all(pc.or_(is_next_code, is_next_commit)).as_py():
        return selected
    return _last_of_each_kind(selected, codes, num_adds)


def _last_of_each_kind(selected: Any, codes: Any, num_adds: int) -> Any:
    """Select the last `add` action and the last `remove` action of each log-replay key.

    Args:
        selected: mask of the actions of which to select.
        codes: number of each action's log-replay key.
        num_adds: number of `add` actions; the `remove` actions follow them.
    """
    rows: Any = pc.indices_nonzero(selected)
    is_remove = pc.greater_equal(rows, to_scalar(num_adds, pa.uint64()))
    actions = pa.table({"code": codes.take(rows), "is_remove": is_remove, "row": rows})
    # The actions of a commit are in reverse order.
    last = actions.group_by(["code", "is_remove"]).aggregate([("row", "min")])
    return pc.is_in(arange(0, len(codes)), value_set=last["row_min"].cast(pa.int64()))


def _filter(files: pa.StructArray, mask: Any, start: int) -> pa.StructArray:
    return files if mask is None else files.filter(mask.slice(start, len(files)))


def _concatenate(newest_first: Sequence[ActionColumns], kind: pa.StructType) -> ActionColumns:
    """Concatenate the actions of several commits in reverse, so that the oldest come first."""
    if not newest_first:
        return _no_actions(kind)
    oldest_first = newest_first[::-1]
    files: Any = _concat([columns.files for columns in oldest_first])
    return ActionColumns(
        _concat([columns.commits for columns in oldest_first]),
        _concat([columns.keys for columns in oldest_first]),
        files,
    )


def _concat(arrays: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


@cache
def _no_actions(kind: pa.StructType) -> ActionColumns:
    """Return `ActionColumns` without actions.

    The result is cached, because creating these columns takes longer than a short replay.
    """
    files: Any = to_array([], kind)
    return ActionColumns(to_array([], pa.int32()), to_array([], pa.string()), files)
