"""`pyarrow.compute`, imported on first use: its import takes 30 ms.

It is typed as `Any`, because its type stubs lack functions and the types of arrays.
"""

from __future__ import annotations

from typing import Any

from bayou.lazy_import import LazyModule

pc: Any = LazyModule("pyarrow.compute")
