from bayou.engines.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]
