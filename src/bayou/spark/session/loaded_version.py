"""The option that records a relation's table path and version in Spark's plan."""

from __future__ import annotations

LOADED_VERSION = "bayou.loadedversion"
"""Name of the option. Its value is empty if the user requested a version or timestamp."""


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
