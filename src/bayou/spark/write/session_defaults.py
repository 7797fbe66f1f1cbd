"""What a session's conf says of writes, where the write's own options don't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayou.spark.session.hadoop_storage import with_session_storage

__all__ = ["with_session_defaults"]

_OPTIONS = {
    "mergeSchema": "spark.databricks.delta.schema.autoMerge.enabled",
    "optimizeWrite": "spark.databricks.delta.optimizeWrite.enabled",
    "partitionOverwriteMode": "spark.sql.sources.partitionOverwriteMode",
    "maxRecordsPerFile": "spark.sql.files.maxRecordsPerFile",
    "userMetadata": "spark.databricks.delta.commitInfo.userMetadata",
    "bayou.timeZone": "spark.sql.session.timeZone",
}
"""Options by their names, with delta-spark's settings for the same."""

_TRANSACTION = {
    "txnAppId": "spark.databricks.delta.write.txnAppId",
    "txnVersion": "spark.databricks.delta.write.txnVersion",
}
_PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."


def with_session_defaults(
    spark: Any, path: str | None, options: Mapping[str, str]
) -> dict[str, str]:
    """A write's options, completed by the session's conf; options win.

    What the session says of S3 (`fs.s3a.*`), credentials included, comes as options, too.

    Args:
        spark: a session, classic or Connect.
        path: where the table is.
    """
    result = dict(options)
    given = {key.lower() for key in options}
    conf: Mapping[str, str] = spark.conf.getAll
    for name, setting in _OPTIONS.items():
        if setting in conf and name.lower() not in given:
            result[name] = conf[setting]
    if "replacewhere" in given and "partitionoverwritemode" not in given:
        # An option says what is replaced, which goes over a setting of the session.
        result["partitionOverwriteMode"] = "static"
    if not given & {name.lower() for name in _TRANSACTION}:
        result |= {n: conf[setting] for n, setting in _TRANSACTION.items() if setting in conf}
    for key, value in conf.items():
        if key.startswith(_PROPERTY_DEFAULTS):
            name = f"delta.{key.removeprefix(_PROPERTY_DEFAULTS)}"
            if name.lower() not in given:
                result[name] = value
    return with_session_storage(spark, path, result)
