"""`pyarrow.compute` without its type stubs, which lose the type of an array and lack functions."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

__all__ = ["pc"]

pc: Any = pyarrow.compute
