"""`spark.hadoop.fs.s3a.*` of `connector.spark`, as the settings of `connector.storage`.

A configuration written for delta-spark says there how to reach the store. Spark reads nothing from
it here, so these settings are taken out of its conf: they say it where `connector.storage` doesn't.
"""

from __future__ import annotations

from typing import Any

__all__ = ["S3A_PREFIX", "take_s3a_settings"]

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
    """Move them within a configuration's plain values.

    Returns:
        For each conf that was there the key of `connector.storage` that it gave or agrees with,
        None where it has no meaning here.
    """
    connector = values.get("connector")
    spark = connector.get("spark") if isinstance(connector, dict) else None
    if not isinstance(connector, dict) or not isinstance(spark, dict):
        return {}
    found = {k: spark.pop(k) for k in [k for k in spark if str(k).startswith(S3A_PREFIX)]}
    if not found:
        return {}
    storage = connector.get("storage")
    storage = connector["storage"] = {} if storage is None else storage
    taken: dict[str, str | None] = {}
    given = {k.removeprefix(S3A_PREFIX): v for k, v in found.items()}
    for conf, value in given.items():
        key = "allow-http" if conf == _SSL else _STORAGE_KEYS.get(conf)
        taken[S3A_PREFIX + conf] = key
        if key is None or not isinstance(storage, dict) or storage.get(key) is not None:
            continue
        match conf:
            case "connection.ssl.enabled":
                if str(value).lower() == "false":
                    storage[key] = True
            case "endpoint":
                storage[key] = _url(str(value), ssl=str(given.get(_SSL, "true")).lower() != "false")
            case _:
                storage[key] = value
    if isinstance(storage, dict) and str(storage.get("endpoint", "")).startswith("http://"):
        storage.setdefault("allow-http", True)  # s3a needs no other word for it
    return taken


def _url(endpoint: str, *, ssl: bool) -> str:
    if "://" in endpoint:
        return endpoint
    return f"{'https' if ssl else 'http'}://{endpoint}"
