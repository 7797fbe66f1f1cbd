"""An engine that stores files in the process's memory, for tests.

Start reading at `engine.MemoryEngine`.
"""

from bayou.engines.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]
