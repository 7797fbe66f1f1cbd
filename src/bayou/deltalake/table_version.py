"""`TableVersion`: a handle of a table at one version. Its commits move it to the new version."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from bayou.api import SnapshotHandle, TableHandle
from bayou.api.fixed_version import TableAtVersion
from bayou.api.rows.read import milliseconds
from bayou.deltalake.properties import (
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    with_properties,
)
from bayou.errors import ArgumentTypeError, BayouError, VersionNotFoundError
from bayou.kernel import Engine, Table

_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


def clean_up_after_commit(table: TableHandle, hooks: PostCommitHookProperties | None) -> None:
    """Delete expired log files if `hooks.cleanup_expired_logs` is true.

    If they can't be deleted, the error is logged and not raised, because the operation is
    committed.
    """
    if hooks is None or not hooks.cleanup_expired_logs:
        return
    try:
        table.cleanup_metadata()
    except BayouError as error:
        _LOG.warning(
            "%s: the operation is committed, but expired log files can't be deleted: %s. A later "
            "commit deletes them.",
            table.table_uri,
            str(error).removesuffix("."),
        )


class TableVersion(TableHandle):
    """A handle of a table at one version. Commits by the handle move it to the new version."""

    __slots__ = ()

    def load_as_version(self, version: int | str | dt.datetime) -> None:
        """Move to a version, or to the last version at or before a timestamp."""
        if isinstance(version, bool) or not isinstance(version, int | str | dt.datetime):
            raise ArgumentTypeError(
                f"version: {version!r} isn't a version. Give an int, a string or a datetime.",
                argument="version",
            )
        latest = TableHandle(self._engine, self.latest_table())
        if isinstance(version, int):
            return self.load(latest.snapshot(version))
        try:
            return self.load(latest.snapshot(timestamp=version))
        except VersionNotFoundError:
            newest = latest.snapshot()
            if milliseconds(version) <= newest.timestamp:
                raise
        return self.load(newest)

    def update_incremental(self) -> None:
        """Move to the latest version."""
        self.load(TableHandle(self._engine, self.latest_table()).snapshot())

    def committed(self, result: Result, hooks: PostCommitHookProperties | None = None) -> Result:
        """Move to the version that an operation has committed, and return the operation's result.

        If `hooks.cleanup_expired_logs` is true, expired log files are deleted before the move. If
        the result contains no version, the handle moves to the latest version.

        If the deletion or the move fails, the error is logged and not raised, because the operation
        is committed.
        """
        clean_up_after_commit(self, hooks)
        version = result if isinstance(result, int) else getattr(result, "version", None)
        try:
            self.load(TableHandle(self._engine, self.latest_table()).snapshot(version))
        except BayouError as error:
            _LOG.warning(
                "%s: the operation is committed, but the new version can't be read: %s. The "
                "DeltaTable still shows the earlier version; call update_incremental.",
                self.table_uri,
                str(error).removesuffix("."),
            )
        return result

    def engine_with(
        self,
        commit: CommitProperties | None,
        hooks: PostCommitHookProperties | None,
        writer: WriterProperties | None = None,
        *,
        operation: str | None = None,
    ) -> Engine:
        """Return an engine that applies the properties in the arguments to one operation.

        See `with_properties` for the arguments.
        """
        return with_properties(self._engine, commit, hooks, writer, operation=operation)

    def latest_table(self) -> Table:
        """Return the underlying table, which isn't bound to this handle's version."""
        return self._table.latest() if isinstance(self._table, TableAtVersion) else self._table

    def load(self, snapshot: SnapshotHandle) -> None:
        """Move to the version of a snapshot."""
        self._table = TableAtVersion(self.latest_table(), snapshot.kernel)


def moving(
    table: TableVersion, method: Callable[..., Any], hooks: PostCommitHookProperties | None
) -> Callable[..., Any]:
    """Wrap a method that commits: each call also moves `table` to the committed version."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return table.committed(method(*args, **kwargs), hooks)

    return call
