"""`pyarrow.compute` as `Any`: its type stubs lack functions, and lose the type of an array."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
