"""Values of the read options `WHOLE_TABLE` and `LOADED_VERSION`, which identify a table's version.

Bayou sets these options when a table is loaded, and Spark's plan contains them. For example, a
write finds `LOADED_VERSION` in the plan of a DataFrame, and so knows which version of the table the
DataFrame reads.
"""

from __future__ import annotations

LOADED_VERSION = "bayou.loadedversion"
"""Name of the option that contains the table's path and version.

The option's value is empty for a read with time travel.
"""

WHOLE_TABLE = "bayou.wholetable"
"""Name of the option that contains the table's id, path and version.

The option is set only if a read returns all rows and columns of the latest version.
"""


def whole_table(table_id: str, path: str, version: int) -> str:
    """Encode a table's id, path and version as the value of the option `WHOLE_TABLE`."""
    return f"{table_id} {loaded_version(path, version)}"


def read_whole_table(value: str | None) -> tuple[str, str, int] | None:
    """Decode the value of the option `WHOLE_TABLE` to table id, path and version; None if unset."""
    table_id, _, loaded = (value or "").partition(" ")
    table = read_loaded_version(loaded)
    return None if table is None else (table_id, *table)


def loaded_version(path: str, version: int) -> str:
    """Encode a table's path and version as the value of the option `LOADED_VERSION`.

    Example:
        >>> read_loaded_version(loaded_version("/lake/my events", 3))
        ('/lake/my events', 3)
    """
    return f"{path} {version}"


def read_loaded_version(value: str | None) -> tuple[str, int] | None:
    """Decode the value of the option `LOADED_VERSION` to path and version; None if unset."""
    path, _, version = (value or "").rpartition(" ")
    return (path, int(version)) if path and version.isdecimal() else None
