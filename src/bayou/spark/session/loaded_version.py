"""The option by which a relation in Spark's plan says what it reads: a table's path and version."""

from __future__ import annotations

__all__ = ["LOADED_VERSION", "loaded_version", "read_loaded_version"]

LOADED_VERSION = "bayou.loadedversion"
"""Empty for a version or a time that the user asked for."""


def loaded_version(path: str, version: int) -> str:
    """The option's text.

    Example:
        >>> read_loaded_version(loaded_version("/lake/my events", 3))
        ('/lake/my events', 3)
    """
    return f"{path} {version}"


def read_loaded_version(text: str | None) -> tuple[str, int] | None:
    """Path and version of the option's text; None where it says nothing."""
    path, _, version = (text or "").rpartition(" ")
    return (path, int(version)) if path and version.isdecimal() else None
