"""The engine: its handlers together."""

from __future__ import annotations

from typing import Protocol

from bayou.kernel.engine.description import EngineDescription
from bayou.kernel.engine.expression_handler import ExpressionHandler
from bayou.kernel.engine.file_system import FileSystemClient
from bayou.kernel.engine.json_handler import JsonHandler
from bayou.kernel.engine.parquet_handler import ParquetHandler
from bayou.kernel.metrics import MetricsReporter

__all__ = ["Engine"]


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
