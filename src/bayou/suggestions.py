"""Suggestions for misspelled names in error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MIN_SIMILARITY = 0.65
"""Minimum similarity of a suggestion. At 0.6, `migration` would be suggested for `destination`."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the sentence ` Did you mean 'x'?` for the known name that is most similar to `name`.

    Returns an empty string if no known name is similar.
    """
    close = closest(name, known)
    return "" if close is None else f" Did you mean {close!r}?"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`.

    If no known name is similar enough, the result is the only known name that contains `name` as a
    word: `path` is a word of `table-path`. If there is no such name either, the result is None.
    Names are compared without regard to case.
    """
    import difflib

    by_folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=_MIN_SIMILARITY)
    # `path` means `table-path`, if that is the only name with this word.
    close = close or [known for known in by_folded if name.lower() in re.split("[-_.]", known)]
    return by_folded[close[0]] if len(close) == 1 else None
