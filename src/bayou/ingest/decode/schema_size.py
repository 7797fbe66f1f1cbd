"""The size of a schema: one limit for all formats whose schemas can name a type and refer to it.

Columns write such a type out wherever it is referred to. Where each of thirty types has two fields
of the type before it, a schema of a few kilobytes has a billion columns.
"""

from __future__ import annotations

__all__ = ["MAX_FIELDS", "FieldCount", "SchemaTooLargeError"]

MAX_FIELDS = 10_000
"""Fields of a schema, those of a type that has a name once for each reference to it."""


class SchemaTooLargeError(ValueError):
    """A schema has more fields than `MAX_FIELDS`."""

    def __init__(self) -> None:
        super().__init__(
            f"the schema has more than {MAX_FIELDS:,} fields where each type that it refers to "
            "is written out"
        )


class FieldCount:
    """Counts the fields of one schema while its columns are made."""

    def __init__(self, limit: int = MAX_FIELDS) -> None:
        self._left = limit

    def add(self, count: int = 1) -> None:
        """Count some more.

        Raises:
            SchemaTooLargeError: they are too many.
        """
        self._left -= count
        if self._left < 0:
            raise SchemaTooLargeError
