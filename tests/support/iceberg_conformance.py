"""Makes Iceberg tables of the tables of the conformance sets, and changes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import bayou
from bayou.api import TableHandle
from bayou.errors import BayouError
from support import conformance_sets

__all__ = ["Step", "eligible_cases", "steps", "upgraded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of a table. It isn't made if the table doesn't allow it."""

    name: str
    change: Callable[[TableHandle], object]

    def apply(self, table: TableHandle) -> bool:
        """Make the change; return whether the table allowed it."""
        try:
            self.change(table)
        except BayouError:
            return False
        return True


def steps(first: int) -> tuple[Step, ...]:
    """Return the changes that follow one another.

    Args:
        first: the first version with Iceberg metadata. Restoring an earlier one would disable the
            format, because a restore restores the table properties too, as in delta-spark.
    """
    return (
        Step(name="append", change=_append),
        Step(name="delete", change=lambda t: t.delete(f"`{_first(t)}` is null")),
        Step(name="update", change=lambda t: t.update({_first(t): f"`{_first(t)}`"})),
        Step(name="merge", change=_merge),
        Step(name="add column", change=lambda t: t.alter.add_columns({"added_column": "long"})),
        Step(name="append again", change=_append),
        Step(name="optimize", change=lambda t: t.optimize()),
        Step(name="restore", change=lambda t: t.restore(max(first, t.version() - 2))),
        Step(name="overwrite", change=lambda t: _append(t, "overwrite")),
    )


def eligible_cases(name: str) -> Iterator[Path]:
    """Yield the folders of a set's tables that Bayou reads."""
    sets = conformance_sets.folder()
    assert sets is not None
    for case in sorted((sets / name).iterdir()):
        if (case / "delta").is_dir():
            try:
                bayou.table(case / "delta").to_arrow()
            except BayouError:
                continue
            yield case


def upgraded(case: Path, folder: Path, version: int) -> Path | None:
    """Copy a table and give it Iceberg metadata; None if the compatibility rules forbid it."""
    path = folder / case.name
    shutil.copytree(case / "delta", path)
    try:
        bayou.table(path).optimize.upgrade_uniform(version)
    except BayouError:
        return None
    return path


def _append(table: TableHandle, mode: str = "append") -> None:
    bayou.write(table.table_uri, table.to_arrow(), mode=mode)  # type: ignore[arg-type]


def _merge(table: TableHandle) -> None:
    column = _first(table)
    merger = table.merge(
        table.to_arrow(limit=1),
        f"t.`{column}` = s.`{column}` and false",
        source_alias="s",
        target_alias="t",
    )
    merger.when_not_matched_insert_all().execute()


def _first(table: TableHandle) -> str:
    return table.schema().names[0]
