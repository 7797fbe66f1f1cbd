"""Limits the number of columns of a schema.

Avro, Protobuf and JSON schemas can define a type once and use the type for many fields. A table has
separate columns for each use. A small schema can therefore need a billion columns: if a schema has
a chain of 30 types, and each type has two fields of the previous type, the last type needs 2**30
columns.
"""

from __future__ import annotations

MAX_FIELDS = 10_000
"""Maximum number of fields of a schema. The fields of a named type count at each use."""


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
