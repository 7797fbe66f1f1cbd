"""Paths of the tables beside a target table."""

from __future__ import annotations

__all__ = ["dead_letters_path", "deleted_keys_path", "ledger_path"]


def ledger_path(table_path: str) -> str:
    """Where the ledger of a target's migrations is."""
    return f"{table_path.rstrip('/')}_migration"


def dead_letters_path(table_path: str) -> str:
    """Path of the dead letter table of a target table."""
    return f"{table_path.rstrip('/')}_dead_letters"


def deleted_keys_path(table_path: str) -> str:
    """Path of the table of deleted keys of a target table with upserts."""
    return f"{table_path.rstrip('/')}_deleted_keys"
