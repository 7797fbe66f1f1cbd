"""Paths of the configuration: resolved from its folder, and one name for each place.

Paths of the tables beside a target table.
"""

from __future__ import annotations

from pathlib import Path

from bayou.engines.arrow.object_uris import is_local_path, split_object_uri

__all__ = [
    "dead_letters_path",
    "deleted_keys_path",
    "ledger_path",
    "place_of_table",
    "resolve_path",
]


def place_of_table(table_path: str) -> str:
    """One name for each table: `s3a://` and `s3://` are the same store."""
    if _is_uri(table_path):
        return "/".join(split_object_uri(table_path)).rstrip("/")
    return table_path


def resolve_path(table_path: str, folder: Path) -> str:
    """An absolute local path, or a URI.

    Raises:
        ArgumentError: a URI of no store that is known here.
    """
    if _is_uri(table_path):
        split_object_uri(table_path)
        return table_path.rstrip("/")
    table_path = table_path.removeprefix("file://").removeprefix("file:")
    return str((folder / Path(table_path).expanduser()).resolve())


def _is_uri(table_path: str) -> bool:
    return not is_local_path(table_path)


def ledger_path(table_path: str) -> str:
    """Where the ledger of a target's migrations is."""
    return f"{table_path.rstrip('/')}_migration"


def dead_letters_path(table_path: str) -> str:
    """Path of the dead letter table of a target table."""
    return f"{table_path.rstrip('/')}_dead_letters"


def deleted_keys_path(table_path: str) -> str:
    """Path of the table of deleted keys of a target table with upserts."""
    return f"{table_path.rstrip('/')}_deleted_keys"
