"""Enable Bayou in a Spark session, or start a session with Bayou enabled."""

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

from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from bayou.redaction import is_secret_name, without_secrets
from bayou.spark import catalog_tables, native_read
from bayou.spark.commands import replace_matching
from bayou.spark.delta_table.table_builder import create_from_catalog
from bayou.spark.hooks import hooks
from bayou.spark.hooks.hooks import pass_settings_as_options
from bayou.spark.jvm.session import (
    ending_java_if_interrupted,
    has_resource,
    set_for_new_sessions,
    start_java,
)
from bayou.spark.log_replay import initial_snapshot_sort
from bayou.spark.native_read import metadata_count
from bayou.spark.read import char_padding
from bayou.spark.session.prerequisites import check_java
from bayou.spark.sql_statements import sql_hook
from bayou.spark.sql_statements.subquery_tables import SubqueryTables
from bayou.spark.streaming import waiting_streams
from bayou.spark.streaming.schema_log import check_schema_locations
from bayou.spark.write import writer_hooks
from bayou.spark.write.write_to import write_to

_FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_CONF = (hooks.ENABLED, _FILTER_PUSHDOWN)
_REDACTED_OPTIONS = "spark.sql.redaction.options.regex"
_DEFAULT_REDACTION = "(?i)url"
_CREDENTIAL = r"credential(?!s?[._-]?provider)"
_NO_VALUE = r"/|\d+(?:[.:,;/\s]|$)"  # after a colon: a path, a port or the version of a package
_ADDED_REDACTION = (
    r"|(?i:(?:access|account|customer|encryption|keystore|master|private|provided)[._-]?key"
    r"|api[._-]?key|sas[._-]?(?:key|token)|azure\.sas\.|jaas|oauthbearer\.config"
    rf"|^[^\s=:/,;\\]*{_CREDENTIAL}[^\s=:/,;\\]*(?<!\.jar)$"
    rf"|{_CREDENTIAL}[\w.-]{{0,100}}(?:[\"']?\s{{0,9}}(?:=|->|(?<!\.jar):(?!{_NO_VALUE}))"
    r"|[\"']?\s{1,9}[\"'])"
    rf"|(?<![\w.-])--?[\w.-]{{0,100}}{_CREDENTIAL}[\w.-]{{0,100}}\s"
    r"|ssl\.key\.pem|private key-|passphrase|passwd|basic\.auth\.user)"
)
"""Addition to Spark's default regular expression for secret options.

In plans and event logs, Spark redacts an option if the option's name or value matches. Many values
are paths, so the expression contains no word that is common in paths. The word `credential` matches
in names of options. In values, the word matches only before another value, such as
`--credential x`, `credential: x` and `'credential' = 'x'`. The word doesn't match in class paths,
Maven coordinates, and classes such as `AWSCredentialsProvider`.
"""
_REDACTED_CONFS = (
    r"(?i)secret|password|token|access[.]?key" + _ADDED_REDACTION + r"|://[^\s/:@]*:[^\s@]*@"
)
"""Value of `spark.redaction.regex`: Spark's default, other secrets, and passwords in URLs."""
_DELTA_SPARK = "io/delta/sql/DeltaSparkSessionExtension.class"
_JAR_SETTINGS = ("spark.jars", "spark.jars.packages", "spark.sql.extensions")
_LAUNCH_PREFIXES = ("spark.driver.", "spark.jars", "spark.submit.")
"""Prefixes of settings that the JVM gets as command-line arguments when it starts."""
_LOGGING = Path(__file__).with_name("log4j2.properties")


def enable(spark: Any) -> None:
    """Make a session read and write Delta tables with Bayou. Repeated calls have no effect.

    Bayou installs hooks in PySpark's readers and writers. The hooks handle the format `delta` in
    sessions whose conf `spark.bayou.enabled` is true. `enable` sets this conf in this session and
    for sessions created later in the same application. The hooks also work in `foreachBatch`.

    If delta-spark's JAR is on the class path, Spark uses the JAR for the format `delta`. In this
    case, `enable` issues a warning and does nothing else.

    In a local classic session, workers run the Python interpreter of this process instead of
    `python3` from the PATH, so that a virtual environment needn't be activated. On a cluster, set
    `PYSPARK_PYTHON`.

    Filter pushdown into Python data sources (`spark.sql.python.filterPushdown.enabled`) is turned
    on. Reads with the option `pushFilters` use the pushed filters to skip files. Other reads ignore
    the pushed filters, because Spark 4.2 and 4.3 mix up the filters of queries that share a
    `load()`. The read option `filter` always skips files.

    Options whose names contain words such as `password` or `token` are redacted in plans and event
    logs (`spark.sql.redaction.options.regex`).

    Args:
        spark: a `SparkSession`, classic or Connect. Under Connect, the server's settings
            `spark.jars`, `spark.jars.packages` and `spark.sql.extensions` are searched for the JAR.

    Raises:
        ArgumentError: `spark` isn't a session.

    Examples:
        >>> enable(spark)
        >>> spark.read.format("delta").load("lake/orders").where("price > 10").show()
    """
    hooks.check_session(spark)
    if _has_delta_spark(spark):
        warnings.warn(
            "spark.jars: delta-spark's JAR is on the class path, so Spark uses it for the format "
            "'delta' and never calls Bayou. Remove io.delta:delta-spark from spark.jars and "
            "spark.jars.packages.",
            stacklevel=2,
        )
        return
    hooks.register("load", native_read.load)
    hooks.register("save", replace_matching.save)
    hooks.register("save", writer_hooks.save)
    hooks.register("stream_start", writer_hooks.start)
    hooks.register("query_start", check_schema_locations)
    hooks.register("table", catalog_tables.read)
    hooks.register("create_table", create_from_catalog)
    hooks.register("write_to", write_to)
    hooks.install(spark)
    hooks.register("load", pass_settings_as_options)
    hooks.register("stream_load", pass_settings_as_options)
    hooks.register("stream_load", char_padding.pass_to_stream)
    hooks.register("stream_load", initial_snapshot_sort.respond_to_stream)
    hooks.register("stream_load", waiting_streams.respond_to_stream)
    hooks.register("sql", sql_hook)
    hooks.register("subqueries", SubqueryTables)
    hooks.register("query", metadata_count.query)
    hooks.register("count", metadata_count.count)
    for key in _CONF:
        _set_conf(spark, key, "true")
    # The value is set even if this session has it, because `_set_conf` also sets it for sessions
    # that are created later. For these, `disable` in another session may have removed the value.
    redacted = str(spark.conf.get(_REDACTED_OPTIONS, _DEFAULT_REDACTION))
    redacted = redacted.removesuffix(_ADDED_REDACTION) + _ADDED_REDACTION
    _set_conf(spark, _REDACTED_OPTIONS, redacted)
    if isinstance(spark, SparkSession):
        _use_this_python(spark)


def _has_delta_spark(spark: Any) -> bool:
    """Whether delta-spark's JAR is on the class path.

    Under Connect, the server's settings are searched for the JAR.
    """
    if isinstance(spark, SparkSession):
        return has_resource(spark, _DELTA_SPARK)
    settings = ",".join(str(spark.conf.get(key, "")) for key in _JAR_SETTINGS)
    return "delta-spark" in settings or "io.delta" in settings


def disable(spark: Any) -> None:
    """Undo `enable` in this session and in sessions created later in the same application.

    Running streaming queries keep the conf that they were started with.

    Raises:
        ArgumentError: `spark` isn't a session.

    Examples:
        >>> disable(spark)
        >>> enable(spark)
    """
    hooks.check_session(spark)
    for key in _CONF:
        _set_conf(spark, key, None)
    redacted = str(spark.conf.get(_REDACTED_OPTIONS, _DEFAULT_REDACTION))
    if redacted.endswith(_ADDED_REDACTION):
        _set_conf(spark, _REDACTED_OPTIONS, redacted.removesuffix(_ADDED_REDACTION))


def start_session(
    app_name: str = "bayou",
    conf: Mapping[str, str] | None = None,
    master: str = "local[*]",
    *,
    time_zone: str | None = None,
    java_options: Sequence[str] = (),
) -> SparkSession:
    """Start a Spark session with Bayou enabled; no virtual environment has to be activated.

    The session has these default settings, which `conf` can override:

    - The web UI and the progress bar are off, and only errors are logged.
    - Confs whose names or values look secret are redacted in the web UI and in event logs.
    - With a local master, the driver listens on the loopback interface only. The workers run the
      Python interpreter of this process, unless `spark.pyspark.python` is set.

    Args:
        app_name: application name in Spark's UI and logs.
        conf: Spark settings.
        master: Spark's master URL.
        time_zone: the session's time zone (`spark.sql.session.timeZone`), such as `UTC`.
        java_options: options of the driver's JVM.

    Raises:
        PrerequisiteError: Java is missing or too old.

    Examples:
        >>> spark = start_session("orders", {"spark.driver.memory": "2g"}, master="local[2]")
    """
    check_java()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": _REDACTED_CONFS,
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", *java_options)
        ),
    }
    if time_zone is not None:
        settings["spark.sql.session.timeZone"] = time_zone
    # PySpark reads the workers' interpreter from the environment only.
    interpreter = (conf or {}).get("spark.pyspark.python")
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = interpreter or sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    else:
        configured = os.environ.get("PYSPARK_PYTHON", sys.executable)
        os.environ["PYSPARK_PYTHON"] = interpreter or configured
    settings.update(conf or {})
    with ending_java_if_interrupted():
        _start_without_secrets({**settings, "spark.master": master, "spark.app.name": app_name})
        builder = SparkSession.builder.master(master).appName(app_name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    enable(spark)
    return spark


def _start_without_secrets(settings: Mapping[str, str]) -> None:
    """Start the JVM without secrets in its command line.

    PySpark would pass all settings to `spark-submit` as arguments, which all users of the machine
    can read. The function does nothing if no setting is secret, if the JVM is already running, or
    under Spark Connect.
    """
    secret = {key for key, value in settings.items() if _is_secret(key, value)}
    if not secret or is_remote():
        return
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if key not in secret:
            conf.set(key, value)
    start_java(conf)


def _is_secret(key: str, value: str) -> bool:
    if is_secret_name(key):
        return True
    return not key.startswith(_LAUNCH_PREFIXES) and without_secrets(value) != value


def _set_conf(spark: Any, key: str, value: str | None) -> None:
    """Set a conf in this session and in later sessions of the application; None unsets it."""
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)
    if isinstance(spark, SparkSession):
        set_for_new_sessions(spark, key, value)


def _use_this_python(spark: SparkSession) -> None:
    """Make the workers of a local session run this interpreter, unless `PYSPARK_PYTHON` is set.

    Also registers Bayou's data sources. For unregistered data sources, the JVM would run `python3`
    from the PATH.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("local") or os.environ.get("PYSPARK_PYTHON"):
        return
    if context.pythonExec == sys.executable:
        return
    context.pythonExec = sys.executable
    for module in pkgutil.iter_modules():
        if module.name.startswith("pyspark_bayou"):
            with contextlib.suppress(ImportError):  # the module of an extra that isn't installed
                spark.dataSource.register(importlib.import_module(module.name).DefaultSource)
