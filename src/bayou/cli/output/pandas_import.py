"""Prevents pyarrow from importing pandas in commands that print rows.

pyarrow imports pandas when it first converts a Python value, to recognize objects of pandas. These
commands have no such objects, and the import takes longer than reading a small table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Refusal:
    """A module finder that reports pandas as not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
        return None


def skip_pandas() -> None:
    """Make pyarrow conclude that pandas isn't installed. Other code can still import pandas."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(refusal)
