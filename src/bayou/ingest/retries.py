"""How long to wait before what failed is tried again."""

from __future__ import annotations

__all__ = ["pause_before"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def pause_before(retry: int) -> float:
    """Seconds before a retry, the first of which is number 1; each twice the one before."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (retry - 1)))
