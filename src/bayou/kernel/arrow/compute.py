"""`pyarrow.compute` typed as `Any`: its type stubs lack functions and the types of arrays."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
