"""The options that record a relation's table and version in Spark's plan."""

from __future__ import annotations

LOADED_VERSION = "bayou.loadedversion"
"""Name of the option. Its value is empty if the user requested a version or timestamp."""

WHOLE_TABLE = "bayou.wholetable"
"""Name of the option of a relation with all rows and columns of a version; see `whole_table`."""


def whole_table(table_id: str, path: str, version: int) -> str:
    """Return the value of the option `WHOLE_TABLE`."""
    return f"{table_id} {loaded_version(path, version)}"


def read_whole_table(value: str | None) -> tuple[str, str, int] | None:
    """Parse table id, path and version from the value of `WHOLE_TABLE`; None without a value."""
    table_id, _, loaded = (value or "").partition(" ")
    table = read_loaded_version(loaded)
    return None if table is None else (table_id, *table)


def loaded_version(path: str, version: int) -> str:
    """Return the value of the option for a table path and version.

    Example:
        >>> read_loaded_version(loaded_version("/lake/my events", 3))
        ('/lake/my events', 3)
    """
    return f"{path} {version}"


def read_loaded_version(value: str | None) -> tuple[str, int] | None:
    """Parse the table path and version from the option's value; None if the value is empty."""
    path, _, version = (value or "").rpartition(" ")
    return (path, int(version)) if path and version.isdecimal() else None
