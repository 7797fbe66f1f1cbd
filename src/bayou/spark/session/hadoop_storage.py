"""Storage settings in a session's Hadoop configuration, such as `fs.s3a.*`.

Users set them for `hadoop-aws`, `hadoop-azure` and `gcs-connector` in one of these places: as
`spark.hadoop.fs.s3a.*` in the session's conf, in `core-site.xml`, or in the Hadoop configuration of
the Spark context. A setting applies to all buckets or accounts, unless its name contains a bucket
(`fs.s3a.bucket.<name>.*`) or an account (`fs.azure.account.key.<host>`). A Spark Connect client
can read only the session's conf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from bayou.engines import for_path
from bayou.kernel import Engine
from bayou.spark.jvm.hadoop import HadoopConf, context_conf
from bayou.spark.session.storage_options import HADOOP_AZURE, HADOOP_GOOGLE, storage_options

_PREFIX = "fs.s3a."
_SPARK_PREFIX = "spark.hadoop."
_CREDENTIALS = ("access.key", "secret.key", "session.token")
_PROVIDER = "aws.credentials.provider"
_ENDPOINT = ("endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled")
_NAMES = (*_CREDENTIALS, _PROVIDER, *_ENDPOINT)
_IGNORED_DEFAULTS = ("path.style.access", "connection.ssl.enabled", _PROVIDER)
"""Settings `fs.s3a.*`, without this prefix, that are ignored if they have Hadoop's default."""

_OTHER_STORES = {
    "abfs": (HADOOP_AZURE, "azure_"),
    "abfss": (HADOOP_AZURE, "azure_"),
    "gs": (HADOOP_GOOGLE, "google_"),
}
"""By URI scheme: Hadoop's settings with the equivalent storage options, and the options' prefix."""

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
    """Add the session's settings for a path's store to the options of a read or write.

    Names of options are case-insensitive. If the options contain credentials, the session's
    credentials are ignored. For a local path, no settings are added.
    """
    result = dict(options)
    parts = urlsplit(path or "")
    scheme = parts.scheme.lower()
    if scheme in _OTHER_STORES:
        settings, prefix = _OTHER_STORES[scheme]
        if not any(name.startswith(prefix) for name in storage_options(options)):
            get_setting = _settings(spark)
            host = parts.netloc.rpartition("@")[2]
            for name in settings:
                value = get_setting(f"{name}.{host}") or get_setting(name)
                if value:
                    result[name] = value
        return result
    if scheme not in ("s3", "s3a", "s3n"):
        return result
    bucket = parts.netloc
    names = {key.lower() for key in options}
    has_credentials = not _ANY_CREDENTIALS.isdisjoint(storage_options(options))
    get_setting = _settings(spark)
    bucket_prefix = f"{_PREFIX}bucket.{bucket}."
    bucket_key = get_setting(f"{bucket_prefix}access.key")
    has_other_key = bool(bucket_key) and bucket_key != get_setting(f"{_PREFIX}access.key")
    for name in _NAMES:
        key = _PREFIX + name
        if key in names or (has_credentials and name in (*_CREDENTIALS, _PROVIDER)):
            continue
        value = get_setting(bucket_prefix + name)
        if not value and not (has_other_key and name == "session.token"):
            value = get_setting(key)  # a token for all buckets belongs to another access key
        if value:
            result[key] = value
    return result


def session_engine(spark: Any, path: str, options: Mapping[str, str] | None = None) -> Engine:
    """Return the engine for a path, with storage settings from the options and from the session.

    Names of options are case-insensitive.
    """
    return for_path(path, storage_options(with_session_storage(spark, path, options or {})))


def _settings(spark: Any) -> Callable[[str], str | None]:
    is_classic = isinstance(spark, SparkSession)
    return _classic_settings(spark) if is_classic else _connect_settings(spark)


def _classic_settings(spark: Any) -> Callable[[str], str | None]:
    # Includes `spark.hadoop.` names that were set on the session, which Spark ignores.
    hadoop = HadoopConf(spark)

    def get_setting(key: str) -> str | None:
        session_value = hadoop.get(_SPARK_PREFIX + key)
        if session_value is not None and session_value != context_conf(spark, _SPARK_PREFIX + key):
            return session_value.strip()
        value = hadoop.get(key)
        if value is None:
            return None
        ignored = key.removeprefix(_PREFIX) in _IGNORED_DEFAULTS and hadoop.is_default(key)
        return None if ignored else value.strip()

    return get_setting


def _connect_settings(spark: Any) -> Callable[[str], str | None]:
    conf: Mapping[str, str] = spark.conf.getAll

    def get_setting(key: str) -> str | None:
        return conf.get(_SPARK_PREFIX + key) or conf.get(key)

    return get_setting
