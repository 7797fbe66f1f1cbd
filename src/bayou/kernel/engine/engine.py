"""The engine: its handlers together.

How an engine is built again in another process.

What commits say of their own accord, whichever operation makes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import msgspec

from bayou.errors import ArgumentError, SerializationError
from bayou.kernel.arrow.serialization import WireFormat
from bayou.kernel.engine.expression_handler import ExpressionHandler
from bayou.kernel.engine.file_system import FileSystemClient
from bayou.kernel.engine.json_handler import JsonHandler
from bayou.kernel.engine.parquet_handler import ParquetHandler
from bayou.kernel.metrics import MetricsReporter

__all__ = ["CommitNotes", "Engine", "EngineDescription", "EngineFactory"]


EngineFactory = Callable[[Mapping[str, str]], Any]
"""Makes an engine of its options: a function or class that workers can import."""


class _WireDescription(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    options: dict[str, str]


_WIRE = WireFormat("engine description", 1, _WireDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDescription:
    """What a worker needs to build an equivalent engine, with `bayou.engines.from_description`.

    Pickles, and has bytes of its own. `options` hold credentials, so they are in no `repr`.

    Attributes:
        kind: `arrow`, `memory`, or where the factory of an engine of your own is imported from, as
            `package.module:name`.
        options: what the factory is called with.
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, factory: EngineFactory, options: Mapping[str, str]) -> EngineDescription:
        """An engine of your own, which workers build by `factory(options)`.

        Raises:
            ArgumentError: the factory isn't something a worker can import.
        """
        module = getattr(factory, "__module__", None)
        name = getattr(factory, "__qualname__", None)
        if not module or not name or module == "__main__" or "<" in name:
            raise ArgumentError(
                f"Workers can't import the engine factory {name or type(factory).__name__!r} of "
                f"{module or 'no module'}: make it a function or class at the top of a module that "
                "they have, too.",
                argument="factory",
            )
        return cls(kind=f"{module}:{name}", options=dict(options))

    def factory(self) -> EngineFactory | None:
        """The imported factory of an engine of your own; None for Bayou's.

        Raises:
            SerializationError: this process can't import it.
        """
        module, colon, name = self.kind.partition(":")
        if not colon:
            return None
        try:
            found: Any = importlib.import_module(module)
            factory: EngineFactory = reduce(getattr, name.split("."), found)
        except (ImportError, AttributeError) as error:
            raise SerializationError(
                f"This process can't import the engine factory {self.kind}: {error}. Install the "
                "package that has it wherever the table is read."
            ) from error
        return factory

    def to_bytes(self) -> bytes:
        """For another process; holds the credentials."""
        return _WIRE.encode(_WireDescription(self.kind, dict(self.options)))

    @classmethod
    def from_bytes(cls, data: bytes) -> EngineDescription:
        """The inverse of `to_bytes`.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        return _WIRE.decode(data, lambda wire: cls(kind=wire.kind, options=wire.options))


class Engine(Protocol):
    """A connector's way to storage and columns; stateless towards the table, safe in threads."""

    @property
    def files(self) -> FileSystemClient:
        """Files."""
        ...

    @property
    def json(self) -> JsonHandler:
        """JSON."""
        ...

    @property
    def parquet(self) -> ParquetHandler:
        """Parquet."""
        ...

    @property
    def expressions(self) -> ExpressionHandler:
        """Expressions."""
        ...

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Who is told what was measured, None for nobody."""
        ...

    def description(self) -> EngineDescription:
        """How a worker process builds an equivalent engine; `EngineDescription.of` makes it.

        Raises:
            ArgumentError: it can't.
        """
        ...


@runtime_checkable
class CommitNotes(Protocol):
    """What an engine may offer besides an `Engine`'s handlers.

    A connector whose sessions have settings for commits asks them here, and not every operation
    needs an argument for that.
    """

    @property
    def user_metadata(self) -> str | None:
        """`commitInfo.userMetadata` of commits that have none of their own; None for none."""
        ...
