"""Which engine serves a path, and how a worker builds the engine of its driver."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import SerializationError
from bayou.kernel.engine import Engine, EngineDescription

__all__ = ["for_path", "from_description"]


def for_path(path: str, storage_options: Mapping[str, str] | None = None) -> Engine:
    """The engine for a table's path: `memory://` for tests, else local disk or object store."""
    if path.startswith("memory://"):
        return MemoryEngine()
    return ArrowEngine(storage_options)


def from_description(description: EngineDescription) -> Engine:
    """An engine equivalent to the one whose `description()` this is.

    Raises:
        SerializationError: a kind of engine that this version doesn't know.
    """
    match description.kind:
        case ArrowEngine.KIND:
            return ArrowEngine(description.options)
        case MemoryEngine.KIND:
            return MemoryEngine()
        case other:
            raise SerializationError(
                f"unknown kind of engine {other!r}; the driver runs another version of Bayou, or "
                "an engine of its own, which workers must build themselves"
            )
