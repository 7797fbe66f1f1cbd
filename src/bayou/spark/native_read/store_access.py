"""Checks whether Spark's Hadoop client can read a table's files, which native scans require."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bayou.spark.jvm.hadoop import hadoop_version, has_file_system, has_settings

_OPTIONS = ("aws_", "azure_", "google_")
"""Prefixes of the names of storage options that Hadoop doesn't support."""

_S3_ENDPOINTS = frozenset({"AWS_ENDPOINT_URL", "AWS_ENDPOINT"})
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{version}",
    "abfs": "org.apache.hadoop:hadoop-azure:{version}",
    "abfss": "org.apache.hadoop:hadoop-azure:{version}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}
_CREDENTIALS = {
    "abfs": ("AZURE_", "fs.azure.account."),
    "abfss": ("AZURE_", "fs.azure.account."),
    "gs": ("GOOGLE_", "fs.gs.auth."),
}
"""Name prefixes of credentials, by URI scheme: (environment variables, Hadoop's settings).

Hadoop ignores these environment variables.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """The reason why Spark's Hadoop client can't read a table's files.

    Attributes:
        scheme: the URI scheme of the store in Hadoop.
        reason: the reason as text, for messages.
        package: name of the missing package that contains Hadoop's file system for this store. None
            if no package is missing, or if the package's name is unknown.
    """

    scheme: str
    reason: str
    package: str | None = None


def store_access(spark: Any, path: str, options: Mapping[str, str]) -> Unreachable | None:
    """Return the reason why Spark's Hadoop client can't read a table's files; None if it can.

    Args:
        options: the options of the read, with the session's storage settings.
    """
    if path.startswith("/"):
        return None
    scheme = urlsplit(path).scheme
    scheme = "s3a" if scheme in ("s3", "s3n") else scheme
    names = {key.lower() for key in options}
    if any(key.startswith(_OPTIONS) for key in names):
        return Unreachable(
            scheme=scheme,
            reason="the store's credentials are in options that Hadoop doesn't support",
        )
    if not has_file_system(spark, scheme):
        package = _PACKAGES.get(scheme)
        return Unreachable(
            scheme=scheme,
            reason=f"Spark's Hadoop client has no file system for {scheme}",
            package=package and package.format(version=hadoop_version(spark)),
        )
    if scheme == "s3a" and "fs.s3a.endpoint" not in names and _S3_ENDPOINTS & os.environ.keys():
        return Unreachable(
            scheme=scheme,
            reason="the store's endpoint is in an environment variable that Hadoop ignores",
        )
    variables, settings = _CREDENTIALS.get(scheme, (None, ""))
    if (
        variables is not None
        and any(name.startswith(variables) for name in os.environ)
        and not has_settings(spark, settings)
    ):
        return Unreachable(
            scheme=scheme,
            reason="the store's credentials are in environment variables that Hadoop ignores",
        )
    return None
