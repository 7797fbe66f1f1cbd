"""The JVM's process and properties, and the conf that new sessions inherit."""

from __future__ import annotations

import subprocess
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from bayou.spark.jvm.objects import java_class, tested_with

__all__ = [
    "ending_java_if_interrupted",
    "has_resource",
    "jvm_exit_code",
    "max_heap_bytes",
    "set_for_new_sessions",
    "start_java",
    "system_property",
]

_EXIT_TIMEOUT = 5.0
"""Seconds to wait for the JVM's exit after the connection to it was lost."""


@tested_with("4.3")
@contextmanager
def ending_java_if_interrupted() -> Iterator[None]:
    """Context manager that ends the JVM if its start fails or is interrupted by Ctrl+C.

    PySpark doesn't end the JVM in this case. The JVM would outlive this process, and keep the
    process's stdout open.
    """
    try:
        yield
    except BaseException as error:
        if SparkContext._gateway is None:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                for process in frame.f_locals.values():
                    if isinstance(process, subprocess.Popen) and process.pid:
                        process.kill()
        raise


@tested_with("4.3")
def start_java(conf: SparkConf) -> None:
    """Start the JVM with a conf as command-line arguments, unless it is already running."""
    SparkContext._ensure_initialized(conf=conf)


@tested_with("4.3")
def jvm_exit_code(error: Exception) -> int | None:
    """Return the exit code of the JVM after an error; None if the JVM is still running.

    The exit code is negative if a signal ended the JVM. The result is also None if the JVM isn't a
    child process of this process.
    """
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    # Py4J has no specific error for a connection that breaks during a call.
    answered = isinstance(error, (Py4JJavaError, PySparkException))
    try:
        return process.wait(0 if answered else _EXIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        return None


@tested_with("4.2", "4.3")
def max_heap_bytes(spark: Any) -> int:
    """Return the maximum size of the JVM's heap in bytes."""
    return int(java_class(spark._jvm, "java.lang.Runtime").getRuntime().maxMemory())


@tested_with("4.3")
def system_property(spark: Any, name: str) -> str | None:
    """Return the value of a system property of the JVM; None if the property isn't set."""
    value = java_class(spark._jvm, "java.lang.System").getProperty(name)
    return None if value is None else str(value)


@tested_with("4.2", "4.3")
def has_resource(spark: Any, name: str) -> bool:
    """Whether the class path has a resource, such as `io/delta/sql/DeltaSparkSession.class`."""
    loader = java_class(spark._jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    return loader.getResource(name) is not None


@tested_with("4.2", "4.3")
def set_for_new_sessions(spark: Any, key: str, value: str | None) -> None:
    """Set a conf for later calls of `newSession` in this application; None unsets the conf."""
    shared = spark._jsparkSession.sharedState().conf()
    if value is None:
        shared.remove(key)
    else:
        shared.set(key, value)
