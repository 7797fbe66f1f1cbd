"""Selects the engine for a path, and recreates the driver's engine in a worker."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.engines.arrow import ArrowEngine
from bayou.errors import SerializationError
from bayou.kernel.engine import Engine
from bayou.kernel.engine.engine import EngineDescription


def for_path(path: str, storage_options: Mapping[str, str] | None = None) -> Engine:
    """Return the engine for a table's path: `MemoryEngine` for `memory://`, else `ArrowEngine`.

    Examples:
        >>> engine = for_path("lake/orders")
        >>> engine = for_path("s3://lake/orders", {"AWS_REGION": "eu-west-1"})
    """
    if path.startswith("memory://"):
        from bayou.engines.memory import MemoryEngine

        return MemoryEngine()
    return ArrowEngine(storage_options)


def from_description(description: EngineDescription) -> Engine:
    """Create an engine from a description that `Engine.description` returned.

    Raises:
        SerializationError: the kind of engine is unknown, or its factory can't be imported.

    Examples:
        >>> engine = for_path("lake/orders")
        >>> same = from_description(engine.description())
    """
    from bayou.engines.memory import MemoryEngine

    match description.kind:
        case ArrowEngine.KIND:
            return ArrowEngine(description.options)
        case MemoryEngine.KIND:
            return MemoryEngine()
        case other:
            factory = description.factory()
            if factory is None:
                raise SerializationError(
                    f"engine {other!r}: unknown kind, because the driver runs another version of "
                    "Bayou. Run the same version in every process."
                )
            engine: Engine = factory(description.options)
            return engine
