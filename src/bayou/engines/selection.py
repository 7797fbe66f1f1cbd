"""Which engine serves a path, and how a worker builds the engine of its driver."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import SerializationError
from bayou.kernel.engine import Engine
from bayou.kernel.engine.engine import EngineDescription

__all__ = ["for_path", "from_description"]


def for_path(path: str, storage_options: Mapping[str, str] | None = None) -> Engine:
    """The engine for a table's path: `memory://` for tests, else local disk or object store."""
    if path.startswith("memory://"):
        return MemoryEngine()
    return ArrowEngine(storage_options)


def from_description(description: EngineDescription) -> Engine:
    """An engine equivalent to the one whose `description()` this is.

    Raises:
        SerializationError: a kind of engine that this version doesn't know, or a factory that this
            process can't import.
    """
    match description.kind:
        case ArrowEngine.KIND:
            return ArrowEngine(description.options)
        case MemoryEngine.KIND:
            return MemoryEngine()
        case other:
            factory = description.factory()
            if factory is None:
                raise SerializationError(
                    f"Unknown kind of engine {other!r}; the driver runs another version of Bayou. "
                    "Run the same version in every process."
                )
            engine: Engine = factory(description.options)
            return engine
