"""A folder of the driver's machine in which a stream's process asks the driver's process for help.

The stream makes a file in a folder of its own there, and waits for the answer or for word that
there will be none. The driver's process touches `alive` in the shared folder; where it stops doing
so the stream goes on by itself, as it does without such a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["ALIVE", "FAILED", "ask"]

_Answer = TypeVar("_Answer")

ALIVE = "alive"
FAILED = "failed"

_POLL = 0.1
_SILENCE = 20.0
"""Seconds without a sign of life after which nobody is expected to answer."""


def ask(
    shared: Path | None,
    folder: str,
    question: str,
    answer: Callable[[Path], _Answer | None],
    text: str = "",
) -> _Answer | None:
    """What the driver's process answers; None where nobody answers, or it can't.

    Args:
        shared: the folder of both processes, None for none.
        folder: name of the question's own folder in it.
        question: name of the file that asks; it isn't made where the answer is there already.
        answer: finds the answer in the question's folder, None where it isn't there (yet).
        text: what the file says.
    """
    if shared is None or not _is_alive(shared):
        return None
    own = shared / folder
    try:
        own.mkdir(exist_ok=True)
        found = answer(own)
        if found is None:
            (own / FAILED).unlink(missing_ok=True)
            unfinished = own / f"{question}.part"
            unfinished.write_text(text)
            unfinished.rename(own / question)
        while found is None and _is_alive(shared) and not (own / FAILED).exists():
            time.sleep(_POLL)
            found = answer(own)
    except OSError:  # someone cleans up
        return None
    return found


def _is_alive(shared: Path) -> bool:
    try:
        return time.time() - (shared / ALIVE).stat().st_mtime < _SILENCE
    except OSError:
        return False
