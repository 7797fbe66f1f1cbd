"""A limit on the number of columns that a schema becomes.

Avro, Protobuf and JSON schemas can name a type once and use it in many places; a table repeats its
columns in each place. A schema of thirty types, each with two fields of the type before it, is a
few kilobytes of text and a billion columns.
"""

from __future__ import annotations

__all__ = ["MAX_FIELDS", "FieldCount", "SchemaTooLargeError"]

MAX_FIELDS = 10_000
"""Most fields of a schema. The fields of a named type count each time the type is used."""


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
