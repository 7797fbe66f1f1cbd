"""`pyarrow.compute`, imported on first use, because its import takes 30 ms.

It has the type `Any`, because its type stubs are incomplete.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from bayou.lazy_import import LazyModule

pc: Any = LazyModule("pyarrow.compute")

Datum: TypeAlias = Any
"""An array or a scalar. pyarrow's functions accept both, but their stubs declare only one."""
