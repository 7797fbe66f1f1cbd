"""Converts the confs `spark.hadoop.fs.s3a.*` in `connector.spark` to keys of `connector.storage`.

delta-spark reads these confs, because it accesses object stores through Hadoop. Bayou accesses
object stores without Hadoop. A key that `connector.storage` already has keeps its value.
"""

from __future__ import annotations

from typing import Any

S3A_PREFIX = "spark.hadoop.fs.s3a."

_STORAGE_KEYS = {
    "endpoint": "endpoint",
    "endpoint.region": "region",
    "access.key": "access-key",
    "secret.key": "secret-key",
    "session.token": "session-token",
    "path.style.access": "path-style-access",
}
_SSL = "connection.ssl.enabled"


def take_s3a_settings(values: dict[str, Any]) -> dict[str, str | None]:
    """Move confs `spark.hadoop.fs.s3a.*` from `connector.spark` to `connector.storage`, in place.

    Args:
        values: the values of the YAML file.

    Returns:
        For each conf, its key in `connector.storage`; None if there is no key for the conf.
    """
    connector = values.get("connector")
    spark = connector.get("spark") if isinstance(connector, dict) else None
    if not isinstance(connector, dict) or not isinstance(spark, dict):
        return {}
    settings = {k: spark.pop(k) for k in [k for k in spark if str(k).startswith(S3A_PREFIX)]}
    if not settings:
        return {}
    storage = connector.get("storage")
    storage = connector["storage"] = {} if storage is None else storage
    taken: dict[str, str | None] = {}
    options = {k.removeprefix(S3A_PREFIX): v for k, v in settings.items()}
    for conf, value in options.items():
        key = "allow-http" if conf == _SSL else _STORAGE_KEYS.get(conf)
        taken[S3A_PREFIX + conf] = key
        if key is None or not isinstance(storage, dict) or storage.get(key) is not None:
            continue
        match conf:
            case "connection.ssl.enabled":
                if str(value).lower() == "false":
                    storage[key] = True
            case "endpoint":
                ssl = str(options.get(_SSL, "true")).lower() != "false"
                storage[key] = _url(str(value), ssl=ssl)
            case _:
                storage[key] = value
    if isinstance(storage, dict) and str(storage.get("endpoint", "")).startswith("http://"):
        storage.setdefault("allow-http", True)  # as with s3a, an http:// URL allows http
    return taken


def _url(endpoint: str, *, ssl: bool) -> str:
    if "://" in endpoint:
        return endpoint
    return f"{'https' if ssl else 'http'}://{endpoint}"
