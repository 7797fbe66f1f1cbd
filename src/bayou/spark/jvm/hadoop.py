"""Hadoop's configuration and file systems."""

from __future__ import annotations

from typing import Any

from bayou.spark.jvm.objects import JvmError, java_class, tested_with

__all__ = ["HadoopConf", "context_conf", "hadoop_version", "has_file_system", "has_settings"]


@tested_with("4.3")
class HadoopConf:
    """The Hadoop configuration of a session; it includes the settings of the session's conf."""

    def __init__(self, spark: Any) -> None:
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()

    def get(self, name: str) -> str | None:
        value = self._conf.get(name)
        return None if value is None else str(value)

    def is_default(self, name: str) -> bool:
        """Whether a setting has Hadoop's default, from `core-default.xml`."""
        sources = self._conf.getPropertySources(name)
        return sources is not None and list(sources) == ["core-default.xml"]


@tested_with("4.3")
def context_conf(spark: Any, name: str) -> str | None:
    """Return the value of a setting in the SparkContext's conf; None if the setting isn't set."""
    value: str | None = spark.sparkContext._conf.get(name)  # `getConf` copies the whole conf
    return value


@tested_with("4.3")
def has_file_system(spark: Any, scheme: str) -> bool:
    """Whether the class path has Hadoop's file system for a URI scheme."""
    file_system = java_class(spark._jvm, "org.apache.hadoop.fs.FileSystem")
    try:
        file_system.getFileSystemClass(scheme, spark._jsc.hadoopConfiguration())
    except JvmError:
        return False
    return True


@tested_with("4.3")
def has_settings(spark: Any, prefix: str) -> bool:
    """Whether the session's Hadoop configuration has settings whose names start with a prefix."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return not conf.getPropsWithPrefix(prefix).isEmpty()


@tested_with("4.3")
def hadoop_version(spark: Any) -> str:
    """Version of Spark's Hadoop client, such as `3.5.0`."""
    return str(java_class(spark._jvm, "org.apache.hadoop.util.VersionInfo").getVersion())
