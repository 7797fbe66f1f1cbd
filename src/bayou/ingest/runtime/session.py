"""The pipeline's Spark session: what it logs goes to a file, people read our words."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bayou.errors import BayouError, PipelineError, PrerequisiteError
from bayou.ingest.background_task import Errand
from bayou.ingest.state import make_folder, unusable
from bayou.spark import start_session

__all__ = ["LOG_NAME", "pipeline_session", "start_workers", "stop_session"]

LOG_NAME = "spark.log"
"""The file in the state path that Spark's log goes to."""

_CONF = {
    # Each topic has a pool: a small batch doesn't wait for all tasks of a large one.
    "spark.scheduler.mode": "FAIR",
    "spark.python.daemon.module": "bayou.ingest.runtime.worker_daemon",
}


_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Rows never pass the JVM here, it plans and keeps books: the optimizing compiler and a parallel
collector would take more of the first seconds than they ever give back."""


def pipeline_session(
    state_path: Path, *, master: str | None, conf: Mapping[str, str]
) -> SparkSession:
    """Start a session whose JVM and workers write what they say to a file of this run.

    Args:
        state_path: the folder of the file.
        master: Spark's master, all cores of this machine where None.
        conf: Spark settings.

    Raises:
        PrerequisiteError: no Java, a port is taken, or the folder or the file can't be used.
        PipelineError: Spark doesn't start for another reason.
    """
    make_folder(state_path)
    log = state_path / LOG_NAME
    with _stderr_of_children(log):
        try:
            spark = start_session(
                "bayou",
                {**_CONF, **conf},
                master or "local[*]",
                time_zone="UTC",
                java_options=_JAVA_OPTIONS,
            )
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise _not_started(error, log) from error
    counters: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if counters is not None:  # it would print a traceback when the JVM is killed
        counters.handle_error = lambda *_: None
    return spark


def start_workers(spark: SparkSession) -> Errand:
    """Have Spark start its Python workers while it is busy with something else.

    Returns:
        Done when they are there. Need not be waited for: what goes wrong, the first batch will meet
        too.
    """
    context = spark.sparkContext
    tasks = context.defaultParallelism
    return Errand(lambda: context.parallelize(range(tasks), tasks).map(abs).collect())


def stop_session(spark: SparkSession) -> None:
    """Stop it, also where its JVM has ended."""
    with warnings.catch_warnings(), contextlib.suppress(Py4JError, ConnectionError):
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark's words for the latter
        spark.stop()


@contextlib.contextmanager
def _stderr_of_children(file: Path) -> Iterator[None]:
    """Processes started inside keep the file as their stderr; ours comes back afterwards."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    except OSError as error:
        raise unusable(file, error) from error
    kept = os.dup(2)
    try:
        os.dup2(opened, 2)
        os.close(opened)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _not_started(error: Exception, log: Path) -> BayouError:
    """Why Spark didn't start: what its log says, for a JVM that ended says nothing else."""
    told = log.read_text(encoding="utf-8", errors="replace")
    if taken := _TAKEN_PORT.search(told):
        service, port = taken[1].rpartition(".")[2], taken[2]
        setting = _PORTS.get(service)
        where = f"set {setting} to a free one in connector.spark" if setting else "free it"
        return PrerequisiteError(
            f"Spark doesn't start: port {port} is taken by another process; stop that one, or "
            f"{where}.",
            what="port",
        )
    faults = _FAULT.findall(told)
    reason = faults[0].strip() if faults else str(error).strip().splitlines()[0]
    return PipelineError(f"Spark doesn't start: {reason} (its log is {log})", topic="")


_TAKEN_PORT = re.compile(r"BindException: .*Service '([\w.]+)' .*\(starting from (\d+)\)")
_FAULT = re.compile(r"^(?:\w+\.)+\w*(?:Error|Exception): (.+)$", re.MULTILINE)
_PORTS = {
    "SparkUI": "spark.ui.port",
    "sparkDriver": "spark.driver.port",
    "NettyBlockTransferService": "spark.blockManager.port",
}
