"""Writes a DataFrame's rows to Parquet files with Spark's own writer, without Python workers."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql.types import StructType

from bayou.spark.jvm.objects import JavaObject, JvmError, java_class, scala_seq, tested_with

__all__ = ["ParquetWrite", "WrittenFile"]

_SOURCES = "org.apache.spark.sql.execution.datasources"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_EXECUTION = "org.apache.spark.sql.execution.SQLExecution"

_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default has no statistics
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
}
_HADOOP_CONF = {
    # Hadoop's default local file system also writes a checksum file for each file.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    "parquet.compression.codec.zstd.level": "1",
}


class WrittenFile(NamedTuple):
    """A file that a successful task has written.

    Attributes:
        size: in bytes.
        modification_time: in milliseconds since the epoch.
    """

    name: str
    size: int
    modification_time: int


@tested_with("4.2", "4.3")
class ParquetWrite:
    """A write to new files with unique names in one folder; no table contains the files yet.

    The write uses Spark's commit protocol for streaming file sinks. The protocol writes the files
    at their final paths, deletes the files of failed attempts, and lists the files of successful
    attempts. The constructor prepares the write. It raises `JvmError` if this version of Spark
    lacks a class or method that the write needs.

    Args:
        schema: the columns of the files, in the order of the DataFrame's columns. The names can
            differ from the DataFrame's names. The types must be the same, except for nullability
            and names of fields.
        folder: absolute local path of the folder.
        options: options of Spark's Parquet writer.
    """

    def __init__(
        self, frame: Any, schema: StructType, folder: str, options: Mapping[str, str]
    ) -> None:
        spark = frame.sparkSession
        self._jvm: Any = spark._jvm
        self._new_array = spark.sparkContext._gateway.new_array
        self._execution = frame._jdf.queryExecution()
        self._folder = f"file://{folder}"
        session = self._session(spark)
        utils = java_class(self._jvm, "org.apache.spark.api.python.PythonUtils")
        types = java_class(self._jvm, "org.apache.spark.sql.catalyst.types.DataTypeUtils")
        parse = java_class(self._jvm, "org.apache.spark.sql.types.DataType").fromJson
        conf = session.sessionState().newHadoopConf()
        for name, value in _HADOOP_CONF.items():
            conf.set(name, value)
        no_paths = utils.toScalaMap({})
        columns = types.toAttributes(parse(schema.json()))
        self._protocol = java_class(self._jvm, f"{_STREAMING}.ManifestFileCommitProtocol")(
            str(uuid.uuid4()), self._folder
        )
        self._log_class = java_class(self._jvm, f"{_STREAMING}.sinks.FileStreamSinkLog")
        self._options_of_log = (session, getattr(self._log_class, "$lessinit$greater$default$4")())
        none = java_class(self._jvm, "scala.Option").empty()
        write = self._call(
            f"{_SOURCES}.FileFormatWriter",
            "write",
            session,
            self._execution.executedPlan(),
            java_class(self._jvm, f"{_SOURCES}.parquet.ParquetFileFormat")(),
            self._protocol,
            java_class(self._jvm, f"{_SOURCES}.FileFormatWriter$OutputSpec")(
                self._folder, no_paths, columns
            ),
            conf,
            scala_seq(self._jvm, []),  # partition columns
            none,  # buckets
            scala_seq(self._jvm, []),  # statistics trackers
            utils.toScalaMap(dict(options)),
        )
        # Spark passes the settings of `session`, which is a copy, to the tasks of the write.
        self._function = self._call(_EXECUTION, "withSQLConfPropagated", session, write)

    def run(self) -> list[WrittenFile]:
        """Write the rows, and return the files of all tasks.

        If a task fails, Spark deletes the files of finished and failed tasks. A file system error
        is raised as an `OSError`. All other errors are raised as by actions such as `collect`.
        """
        session, retention = self._options_of_log
        with tempfile.TemporaryDirectory(prefix="bayou-write-") as folder:
            log = self._log_class(1, session, f"file://{folder}/log", retention)
            self._protocol.setupManifestOptions(log, 0)
            try:
                execution = java_class(self._jvm, _EXECUTION)
                name = java_class(self._jvm, "scala.Option").apply("save")
                execution.withNewExecutionId(self._execution, name, self._function)
            except (Py4JJavaError, PySparkException) as error:
                cause = _task_error(error)
                if cause is None:
                    raise
                raise cause from None
            with open(os.path.join(folder, "log", "0"), encoding="utf-8") as file:
                entries = [json.loads(line) for line in file.read().splitlines()[1:]]
        return [
            WrittenFile(e["path"].rpartition("/")[2], e["size"], e["modificationTime"])
            for e in entries
        ]

    def _session(self, spark: Any) -> JavaObject:
        """Return a copy of the user's session with the settings of `_CONF`."""
        session = spark._jsparkSession.cloneSession()
        conf = session.sessionState().conf()
        for name, value in _CONF.items():
            conf.setConfString(name, value)
        return session

    def _call(self, name: str, function: str, *arguments: JavaObject) -> JavaObject:
        """Return a Scala `Function0` that calls a method of a Scala object with these arguments.

        Spark's `SQLExecution` takes such a function. `SQLExecution` passes settings to the tasks,
        and shows the query in Spark's UI. A function in Python isn't possible: py4j would run it in
        another thread, which doesn't have these settings.

        Args:
            name: qualified name of the Scala object.
            function: name of the method.
        """
        scala_object = java_class(self._jvm, name)
        methods = self._class(name).getMethods()
        method = next((m for m in methods if m.getName() == function), None)
        if method is None:
            raise JvmError(
                f"Spark: {name} has no method {function}. Use a supported Spark version."
            )
        count = int(method.getParameterCount())
        defaults = [
            getattr(scala_object, f"{function}$default${i}")()
            for i in range(len(arguments) + 1, count + 1)
        ]
        values = self._new_array(java_class(self._jvm, "java.lang.Object"), count)
        for i, value in enumerate((*arguments, *defaults)):
            values[i] = value
        handles = java_class(self._jvm, "java.lang.invoke.MethodHandles")
        handle = handles.insertArguments(handles.publicLookup().unreflect(method), 0, values)
        proxies = java_class(self._jvm, "java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class("scala.Function0"), handle)

    def _class(self, name: str) -> JavaObject:
        loader = java_class(self._jvm, "java.lang.Thread").currentThread().getContextClassLoader()
        return java_class(self._jvm, "java.lang.Class").forName(name, True, loader)


def _task_error(error: Py4JJavaError | PySparkException) -> Exception | None:
    """Return the exception of the task that failed; None if no task failed.

    Spark's writer wraps the task's exception several times.

    Args:
        error: the outermost exception.
    """
    java = error.java_exception if isinstance(error, Py4JJavaError) else vars(error).get("_origin")
    cause = None
    while java is not None:
        kind, inner = str(java.getClass().getName()), java.getCause()
        is_layer = kind == "java.lang.reflect.UndeclaredThrowableException" or (
            kind == "org.apache.spark.SparkException" and java.getCondition() == "TASK_WRITE_FAILED"
        )
        if is_layer and inner is not None:
            cause = inner
        java = inner
    if cause is None:
        return None
    return _file_error(cause) or convert_exception(cause)


def _file_error(java: JavaObject) -> OSError | None:
    """Convert a Java exception to an `OSError` if Spark's Parquet writer failed to write a file.

    Returns None for all other exceptions.
    """
    while java is not None and not str(java.getClass().getName()).startswith("java.io."):
        java = java.getCause()  # Hadoop's local file system raises an `FSError`
    if java is None:
        return None
    frames = [str(frame.getClassName()) for frame in java.getStackTrace()]
    if not any(frame.startswith("org.apache.parquet.hadoop.ParquetFileWriter") for frame in frames):
        return None
    message = str(java.getMessage())
    number = next((number for text, number in _ERRORS.items() if text in message), errno.EIO)
    return OSError(number, message)


_ERRORS = {
    "No space left on device": errno.ENOSPC,
    "File too large": errno.EFBIG,
    "quota exceeded": errno.EDQUOT,
    "Permission denied": errno.EACCES,
    "Mkdirs failed": errno.EACCES,
}
