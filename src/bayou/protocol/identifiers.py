"""Identifiers in SQL: names in backticks, as Spark quotes them."""

from __future__ import annotations

__all__ = ["quote_identifier", "quote_if_needed"]


def quote_identifier(name: str) -> str:
    """A name in backticks: `` `a b` ``."""
    return "`" + name.replace("`", "``") + "`"


def quote_if_needed(name: str) -> str:
    """A name, in backticks unless it consists of letters, digits and underscores."""
    return name if name.replace("_", "").isalnum() else quote_identifier(name)
