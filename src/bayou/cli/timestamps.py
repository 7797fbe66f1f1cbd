"""Moments as commands show them."""

from __future__ import annotations

import datetime as dt

__all__ = ["utc_text"]


def utc_text(milliseconds: int | None) -> str:
    """A moment since the epoch in UTC, to the second; empty for None."""
    if milliseconds is None:
        return ""
    return f"{dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}"
