"""`SessionEngine`: the driver's engine, which writes large checkpoints on executors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from bayou.engines import from_description
from bayou.errors import BayouError
from bayou.kernel import Engine, EngineDescription
from bayou.kernel.checkpoint.parts import (
    CheckpointPart,
    WrittenPart,
    write_checkpoint_part,
)
from bayou.kernel.engine import ExpressionHandler, FileSystemClient, JsonHandler, ParquetHandler
from bayou.kernel.metrics import MetricsReporter
from bayou.spark.executors.executor_tasks import run_tasks
from bayou.spark.session.settings import CHECKPOINT_LOCAL_BYTES

__all__ = ["SessionEngine"]

_LOG = logging.getLogger(__name__)
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_LOCAL_BYTES = 256 << 20
_PART_BYTES = 32 << 20


class SessionEngine:
    """Wraps an engine: executors write the checkpoints of large tables.

    Commits record the user metadata of the session's conf.

    Args:
        spark: a session, classic or Connect. With Connect, the driver writes all checkpoints.
        engine: the engine to wrap; executors create an equivalent one.
    """

    def __init__(self, spark: Any, engine: Engine) -> None:
        self._spark = spark
        self._engine = engine

    @property
    def files(self) -> FileSystemClient:
        """The wrapped engine's file system client."""
        return self._engine.files

    @property
    def json(self) -> JsonHandler:
        """The wrapped engine's JSON handler."""
        return self._engine.json

    @property
    def parquet(self) -> ParquetHandler:
        """The wrapped engine's Parquet handler."""
        return self._engine.parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """The wrapped engine's expression handler."""
        return self._engine.expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """The wrapped engine's metrics reporter."""
        return self._engine.metrics_reporter

    def description(self) -> EngineDescription:
        """Description from which executors create an equivalent of the wrapped engine."""
        return self._engine.description()

    @property
    def user_metadata(self) -> str | None:
        """See `CommitDefaults`."""
        metadata = self._spark.conf.get(_USER_METADATA, None)
        return None if metadata is None else str(metadata)

    def checkpoint_parts(self, log_bytes: int) -> int:
        """Number of parts of a checkpoint, from the size of the log that it replaces."""
        if not isinstance(self._spark, SparkSession):
            return 1
        local = CHECKPOINT_LOCAL_BYTES.integer(spark=self._spark)
        if log_bytes <= (_LOCAL_BYTES if local is None else local):
            return 1
        return max(2, -(-log_bytes // _PART_BYTES))

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        """Write each part in a task; None if Spark fails and the driver must write them.

        Raises:
            BayouError: a task raised it.
        """
        engine = self.description()

        def write(_: int, part: bytes) -> bytes:
            written = write_checkpoint_part(
                from_description(engine), CheckpointPart.from_bytes(part)
            )
            return msgspec.json.encode(written)

        try:
            results = run_tasks(
                self._spark,
                [part.to_bytes() for part in parts],
                write,
                table=table,
                description=f"Checkpoint of {table}",
                discard=lambda _: None,
            )
        except BayouError:
            raise
        except Exception as error:  # noqa: BLE001  # the commit has succeeded already
            _LOG.warning(
                "%s: Spark failed to write the checkpoint, so the driver writes it: %s",
                table,
                error,
            )
            return None
        return [msgspec.json.decode(part, type=WrittenPart) for part in results]

    def __repr__(self) -> str:
        return f"SessionEngine({self._engine!r})"
