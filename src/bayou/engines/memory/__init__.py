"""An engine whose files live in this process, for tests.

Start at `engine.MemoryEngine`.
"""

from bayou.engines.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]
