"""A model of a table as dictionaries: the expected rows after each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Condition", "Effect", "LostUpdateError", "Rows", "TableModel"]

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Mapping[int, Row]
"""Rows by their `id`, which is unique in all versions of a table."""


class LostUpdateError(AssertionError):
    """A commit succeeded although another commit had changed the rows that it replaces."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as SQL, and as a Python function with the same result.

    Attributes:
        text: the SQL expression; None for all rows.
        test: returns True, False, or None for SQL's unknown.
    """

    text: str | None
    test: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def of(self, rows: Rows) -> dict[int, Row]:
        """Return the rows for which the condition is true."""
        return {key: row for key, row in rows.items() if self.test(row)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of an operation on the rows of the version that it read.

    Attributes:
        gone: deleted and updated rows, with their values before the operation.
        new: inserted and updated rows, with their values after the operation.
        columns: added columns, which are null in all other rows.
        renamed: the new name of each renamed column, by its old name; None for a dropped column.
    """

    gone: Rows = field(default_factory=dict)
    new: Rows = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    renamed: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Whether the operation changes nothing, so it doesn't commit."""
        return not (self.gone or self.new or self.columns or self.renamed)

    def names(self, columns: tuple[str, ...]) -> dict[str, str]:
        """Return new column names by old names, without dropped columns."""
        named = {name: self.renamed.get(name, name) for name in columns}
        return {old: new for old, new in named.items() if new is not None}


@dataclass(frozen=True, slots=True)
class _Version:
    columns: tuple[str, ...]
    rows: Rows


class TableModel:
    """All versions of a table, as dictionaries.

    Args:
        columns: the columns of version 0, including `id`.
        rows: the rows of version 0.
    """

    def __init__(self, columns: tuple[str, ...], rows: Rows) -> None:
        self._versions = [_Version(columns, dict(rows))]

    @property
    def version(self) -> int:
        """The latest version."""
        return len(self._versions) - 1

    def columns(self, version: int | None = None) -> tuple[str, ...]:
        """Return the columns of a version; None is the latest version."""
        return self._versions[self.version if version is None else version].columns

    def rows(self, version: int | None = None) -> Rows:
        """Return the rows of a version; None is the latest version."""
        return self._versions[self.version if version is None else version].rows

    def commit(self, version: int, effect: Effect) -> None:
        """Append a version: apply an effect to the latest version.

        Raises:
            LostUpdateError: a row of `gone` differs from the latest version's, or a row of `new`
                already exists there.
            AssertionError: `version` isn't the next version.
        """
        assert version == self.version + 1, f"version {version} comes after {self.version}"
        rows = dict(self.rows())
        for key, row in effect.gone.items():
            if rows.pop(key, None) != row:
                raise LostUpdateError(f"version {version} changed row {key}, read as {row}")
        for key, row in effect.new.items():
            if key in rows:
                raise LostUpdateError(f"version {version} adds row {key} a second time")
            rows[key] = row
        names = effect.names(self.columns())
        columns = (*names.values(), *effect.columns)
        if columns != self.columns():
            rows = {k: {**dict.fromkeys(columns), **_renamed(r, names)} for k, r in rows.items()}
        self._versions.append(_Version(columns, rows))

    def commit_nothing(self, up_to: int) -> None:
        """Append versions without changes until the latest version is `up_to`."""
        while self.version < up_to:
            self.commit(self.version + 1, Effect())

    def restore(self, version: int, to: int) -> None:
        """Append a version with the columns and rows of the version `to`."""
        assert version == self.version + 1, f"version {version} comes after {self.version}"
        self._versions.append(self._versions[to])


def _renamed(row: Row, names: Mapping[str, str]) -> Row:
    return {new: row[old] for old, new in names.items()}
