"""A table kept in shape."""

from __future__ import annotations

from bayou.api.argument_checks import checked_number
from bayou.api.bound_table import BoundTable
from bayou.errors import ArgumentError
from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics, vacuum
from bayou.version import ENGINE_INFO

__all__ = ["Maintenance"]


class Maintenance(BoundTable):
    """What keeps a table in shape, its rows as they are."""

    __slots__ = ()

    def checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version, the latest where it is None; gives the version.

        Repeatable, and safe beside other writers.

        Raises:
            TableNotFoundError, VersionNotFoundError: there is no table, or no such version.
        """
        if version is not None and (type(version) is not int or version < 0):
            raise ArgumentError(
                f"A version is a number from 0 on, not {version!r}.", argument="version"
            )
        return self._table.checkpoint(self._engine, version)

    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        dry_run: bool = False,
        lite: bool = False,
        enforce_retention_duration: bool = True,
    ) -> VacuumMetrics:
        """Delete files that no version within the retention needs; time travel beyond it ends.

        Args:
            retention_hours: how long files stay once nothing needs them; None: as the table says
                (`delta.deletedFileRetentionDuration`, a week unless set).
            dry_run: delete nothing; `inventory` of the result tells what would be.
            lite: look at the log only, not at the folder: quicker, and leaves what no commit ever
                named.
            enforce_retention_duration: refuse a retention shorter than the table's.

        Raises:
            ArgumentError: a retention that is negative, or shorter than the table's.
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: the table needs of a writer what isn't supported.
            VersionNotFoundError: lite, where the log is gone that it needs.
            StorageError: the store failed; the history says so, and it can be repeated.
        """
        checked_number(retention_hours, "retention_hours", "a number of hours", whole=False)
        return vacuum(
            self._engine,
            self.path,
            retention_hours,
            dry_run=dry_run,
            lite=lite,
            enforce_retention_duration=enforce_retention_duration,
            engine_info=ENGINE_INFO,
            catalog=self._table.catalog,
        )
