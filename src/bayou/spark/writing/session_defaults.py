"""What a session's conf says of writes, where the write's own options don't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["with_session_defaults"]

_OPTIONS = {
    "mergeSchema": "spark.databricks.delta.schema.autoMerge.enabled",
    "optimizeWrite": "spark.databricks.delta.optimizeWrite.enabled",
    "partitionOverwriteMode": "spark.sql.sources.partitionOverwriteMode",
    "maxRecordsPerFile": "spark.sql.files.maxRecordsPerFile",
    "userMetadata": "spark.databricks.delta.commitInfo.userMetadata",
}
"""Options by their names, with delta-spark's settings for the same."""

_TRANSACTION = {
    "txnAppId": "spark.databricks.delta.write.txnAppId",
    "txnVersion": "spark.databricks.delta.write.txnVersion",
}
_HADOOP = "spark.hadoop."
_HADOOP_S3 = "spark.hadoop.fs.s3a."
_PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."


def with_session_defaults(spark: Any, options: Mapping[str, str]) -> dict[str, str]:
    """A write's options, completed by the session's conf; options win.

    What the conf says of S3 (`spark.hadoop.fs.s3a.*`), credentials included, comes as options, too.

    Args:
        spark: a classic session.
    """
    result = dict(options)
    given = {key.lower() for key in options}
    for name, setting in _OPTIONS.items():
        value = spark.conf.get(setting, None)
        if value is not None and name.lower() not in given:
            result[name] = value
    if "replacewhere" in given and "partitionoverwritemode" not in given:
        # An option says what is replaced, which goes over a setting of the session.
        result["partitionOverwriteMode"] = "static"
    if not given & {name.lower() for name in _TRANSACTION}:
        for name, setting in _TRANSACTION.items():
            value = spark.conf.get(setting, None)
            if value is not None:
                result[name] = value
    for key, value in _all(spark):
        if key.startswith(_PROPERTY_DEFAULTS):
            name = f"delta.{key.removeprefix(_PROPERTY_DEFAULTS)}"
        elif key.startswith(_HADOOP_S3):
            name = key.removeprefix(_HADOOP)
        else:
            continue
        if name.lower() not in given:
            result[name] = value
    return result


def _all(spark: Any) -> list[tuple[str, str]]:
    java: Any = spark._jsparkSession.conf().getAll()  # noqa: SLF001  # Connect has `getAll`
    converters = spark._jvm.scala.jdk.javaapi.CollectionConverters  # noqa: SLF001
    return [(str(e.getKey()), str(e.getValue())) for e in converters.asJava(java).entrySet()]
