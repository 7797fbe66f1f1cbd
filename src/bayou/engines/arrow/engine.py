"""The default engine: local files and obstore for storage, pyarrow for JSON and Parquet."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.arrow.json import ArrowJsonHandler
from bayou.engines.arrow.memory_pool import use_jemalloc
from bayou.engines.arrow.parquet import ArrowParquetHandler
from bayou.errors import ArgumentError
from bayou.kernel.engine import (
    ExpressionHandler,
    FileSystemClient,
    JsonHandler,
    ParquetHandler,
)
from bayou.kernel.engine.engine import EngineDescription, EngineFactory
from bayou.kernel.metrics import MetricsReporter


class ArrowEngine:
    """An engine for local disks, object stores (`s3://`, `gs://`, `abfss://`, `az://`) and HDFS.

    Each handler can be replaced. The default JSON and Parquet handlers read and write all bytes
    through `files`.

    The first engine of a process replaces mimalloc by jemalloc as pyarrow's default memory pool,
    because jemalloc needs less time and memory. The pool isn't replaced if the environment variable
    `ARROW_DEFAULT_MEMORY_POOL` is set, or if the program has set another pool than mimalloc.

    Args:
        storage_options: credentials and settings of object stores, named as in `deltalake`, such as
            `AWS_ENDPOINT_URL`; names are case-insensitive. Missing options are taken from the
            environment.
        files: custom file system client.
        json: custom JSON handler.
        parquet: custom Parquet handler.
        expressions: custom expression handler.
        factory: function or class at the top level of a module. Workers call the factory with
            `storage_options` to create an engine with the same custom handlers.
        metrics_reporter: receives metrics in this process, but not from workers.
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
        use_jemalloc()
        self._options = dict(storage_options or {})
        self._is_custom = any(h is not None for h in (files, json, parquet, expressions))
        self._factory = factory
        self._files = files or ArrowFiles(self._options)
        self._json = json or ArrowJsonHandler(self._files)
        self._metrics_reporter = metrics_reporter
        self._parquet = parquet or ArrowParquetHandler(self._files, metrics_reporter)
        self._expressions = expressions

    @property
    def files(self) -> FileSystemClient:
        """The file system client."""
        return self._files

    @property
    def json(self) -> JsonHandler:
        """The JSON handler."""
        return self._json

    @property
    def parquet(self) -> ParquetHandler:
        """The Parquet handler."""
        return self._parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """The expression handler."""
        if self._expressions is None:
            from bayou.kernel.expressions.evaluation import DefaultExpressionHandler

            self._expressions = DefaultExpressionHandler()
        return self._expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Return the receiver of metrics; None if the constructor got no `metrics_reporter`."""
        return self._metrics_reporter

    def description(self) -> EngineDescription:
        """Return the description from which a worker creates an equivalent engine.

        Raises:
            ArgumentError: the engine has custom handlers and no factory.
        """
        if self._factory is not None:
            return EngineDescription.of(self._factory, self._options)
        if self._is_custom:
            raise ArgumentError(
                "ArrowEngine: custom handlers can't be sent to a worker. Set the argument factory "
                "to a function that creates the engine from storage options.",
                argument="factory",
            )
        return EngineDescription(kind=self.KIND, options=self._options)

    def __repr__(self) -> str:
        return "ArrowEngine()"  # options hold credentials
