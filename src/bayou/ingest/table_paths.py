"""Where tables are that stand beside a target."""

from __future__ import annotations

__all__ = ["ledger_path"]


def ledger_path(table_path: str) -> str:
    """Where the ledger of a target's migrations is."""
    return f"{table_path.rstrip('/')}_migration"
