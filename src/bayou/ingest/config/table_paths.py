"""Resolves table paths, and returns the paths of the tables beside a target table."""

from __future__ import annotations

from pathlib import Path

from bayou.engines.arrow.storage.object_uris import is_local_path, split_object_uri

__all__ = [
    "dead_letters_path",
    "deleted_keys_path",
    "ledger_path",
    "place_of_table",
    "resolve_path",
]


def place_of_table(table_path: str) -> str:
    """Return a normalized table path: `s3a://` and `s3://` are the same store."""
    if _is_uri(table_path):
        return "/".join(split_object_uri(table_path)).rstrip("/")
    return table_path


def resolve_path(table_path: str, folder: Path) -> str:
    """Return an absolute local path, or a URI.

    Raises:
        ArgumentError: the URI's scheme isn't supported.
    """
    if _is_uri(table_path):
        split_object_uri(table_path)
        return table_path.rstrip("/")
    table_path = table_path.removeprefix("file://").removeprefix("file:")
    return str((folder / Path(table_path).expanduser()).resolve())


def _is_uri(table_path: str) -> bool:
    return not is_local_path(table_path)


def ledger_path(table_path: str) -> str:
    """Return the path of the migration ledger of a target table."""
    return f"{table_path.rstrip('/')}_migration"


def dead_letters_path(table_path: str) -> str:
    """Return the path of the dead letter table of a target table."""
    return f"{table_path.rstrip('/')}_dead_letters"


def deleted_keys_path(table_path: str) -> str:
    """Return the path of the deleted keys table of a target table with upserts."""
    return f"{table_path.rstrip('/')}_deleted_keys"
