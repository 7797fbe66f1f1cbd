"""An engine of a session's driver, which executors help where there is much to write."""

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
from bayou.spark.executors.executor_tasks import run_shares
from bayou.spark.session.settings import CHECKPOINT_LOCAL_BYTES

__all__ = ["SessionEngine"]

_LOG = logging.getLogger(__name__)
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_LOCAL_BYTES = 256 << 20
_PART_BYTES = 32 << 20


class SessionEngine:
    """Another engine, whose checkpoints of large tables are written by executors.

    Its commits carry the free text that the session's conf has for them.

    Args:
        spark: a session; one of Spark Connect has no executors for this process.
        engine: does everything else; one like it is made on executors.
    """

    def __init__(self, spark: Any, engine: Engine) -> None:
        self._spark = spark
        self._engine = engine

    @property
    def files(self) -> FileSystemClient:
        """Files."""
        return self._engine.files

    @property
    def json(self) -> JsonHandler:
        """JSON."""
        return self._engine.json

    @property
    def parquet(self) -> ParquetHandler:
        """Parquet."""
        return self._engine.parquet

    @property
    def expressions(self) -> ExpressionHandler:
        """Expressions."""
        return self._engine.expressions

    @property
    def metrics_reporter(self) -> MetricsReporter | None:
        """Who is told what was measured."""
        return self._engine.metrics_reporter

    def description(self) -> EngineDescription:
        """How a worker builds an equivalent engine, which has no executors."""
        return self._engine.description()

    @property
    def user_metadata(self) -> str | None:
        """See `CommitNotes`."""
        text = self._spark.conf.get(_USER_METADATA, None)
        return None if text is None else str(text)

    def checkpoint_parts(self, log_bytes: int) -> int:
        """Into how many parts a checkpoint is cut, by what it builds on."""
        if not isinstance(self._spark, SparkSession):
            return 1
        local = CHECKPOINT_LOCAL_BYTES.integer(spark=self._spark)
        if log_bytes <= (_LOCAL_BYTES if local is None else local):
            return 1
        return max(2, -(-log_bytes // _PART_BYTES))

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        """A task for each part.

        Raises:
            BayouError: one of ours that a task raised.
        """
        reach = self.description()

        def write(_: int, part: bytes) -> bytes:
            written = write_checkpoint_part(
                from_description(reach), CheckpointPart.from_bytes(part)
            )
            return msgspec.json.encode(written)

        try:
            done = run_shares(
                self._spark,
                [part.to_bytes() for part in parts],
                write,
                table=table,
                description=f"Checkpoint of {table}",
                discard=lambda _: None,
            )
        except BayouError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever Spark says: the commit stands
            _LOG.warning(
                "Spark can't write the checkpoint of %s; this process does. %s", table, error
            )
            return None
        return [msgspec.json.decode(part, type=WrittenPart) for part in done]

    def __repr__(self) -> str:
        return f"SessionEngine({self._engine!r})"
