"""Names of tables in Unity Catalog: `uc://catalog.schema.table`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bayou.errors import ArgumentError

_SCHEME = "uc://"
_PART = re.compile(r"[^\s./\x00-\x1f\x7f]{1,255}\Z")


def is_unity_name(path: str) -> bool:
    """Whether a path is the name of a table in Unity Catalog."""
    return path[: len(_SCHEME)].lower() == _SCHEME


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """The full name of a table: catalog, schema and table."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.catalog}.{self.schema}.{self.table}"

    @classmethod
    def parse(cls, uri: str) -> TableName:
        """Parse `uc://catalog.schema.table`.

        Raises:
            ArgumentError: the URI doesn't have this form.
        """
        parts = uri[len(_SCHEME) :].split(".")
        if not is_unity_name(uri) or len(parts) != 3 or not all(map(_PART.match, parts)):
            raise ArgumentError(
                f"{uri}: this isn't the name of a table in Unity Catalog. Write "
                "uc://catalog.schema.table.",
                argument="path",
            )
        catalog, schema, table = parts
        return cls(catalog=catalog, schema=schema, table=table)
