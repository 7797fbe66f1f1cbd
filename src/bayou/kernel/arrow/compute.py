"""`pyarrow.compute`, imported on first use, because its import takes 30 ms.

It has the type `Any`, because its type stubs are incomplete.
"""

from __future__ import annotations

from typing import Any

from bayou.lazy_import import LazyModule

pc: Any = LazyModule("pyarrow.compute")
