"""The session's S3 settings: `fs.s3a.*` of its Hadoop configuration.

Users set them for `hadoop-aws`: in the conf as `spark.hadoop.fs.s3a.*`, in `core-site.xml`, or on
the context's Hadoop configuration, for all buckets or for one bucket (`fs.s3a.bucket.<name>.*`). A
Spark Connect client only has access to the session's conf.
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
_SPARK_PREFIX = "spark.hadoop."
_CREDENTIALS = ("access.key", "secret.key", "session.token")
_PROVIDER = "aws.credentials.provider"
_ENDPOINT = ("endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled")
_NAMES = (*_CREDENTIALS, _PROVIDER, *_ENDPOINT)
_IGNORED_DEFAULTS = ("path.style.access", "connection.ssl.enabled", _PROVIDER)
"""Settings whose Hadoop defaults are ignored."""

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
    """Options of a read or write, completed by the session's S3 settings.

    Options take precedence. If they have any credentials, the session's credentials are ignored.

    Args:
        spark: a session, classic or Connect.
        path: the table's path. If it isn't on S3, the options stay unchanged.
        options: option names in any case.
    """
    result = dict(options)
    bucket = _bucket(path)
    if bucket is None:
        return result
    names = {key.lower() for key in options}
    has_credentials = not _ANY_CREDENTIALS.isdisjoint(storage_options(options))
    is_classic = isinstance(spark, SparkSession)
    get_setting = _classic_settings(spark) if is_classic else _connect_settings(spark)
    for name in _NAMES:
        key = _PREFIX + name
        if key in names or (has_credentials and name in (*_CREDENTIALS, _PROVIDER)):
            continue
        value = get_setting(f"{_PREFIX}bucket.{bucket}.{name}") or get_setting(key)
        if value:
            result[key] = value
    return result


def session_engine(spark: Any, path: str, options: Mapping[str, str] | None = None) -> Engine:
    """The engine for a path, with the storage options and the session's S3 settings.

    Args:
        spark: a session, classic or Connect.
        options: options of a read or write, names in any case.
    """
    return for_path(path, storage_options(with_session_storage(spark, path, options or {})))


def _bucket(path: str | None) -> str | None:
    parts = urlsplit(path or "")
    return parts.netloc if parts.scheme.lower() in ("s3", "s3a", "s3n") else None


def _classic_settings(spark: Any) -> Callable[[str], str | None]:
    # The context's Hadoop configuration overlaid by the session's conf, as a Hadoop file system
    # gets it, and `spark.hadoop.` names that were set on the session, which Spark ignores.
    state = spark._jsparkSession.sessionState()  # noqa: SLF001  # no public API
    hadoop = state.newHadoopConf()
    context = spark.sparkContext._conf  # noqa: SLF001  # `getConf` copies the whole conf

    def get_setting(key: str) -> str | None:
        session_value = hadoop.get(_SPARK_PREFIX + key)
        if session_value is not None and session_value != context.get(_SPARK_PREFIX + key):
            return str(session_value).strip()
        value = hadoop.get(key)
        if value is not None and key.removeprefix(_PREFIX) in _IGNORED_DEFAULTS:
            sources = hadoop.getPropertySources(key)
            if sources is not None and list(sources) == ["core-default.xml"]:
                return None
        return None if value is None else str(value).strip()

    return get_setting


def _connect_settings(spark: Any) -> Callable[[str], str | None]:
    conf: Mapping[str, str] = spark.conf.getAll

    def get_setting(key: str) -> str | None:
        return conf.get(_SPARK_PREFIX + key) or conf.get(key)

    return get_setting
