"""Suggestions for misspelled names, in messages."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the most similar known name; empty if none is similar."""
    close = closest(name, known)
    return "" if close is None else f" Did you mean {close!r}?"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, without regard to case."""
    import difflib

    by_folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None
