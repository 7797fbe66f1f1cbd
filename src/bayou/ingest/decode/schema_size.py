"""Limits the number of columns of a schema.

Avro, Protobuf and JSON schemas can define a type once and use it for many fields, but a table has
separate columns for each use. A schema of a few kilobytes can therefore have a billion columns. An
example is a chain of thirty types, in which each type has two fields of the previous type.
"""

from __future__ import annotations

MAX_FIELDS = 10_000
"""Maximum number of fields of a schema; the fields of a named type count for each of its uses."""


class SchemaTooLargeError(ValueError):
    """A schema has more fields than `MAX_FIELDS`."""

    def __init__(self) -> None:
        super().__init__(
            f"the schema has more than {MAX_FIELDS:,} fields after expanding the types that it "
            "refers to"
        )


class FieldCount:
    """Counts the fields of one schema while its columns are created."""

    def __init__(self, limit: int = MAX_FIELDS) -> None:
        self._left = limit

    def add(self, count: int = 1) -> None:
        """Count more fields.

        Raises:
            SchemaTooLargeError: the limit is exceeded.
        """
        self._left -= count
        if self._left < 0:
            raise SchemaTooLargeError
