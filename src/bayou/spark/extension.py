"""Spark sessions: what Bayou asks of one, and how to start one that is ready."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from bayou.redaction import names_secret, without_secrets
from bayou.spark import catalog_tables, native_read
from bayou.spark.hooks import hooks
from bayou.spark.hooks.hooks import hand_over_settings
from bayou.spark.jvm.classes import java_class
from bayou.spark.log_replay.sorted_index import offer_sorted_index
from bayou.spark.session.prerequisites import check_java
from bayou.spark.sql_statements import answer_sql
from bayou.spark.streaming.schema_log import check_schema_locations
from bayou.spark.streaming.waiting_streams import offer_to_wait
from bayou.spark.write import handlers
from bayou.spark.write.write_to import write_to

__all__ = ["disable", "enable", "start_session"]

_FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_CONF = (hooks.ENABLED, _FILTER_PUSHDOWN)
_REDACTED_OPTIONS = "spark.sql.redaction.options.regex"
_OF_SPARK = "(?i)url"
_REDACTED_TOO = (
    r"|(?i:account[._-]?key|encryption[._-]?key|customer[._-]?key|keystore[._-]?key|private[._-]?key"
    r"|api[._-]?key|sas[._-]?(?:key|token)|jaas|credential|passphrase|passwd|basic\.auth\.user)"
)
"""Options whose values Spark would show in plans, and so write to its event log: what its own
`spark.redaction.regex` doesn't find. Values are searched, too, so no word here is common in paths.
"""
_DELTA_SPARK = "io/delta/sql/DeltaSparkSessionExtension.class"
_FOR_LAUNCH = ("spark.driver.", "spark.jars", "spark.submit.")
"""Settings that the JVM needs as arguments, for it is too late once it runs."""
_LOGGING = Path(__file__).with_name("log4j2.properties")


def enable(spark: Any) -> None:
    """Have a session read and write Delta tables by Bayou's own ways. Calling it again is harmless.

    Hooks in PySpark's readers and writers, installed once, answer for the format `delta` wherever
    the conf `spark.bayou.enabled` is true: in this session, in `foreachBatch`, and in sessions that
    are begun from it later.

    In a local classic session, workers that were to run another Python than this one (Spark takes
    `python3` from the PATH) run this one, so that a virtual environment needn't be activated; on a
    cluster set `PYSPARK_PYTHON`. It warns when delta-spark's JAR is on the class path: Spark takes
    that one for the format `delta`, without a word.

    Spark's push-down of filters into Python sources (`spark.sql.python.filterPushdown.enabled`) is
    switched on. Reads skip files by it with the option `pushFilters` only: Spark 4.2 and 4.3 mix up
    the filters of queries that share a `load()`. The read option `filter` skips files always.

    Options whose names say that they are secrets are redacted in plans and event logs, also those
    that Spark doesn't know (`spark.sql.redaction.options.regex`).

    Args:
        spark: a `SparkSession`, classic or Connect (which has no JVM to look into).

    Raises:
        ArgumentError: it isn't one.
    """
    hooks.check_session(spark)
    if isinstance(spark, SparkSession) and _has_delta_spark(spark):
        warnings.warn(
            "delta-spark's JAR is on the class path, so Spark takes it for the format 'delta' and "
            "never asks Bayou. Remove io.delta:delta-spark from spark.jars and "
            "spark.jars.packages to read and write with Bayou.",
            stacklevel=2,
        )
        return
    hooks.register("load", native_read.load)
    hooks.register("save", handlers.save)
    hooks.register("stream_start", handlers.start)
    hooks.register("query_start", check_schema_locations)
    hooks.register("table", catalog_tables.read)
    hooks.register("write_to", write_to)
    hooks.install(spark)
    hooks.register("load", hand_over_settings)
    hooks.register("stream_load", hand_over_settings)
    hooks.register("stream_load", offer_sorted_index)
    hooks.register("stream_load", offer_to_wait)
    hooks.register("sql", answer_sql)
    for key in _CONF:
        spark.conf.set(key, "true")
        _new_sessions_conf(spark, key, "true")
    redacted = str(spark.conf.get(_REDACTED_OPTIONS, _OF_SPARK))
    if not redacted.endswith(_REDACTED_TOO):
        spark.conf.set(_REDACTED_OPTIONS, redacted + _REDACTED_TOO)
        _new_sessions_conf(spark, _REDACTED_OPTIONS, redacted + _REDACTED_TOO)
    if isinstance(spark, SparkSession):
        _use_this_python(spark)


def disable(spark: Any) -> None:
    """Take back what `enable` has set, in this session and in those that are begun from now on.

    The hooks stay where they are and do nothing. A streaming query that runs keeps the conf that it
    was started with.

    Raises:
        ArgumentError: it isn't a session.
    """
    hooks.check_session(spark)
    for key in _CONF:
        spark.conf.unset(key)
        _new_sessions_conf(spark, key, None)
    redacted = str(spark.conf.get(_REDACTED_OPTIONS, _OF_SPARK))
    if redacted.endswith(_REDACTED_TOO):
        before = redacted.removesuffix(_REDACTED_TOO)
        spark.conf.set(_REDACTED_OPTIONS, before)
        _new_sessions_conf(spark, _REDACTED_OPTIONS, before)


def start_session(
    app_name: str = "bayou",
    conf: Mapping[str, str] | None = None,
    master: str = "local[*]",
    *,
    time_zone: str | None = None,
    java_options: Sequence[str] = (),
) -> SparkSession:
    """A quiet Spark session that works from any virtual environment, with Bayou enabled.

    The web UI and the progress bar are off and only errors are logged. With a local master the
    workers run this very Python and the driver listens on loopback only. `conf` overrides each.

    Args:
        app_name: what Spark's UI and logs show.
        conf: Spark settings by their names.
        master: Spark's master URL.
        time_zone: the session's time zone (`spark.sql.session.timeZone`), such as `UTC`.
        java_options: for the driver's JVM.

    Raises:
        PrerequisiteError: there is no Java, or it is too old.
    """
    check_java()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", *java_options)
        ),
    }
    if time_zone is not None:
        settings["spark.sql.session.timeZone"] = time_zone
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings.update(conf or {})
    _start_jvm({**settings, "spark.master": master, "spark.app.name": app_name})
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    enable(spark)
    return spark


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM, where there is none, without secrets among its arguments.

    PySpark hands every setting to `spark-submit` as an argument, which all users of the machine can
    read. Secrets reach the JVM with the context's settings, through Py4J. Tested with Spark 4.3.
    """
    secret = {key for key, value in settings.items() if _is_secret(key, value)}
    running: Any = SparkContext._gateway  # noqa: SLF001  # published nowhere
    if not secret or running is not None or is_remote():
        return
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if key not in secret:
            conf.set(key, value)
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001  # likewise


def _is_secret(key: str, value: str) -> bool:
    if key.startswith(_FOR_LAUNCH):
        return False
    return names_secret(key) or without_secrets(value) != value


def _new_sessions_conf(spark: Any, key: str, value: str | None) -> None:
    """Set what `newSession` of the same application starts with; None takes it back."""
    if not isinstance(spark, SparkSession):
        return
    shared: Any = spark._jsparkSession.sharedState().conf()  # noqa: SLF001  # published nowhere
    if value is None:
        shared.remove(key)
    else:
        shared.set(key, value)


def _has_delta_spark(spark: SparkSession) -> bool:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # the class path can be seen nowhere else
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    return loader.getResource(_DELTA_SPARK) is not None


def _use_this_python(spark: SparkSession) -> None:
    """Make a local session's workers run this Python, where nobody has said which.

    The JVM has looked for data sources with `python3` of the PATH, or will; sources that are
    registered run the Python of the context.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("local") or os.environ.get("PYSPARK_PYTHON"):
        return
    if context.pythonExec == sys.executable:
        return
    context.pythonExec = sys.executable
    for module in pkgutil.iter_modules():
        if module.name.startswith("pyspark_bayou"):
            with contextlib.suppress(ImportError):  # the extra that it needs isn't installed
                spark.dataSource.register(importlib.import_module(module.name).DefaultSource)
