"""The memory pool for decoding Parquet and JSON."""

from __future__ import annotations

import os
from functools import cache

import pyarrow as pa


@cache
def decoding_pool() -> pa.MemoryPool | None:
    """Return the memory pool for decoded batches; None for pyarrow's default pool.

    pyarrow's default pool is mimalloc, which takes memory from the system in huge pages and returns
    little of it. With jemalloc, a process that streams batches needs 50 to 100 MB less, and a table
    in memory needs no more than its values. If the user chose another pool, that pool is used.
    """
    chosen = "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    if chosen or pa.default_memory_pool().backend_name != "mimalloc":
        return None
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:  # pyarrow was built without jemalloc
        return None
