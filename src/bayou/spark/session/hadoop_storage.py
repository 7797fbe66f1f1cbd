"""What a session knows of S3: the settings `fs.s3a.*` of its Hadoop, for tables of ours.

They are those that users have set for `hadoop-aws`: in the conf as `spark.hadoop.fs.s3a.*`, in
`core-site.xml`, or on the context's Hadoop configuration, for all buckets or for one
(`fs.s3a.bucket.<name>.*`). A client of Spark Connect sees what stands in the session's conf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from bayou.engines import for_path
from bayou.kernel import Engine
from bayou.spark.session.storage_options import storage_options

__all__ = ["session_engine", "with_session_storage"]

_PREFIX = "fs.s3a."
_IN_SPARK = "spark.hadoop."
_CREDENTIALS = ("access.key", "secret.key", "session.token")
_PROVIDER = "aws.credentials.provider"
_PLACE = ("endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled")
_NAMES = (*_CREDENTIALS, _PROVIDER, *_PLACE)
_DEFAULTED = ("path.style.access", "connection.ssl.enabled", _PROVIDER)
"""Hadoop's own defaults of these say nothing about a store."""

_ANY_CREDENTIALS = frozenset(
    {
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_skip_signature",
    }
)


def with_session_storage(
    spark: Any, path: str | None, options: Mapping[str, str]
) -> dict[str, str]:
    """Options of a read or write, completed by what the session says of S3; options win.

    Credentials are taken from one place: where the options have any, none of the session's are.

    Args:
        spark: a session, classic or Connect.
        path: of the table; where it isn't on S3 nothing is looked for.
        options: in any case.
    """
    result = dict(options)
    bucket = _bucket(path)
    if bucket is None:
        return result
    given = {key.lower() for key in options}
    known = storage_options(options)
    has_credentials = not _ANY_CREDENTIALS.isdisjoint(known)
    setting = _classic(spark) if isinstance(spark, SparkSession) else _connect(spark)
    for name in _NAMES:
        key = _PREFIX + name
        if key in given or (has_credentials and name in (*_CREDENTIALS, _PROVIDER)):
            continue
        value = setting(f"{_PREFIX}bucket.{bucket}.{name}") or setting(key)
        if value:
            result[key] = value
    return result


def session_engine(spark: Any, path: str, options: Mapping[str, str] | None = None) -> Engine:
    """The engine for a path, with the storage options and what the session says of S3.

    Args:
        spark: a session, classic or Connect.
        options: of a read or write, in any case.
    """
    return for_path(path, storage_options(with_session_storage(spark, path, options or {})))


def _bucket(path: str | None) -> str | None:
    parts = urlsplit(path or "")
    return parts.netloc if parts.scheme.lower() in ("s3", "s3a", "s3n") else None


def _classic(spark: Any) -> Callable[[str], str | None]:
    # The context's Hadoop with the session's conf over it: what a file system of a JAR would get,
    # and names with `spark.hadoop.` that were set on the session, which Spark leaves aside.
    state = spark._jsparkSession.sessionState()  # noqa: SLF001  # published nowhere
    hadoop = state.newHadoopConf()
    context = spark.sparkContext._conf  # noqa: SLF001  # `getConf` copies all of it

    def setting(key: str) -> str | None:
        of_session = hadoop.get(_IN_SPARK + key)
        if of_session is not None and of_session != context.get(_IN_SPARK + key):
            return str(of_session).strip()
        value = hadoop.get(key)
        if value is not None and key.removeprefix(_PREFIX) in _DEFAULTED:
            sources = hadoop.getPropertySources(key)
            if sources is not None and list(sources) == ["core-default.xml"]:
                return None
        return None if value is None else str(value).strip()

    return setting


def _connect(spark: Any) -> Callable[[str], str | None]:
    known: Mapping[str, str] = spark.conf.getAll

    def setting(key: str) -> str | None:
        return known.get(_IN_SPARK + key) or known.get(key)

    return setting
