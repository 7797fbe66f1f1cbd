"""Keeps pyarrow from importing pandas in commands that print rows.

pyarrow imports pandas with the first conversion of a Python value, to recognize its objects. That
takes longer than reading a small table, and these commands have no objects of pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Refusal:
    """A finder that refuses pandas, as if it weren't installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
        return None


def skip_pandas() -> None:
    """Let pyarrow look for pandas now, and not find it. Other imports of pandas aren't affected."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    refusal = _Refusal()
    sys.meta_path.insert(0, refusal)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(refusal)
