"""What is said of masks whose field nobody has seen."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["told_unseen"]


def told_unseen(paths: Sequence[str]) -> str:
    """A warning, for a misspelt mask leaves its field in clear."""
    return (
        f"masks: no field is called {', '.join(repr(path) for path in paths)}; if that is "
        "misspelt, the field that was meant stays in clear"
    )
