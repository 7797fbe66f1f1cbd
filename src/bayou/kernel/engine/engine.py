"""The engine, and the description of an engine.

Another process builds an equivalent engine from the description.
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
from bayou.protocol.actions import UserMetadata

EngineFactory = Callable[[Mapping[str, str]], Any]
"""An importable function or class that creates an engine from its options."""


class _WireDescription(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    options: dict[str, str]


_WIRE = WireFormat("engine description", 1, _WireDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDescription:
    """The description from which `bayou.engines.from_description` builds an equivalent engine.

    The description can be pickled, or serialized with `to_bytes`. `repr` omits the options, because
    options can contain credentials.

    Attributes:
        kind: `arrow`, `memory`, or the import path of a custom engine's factory in the form
            `package.module:name`.
        options: options of the engine, which `from_description` passes to its factory.

    Examples:
        >>> from bayou.engines import from_description
        >>> description = EngineDescription.from_bytes(engine.description().to_bytes())
        >>> same = from_description(description)
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, factory: EngineFactory, options: Mapping[str, str]) -> EngineDescription:
        """Describe a custom engine. Workers build the engine with `factory(options)`.

        Raises:
            ArgumentError: workers can't import the factory.
        """
        module = getattr(factory, "__module__", None)
        name = getattr(factory, "__qualname__", None)
        if not module or not name or module == "__main__" or "<" in name:
            raise ArgumentError(
                f"Engine factory {name or type(factory).__name__!r} of {module or 'no module'}: "
                "worker processes can't import the factory. Define it as a function or class at "
                "the top level of a module that is installed on the workers.",
                argument="factory",
            )
        return cls(kind=f"{module}:{name}", options=dict(options))

    def factory(self) -> EngineFactory | None:
        """Import and return the factory of a custom engine; return None for Bayou's own engines.

        Raises:
            SerializationError: this process can't import the factory.
        """
        module, colon, name = self.kind.partition(":")
        if not colon:
            return None
        try:
            imported: Any = importlib.import_module(module)
            factory: EngineFactory = reduce(getattr, name.split("."), imported)
        except (ImportError, AttributeError) as error:
            raise SerializationError(
                f"Engine factory {self.kind}: this process can't import the factory: {error}. "
                "Install the factory's package in all processes that use the table."
            ) from error
        return factory

    def to_bytes(self) -> bytes:
        """Serialize the description, including credentials."""
        return _WIRE.encode(_WireDescription(self.kind, dict(self.options)))

    @classmethod
    def from_bytes(cls, data: bytes) -> EngineDescription:
        """Restore a description from the result of `to_bytes`.

        Raises:
            SerializationError: the bytes are malformed, or a newer version of Bayou wrote them.
        """
        return _WIRE.decode(data, lambda wire: cls(kind=wire.kind, options=wire.options))


class Engine(Protocol):
    """A connector's access to storage, file formats and expressions. Thread-safe.

    An engine has no state that belongs to a table.

    Examples:
        >>> engine: Engine = ArrowEngine()
        >>> print(engine.files.resolve_path(path))
    """

    @property
    def files(self) -> FileSystemClient:
        """The file system client."""
        ...

    @property
    def json(self) -> JsonHandler:
        """The JSON handler."""
        ...

    @property
    def parquet(self) -> ParquetHandler:
        """The Parquet handler."""
        ...

    @property
    def expressions(self) -> ExpressionHandler:
        """The expression handler."""
        ...

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """The receiver of metrics; None to report no metrics."""
        ...

    def description(self) -> EngineDescription:
        """Return the description from which a worker builds an equivalent engine.

        A custom engine creates its description with `EngineDescription.of`.

        Raises:
            ArgumentError: workers can't build an equivalent engine.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """Defaults for the commits of all operations; see `CommitDefaults`.

    Attributes:
        user_metadata: a string for `commitInfo.userMetadata`, or a mapping of entries to add to
            `commitInfo`. If None, nothing is added.
        transaction_ids: transaction identifiers that each commit records, as a mapping from
            application id to version. OPTIMIZE and VACUUM don't record transaction identifiers,
            because these operations may have several commits.
        max_retries: maximum number of retries after other writers commit first. If None, the
            maximum is 200.
        compression: Parquet codec of data files. If None, the table's codec is used.
        skipped_hooks: names of post-commit hooks that don't run, such as `checkpoint`.
    """

    user_metadata: UserMetadata | None = None
    transaction_ids: Mapping[str, int] = field(default_factory=dict)
    max_retries: int | None = None
    compression: str | None = None
    skipped_hooks: frozenset[str] = frozenset()


@runtime_checkable
class CommitDefaults(Protocol):
    """Optional protocol of an engine that has default settings for all commits."""

    @property
    def commit_settings(self) -> CommitSettings:
        """The defaults of the next commit."""
        ...


_NO_DEFAULTS = CommitSettings()


def commit_settings(engine: Engine) -> CommitSettings:
    """Return the commit settings of an engine; empty settings if it isn't a `CommitDefaults`."""
    # isinstance would evaluate the property a second time, which reads the settings of a session.
    settings: CommitSettings = getattr(engine, "commit_settings", _NO_DEFAULTS)
    return settings
