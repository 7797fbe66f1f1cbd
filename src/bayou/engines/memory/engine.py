"""An engine whose files live in this process: a fast fake for tests, and a second opinion."""

from __future__ import annotations

from bayou.engines.memory.files import MemoryFiles
from bayou.engines.memory.json import MemoryJsonHandler
from bayou.engines.memory.parquet import MemoryParquetHandler
from bayou.kernel.engine import ExpressionHandler
from bayou.kernel.engine.description import EngineDescription
from bayou.kernel.expressions.handler import DefaultExpressionHandler
from bayou.kernel.metrics import MetricsReporter

__all__ = ["MemoryEngine"]


class MemoryEngine:
    """Tables under `memory://name/...`, shared by all of a process, gone with it.

    Its handlers are written for clarity, value by value, and share no code with those of
    `ArrowEngine`, so that tests can compare the two.
    """

    KIND = "memory"
    """Value of `EngineDescription.kind`."""

    def __init__(self, *, metrics_reporter: MetricsReporter | None = None) -> None:
        self._files = MemoryFiles()
        self._json = MemoryJsonHandler(self._files)
        self._parquet = MemoryParquetHandler(self._files)
        self._metrics_reporter = metrics_reporter
        self._expressions = DefaultExpressionHandler()

    @property
    def files(self) -> MemoryFiles:
        """Files."""
        return self._files

    @property
    def json(self) -> MemoryJsonHandler:
        """JSON."""
        return self._json

    @property
    def parquet(self) -> MemoryParquetHandler:
        """Parquet."""
        return self._parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """Expressions."""
        return self._expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Who is told what the kernel measured; the handlers here measure nothing."""
        return self._metrics_reporter

    def description(self) -> EngineDescription:
        """How the same process builds an equivalent engine; another process sees other files."""
        return EngineDescription(kind=self.KIND)

    def __repr__(self) -> str:
        return "MemoryEngine()"
