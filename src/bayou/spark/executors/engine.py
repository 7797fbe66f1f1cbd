"""`SessionEngine`: the engine of the driver, which lets executors write large checkpoints."""

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
from bayou.kernel.engine import (
    CommitSettings,
    ExpressionHandler,
    FileSystemClient,
    JsonHandler,
    ParquetHandler,
)
from bayou.kernel.metrics import MetricsReporter
from bayou.spark.executors.executor_tasks import run_tasks
from bayou.spark.session.settings import CHECKPOINT_LOCAL_BYTES

_LOG = logging.getLogger(__name__)
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_LOCAL_BYTES = 256 << 20
_PART_BYTES = 32 << 20


class SessionEngine:
    """The driver's engine. It wraps another engine, and lets executors write large checkpoints.

    In a Connect session, the client writes all checkpoints. Commits get the user metadata from the
    session's conf `spark.databricks.delta.commitInfo.userMetadata`.
    """

    def __init__(self, spark: Any, engine: Engine) -> None:
        self._spark = spark
        self._engine = engine

    @property
    def files(self) -> FileSystemClient:
        return self._engine.files

    @property
    def json(self) -> JsonHandler:
        return self._engine.json

    @property
    def parquet(self) -> ParquetHandler:
        return self._engine.parquet

    @property
    def expressions(self) -> ExpressionHandler:
        return self._engine.expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        return self._engine.metrics_reporter

    def description(self) -> EngineDescription:
        """Description of the wrapped engine; executors create an equivalent engine from it."""
        return self._engine.description()

    @property
    def user_metadata(self) -> str | None:
        """User metadata of commits, from the session's conf; None if the conf isn't set."""
        metadata = self._spark.conf.get(_USER_METADATA, None)
        return None if metadata is None else str(metadata)

    @property
    def commit_settings(self) -> CommitSettings:
        return CommitSettings(user_metadata=self.user_metadata)

    def checkpoint_parts(self, log_bytes: int) -> int:
        """Return the number of files for a checkpoint; more than 1 only for a large log.

        Args:
            log_bytes: size of the log.
        """
        if not isinstance(self._spark, SparkSession):
            return 1
        local_bytes = CHECKPOINT_LOCAL_BYTES.integer(spark=self._spark, default=_LOCAL_BYTES)
        if log_bytes <= local_bytes:
            return 1
        return max(2, -(-log_bytes // _PART_BYTES))

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        """Write each part of a checkpoint in a Spark task.

        Returns None if Spark fails. The caller then writes the parts in the driver.
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
                "%s: Spark failed to write the checkpoint (%s). The driver writes it instead.",
                table,
                error,
            )
            return None
        return [msgspec.json.decode(part, type=WrittenPart) for part in results]

    def __repr__(self) -> str:
        return f"SessionEngine({self._engine!r})"
