"""The default engine: plain files and obstore underneath, pyarrow for JSON and Parquet."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.arrow.json import ArrowJsonHandler
from bayou.engines.arrow.parquet import ArrowParquetHandler
from bayou.errors import ArgumentError
from bayou.kernel.engine import (
    ExpressionHandler,
    FileSystemClient,
    JsonHandler,
    ParquetHandler,
)
from bayou.kernel.engine.engine import EngineDescription, EngineFactory
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.kernel.metrics import MetricsReporter

__all__ = ["ArrowEngine"]


class ArrowEngine:
    """Tables on local disks and object stores (`s3://`, `s3a://`, `gs://`, `abfss://`, `az://`).

    Every handler can be replaced by one of your own; those that aren't use yours: JSON and Parquet
    take every byte through `files`.

    Args:
        storage_options: credentials and settings of object stores, in the names known from
            `deltalake`, such as `AWS_ENDPOINT_URL`; case doesn't matter. What isn't given is
            taken from the environment.
        files: replaces the files.
        json: replaces JSON.
        parquet: replaces Parquet.
        expressions: replaces expressions.
        factory: a function or class, at the top of a module, that makes this very engine of
            `storage_options`. An engine with handlers of your own travels to workers by it.
        metrics_reporter: is told what was measured; doesn't travel to workers.
    """

    KIND = "arrow"
    """Value of `EngineDescription.kind`."""

    def __init__(
        self,
        storage_options: Mapping[str, str] | None = None,
        *,
        files: FileSystemClient | None = None,
        json: JsonHandler | None = None,
        parquet: ParquetHandler | None = None,
        expressions: ExpressionHandler | None = None,
        factory: EngineFactory | None = None,
        metrics_reporter: MetricsReporter | None = None,
    ) -> None:
        self._options = dict(storage_options or {})
        self._is_custom = any(h is not None for h in (files, json, parquet, expressions))
        self._factory = factory
        self._files = files or ArrowFiles(self._options)
        self._json = json or ArrowJsonHandler(self._files)
        self._metrics_reporter = metrics_reporter
        self._parquet = parquet or ArrowParquetHandler(self._files, metrics_reporter)
        self._expressions = expressions or DefaultExpressionHandler()

    @property
    def files(self) -> FileSystemClient:
        """Files."""
        return self._files

    @property
    def json(self) -> JsonHandler:
        """JSON."""
        return self._json

    @property
    def parquet(self) -> ParquetHandler:
        """Parquet."""
        return self._parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """Expressions."""
        return self._expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Who is told what was measured."""
        return self._metrics_reporter

    def description(self) -> EngineDescription:
        """How a worker builds an equivalent engine.

        Raises:
            ArgumentError: a handler was replaced and no factory was given.
        """
        if self._factory is not None:
            return EngineDescription.of(self._factory, self._options)
        if self._is_custom:
            raise ArgumentError(
                "This ArrowEngine has handlers of your own, which can't travel to a worker. Give "
                "ArrowEngine a factory that makes such an engine of its storage options.",
                argument="factory",
            )
        return EngineDescription(kind=self.KIND, options=self._options)

    def __repr__(self) -> str:
        return "ArrowEngine()"  # options hold credentials
