"""A table as dictionaries: what a history of operations must come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Condition", "Effect", "LostUpdateError", "Rows", "TableModel"]

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Mapping[int, Row]
"""Rows by their `id`, which no two rows of a table ever share."""


class LostUpdateError(AssertionError):
    """A commit went through although another one has changed what it rests on."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition twice: as SQL text, and as what it means.

    Attributes:
        text: None for all rows.
        test: True, False, or None for SQL's unknown.
    """

    text: str | None
    test: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def of(self, rows: Rows) -> dict[int, Row]:
        """The rows for which it is true."""
        return {key: row for key, row in rows.items() if self.test(row)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an operation did, from the version that it read.

    Attributes:
        gone: rows that it deleted, or that it replaced, as it read them.
        new: rows that it added, and new versions of rows.
        columns: columns added by it, null in all other rows.
        renamed: new names of columns by their old ones; None for a column that was dropped.
    """

    gone: Rows = field(default_factory=dict)
    new: Rows = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    renamed: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.gone or self.new or self.columns or self.renamed)

    def names(self, columns: tuple[str, ...]) -> dict[str, str]:
        """New names by old ones, of the columns that stay."""
        named = {name: self.renamed.get(name, name) for name in columns}
        return {old: new for old, new in named.items() if new is not None}


@dataclass(frozen=True, slots=True)
class _Version:
    columns: tuple[str, ...]
    rows: Rows


class TableModel:
    """All versions of a table.

    Args:
        columns: of version 0, `id` among them.
        rows: of version 0.
    """

    def __init__(self, columns: tuple[str, ...], rows: Rows) -> None:
        self._versions = [_Version(columns, dict(rows))]

    @property
    def version(self) -> int:
        """The latest."""
        return len(self._versions) - 1

    def columns(self, version: int | None = None) -> tuple[str, ...]:
        """Columns of a version, the latest where it is None."""
        return self._versions[self.version if version is None else version].columns

    def rows(self, version: int | None = None) -> Rows:
        """Rows of a version, the latest where it is None."""
        return self._versions[self.version if version is None else version].rows

    def commit(self, version: int, effect: Effect) -> None:
        """Put an effect behind the latest version.

        Raises:
            LostUpdateError: a row that it takes away isn't there any more as it was read.
            AssertionError: the version isn't the next one.
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
        """Put versions that change neither rows nor columns behind the latest one."""
        while self.version < up_to:
            self.commit(self.version + 1, Effect())

    def restore(self, version: int, to: int) -> None:
        """Put what an earlier version was behind the latest one."""
        assert version == self.version + 1, f"version {version} comes after {self.version}"
        self._versions.append(self._versions[to])


def _renamed(row: Row, names: Mapping[str, str]) -> Row:
    return {new: row[old] for old, new in names.items()}
