"""The pipeline's Spark session, whose log goes to a file instead of the terminal."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bayou.errors import BayouError, PipelineError, PrerequisiteError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.local_state import create_folder, state_path_error
from bayou.spark import start_session
from bayou.spark.jvm.objects import JvmError

LOG_NAME = "spark.log"
"""Name of Spark's log file in the state path."""

_CONF = {
    # Each topic has its own pool, so that small batches don't wait for tasks of large ones.
    "spark.scheduler.mode": "FAIR",
    "spark.python.daemon.module": "bayou.ingest.runtime.worker_daemon",
}


_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""JVM options that make Spark start faster.

The JVM only plans and schedules, and no rows pass through it. The optimizing compiler and a
parallel garbage collector would therefore cost more time than they save.
"""


def pipeline_session(
    state_path: Path, *, master: str | None, conf: Mapping[str, str]
) -> SparkSession:
    """Start a session whose JVM and Python workers log to a file in the state path.

    If `master` is None, the session uses all cores of this machine.
    """
    create_folder(state_path)
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
        except (PySparkException, JvmError, ConnectionError) as error:
            raise _start_error(error, log) from error
    counters: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if counters is not None:  # PySpark's accumulator server prints a traceback if the JVM ends
        counters.handle_error = lambda *_: None
    return spark


def start_workers(spark: SparkSession) -> BackgroundTask:
    """Start Spark's Python workers in the background, before the first batch needs them.

    The caller can ignore errors of the returned task, because the first batch reports the same
    error.
    """
    context = spark.sparkContext
    tasks = context.defaultParallelism
    return BackgroundTask(lambda: context.parallelize(range(tasks), tasks).map(abs).collect())


def stop_session(spark: SparkSession) -> None:
    """Stop a session, even if its JVM has ended."""
    with warnings.catch_warnings(), contextlib.suppress(JvmError, ConnectionError):
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark's warning that the JVM has ended
        spark.stop()


@contextlib.contextmanager
def _stderr_of_children(file: Path) -> Iterator[None]:
    """Context manager that redirects the stderr of new processes to a file.

    In its block, file descriptor 2 refers to the file, and new processes inherit it. `sys.stderr`
    of this process still refers to the original stderr. Other threads run batches at the same time,
    and their messages must not be written to the file.
    """
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    except OSError as error:
        raise state_path_error(file, error) from error
    saved, stderr = os.dup(2), sys.stderr
    own = open(os.dup(saved), "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    redirects = stderr is sys.__stderr__ and stderr is not None
    try:
        os.dup2(opened, 2)
        os.close(opened)
        if redirects:
            sys.stderr = own
        yield
    finally:
        if redirects:
            sys.stderr = stderr
        os.dup2(saved, 2)
        os.close(saved)
        own.close()


def _start_error(error: Exception, log: Path) -> BayouError:
    """Return the error for a session that doesn't start, with the reason from Spark's log."""
    content = log.read_text(encoding="utf-8", errors="replace")
    if taken := _TAKEN_PORT.search(content):
        service, port = taken[1].rpartition(".")[2], taken[2]
        setting = _PORTS.get(service)
        action = f"set {setting} to a free port in connector.spark" if setting else "free the port"
        return PrerequisiteError(
            f"Spark doesn't start: port {port} is in use by another process. Stop that process, or "
            f"{action}.",
            what="port",
        )
    exceptions = _EXCEPTION.findall(content)
    reason = exceptions[0].strip() if exceptions else str(error).strip().splitlines()[0]
    return PipelineError(f"Spark doesn't start: {reason}. See Spark's log {log}.", topic="")


_TAKEN_PORT = re.compile(r"BindException: .*Service '([\w.]+)' .*\(starting from (\d+)\)")
_EXCEPTION = re.compile(r"^(?:\w+\.)+\w*(?:Error|Exception): (.+)$", re.MULTILINE)
_PORTS = {
    "SparkUI": "spark.ui.port",
    "sparkDriver": "spark.driver.port",
    "NettyBlockTransferService": "spark.blockManager.port",
}
