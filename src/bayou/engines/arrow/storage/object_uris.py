"""URIs of object stores: recognition, and parsing into bucket and key.

A mistyped URI is an error, never a local folder. Each object has one canonical path. No message
shows credentials of a path.
"""

from __future__ import annotations

import re

from bayou.errors import ArgumentError

__all__ = ["check_bucket_options", "is_local_path", "is_object_store", "split_object_uri"]

_CANONICAL = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Canonical name of each scheme, including Hadoop's names."""

_REMOTE = frozenset(
    {
        *_CANONICAL,
        *("adl", "cos", "dbfs", "hdfs", "http", "https", "memory", "oci", "oss", "s3n"),
        *("viewfs", "wasb", "wasbs", "webhdfs"),
    }
)
"""Schemes of URIs, which are never names of local folders."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//)?")
_BUCKET = re.compile(r"[^\s/?#@:%\\\[\]\x00-\x1f\x7f]+")
_CONTAINER = re.compile(rf"{_BUCKET.pattern}(?:@{_BUCKET.pattern})?")
"""An Azure container, optionally with the host of the account's endpoint."""

_ODD_KEY = re.compile(r"//|^/|(?:^|/)\.{1,2}/|[\x00-\x1f\x7f]")
_REFUSED_KEY = re.compile(r"(?:^|/)\.{1,2}/|[\x00-\x1f\x7f]")
"""A trailing dot is allowed: it may be the prefix from which a listing starts."""

_BUCKET_OPTIONS = {
    "s3": ("aws_bucket", "aws_bucket_name", "bucket", "bucket_name"),
    "gs": ("google_bucket", "google_bucket_name", "bucket", "bucket_name"),
    "az": ("azure_container_name", "container_name"),
}
_ACCOUNT_OPTIONS = ("azure_storage_account_name", "account_name")


def is_object_store(scheme: str) -> bool:
    """Whether a scheme belongs to a supported object store."""
    return scheme.lower() in _CANONICAL


def is_local_path(path: str) -> bool:
    """Whether a path is on the local disk.

    Raises:
        ArgumentError: a URI with an unsupported scheme, or a URI that lacks a slash.
    """
    if path.startswith("/"):
        return True
    match = _SCHEME.match(path)
    if match is None or match[1] == "file":
        return True
    scheme = match[1].lower()
    if match[2] and is_object_store(scheme):
        return False
    if match[2]:
        raise ArgumentError(
            f"{_without_credentials(path)}: no engine for the scheme {scheme!r}. Use a local path "
            "or one of file://, s3://, s3a://, gs://, az://, abfs://, abfss://.",
            argument="path",
        )
    if scheme in _REMOTE:
        raise ArgumentError(
            f"{_without_credentials(path)}: a URI needs two slashes after its scheme, such as "
            f"{scheme}://bucket/key. Write a local folder of this name as ./{scheme}:...",
            argument="path",
        )
    return True


def split_object_uri(path: str) -> tuple[str, str]:
    """Split a URI into root (`s3://bucket`) and key; repeated slashes in the key become one.

    Raises:
        ArgumentError: the scheme isn't supported, the bucket is missing, the URI has credentials,
            or its key has a segment `.` or `..` or a control character.
    """
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    canonical = _CANONICAL.get(scheme.lower())
    if canonical is None or not bucket:
        raise ArgumentError(
            f"{_without_credentials(path)!r}: not a path of an object store. Use one such as "
            "s3://bucket/key.",
            argument="path",
        )
    form = _CONTAINER if canonical in ("az", "abfs", "abfss") else _BUCKET
    if not form.fullmatch(bucket):
        raise ArgumentError(
            f"{_without_credentials(path)!r}: {scheme}:// isn't followed by the name of a bucket. "
            "Pass credentials and the endpoint of a store as storage_options, not in the path.",
            argument="path",
        )
    if _ODD_KEY.search(key):
        key = re.sub("/{2,}", "/", key).lstrip("/")
        if _REFUSED_KEY.search(key):
            raise ArgumentError(
                f"{path!r}: keys with a segment '.' or '..' or a control character aren't "
                "supported. Write the path without it.",
                argument="path",
            )
    return f"{canonical}://{bucket}", key


def check_bucket_options(root: str, options: dict[str, str]) -> None:
    """Remove the options that repeat the bucket and the account of the path.

    Args:
        root: root as returned by `split_object_uri`.
        options: options of the store by lower-case name; changed in place.

    Raises:
        ArgumentError: an option differs from the path.
    """
    scheme, _, rest = root.partition("://")
    bucket, _, host = rest.partition("@")
    account = host.partition(".")[0]
    expected_values = dict.fromkeys(_BUCKET_OPTIONS.get(scheme, _BUCKET_OPTIONS["az"]), bucket)
    if account:
        expected_values |= dict.fromkeys(_ACCOUNT_OPTIONS, account)
    for name, expected in expected_values.items():
        value = options.pop(name, None)
        if value is not None and value != expected:
            raise ArgumentError(
                f"storage option {name!r}: the value is {value!r}, but the path is in "
                f"{expected!r} ({root}). Remove the option, or use the options of that store.",
                argument="storage_options",
            )


def _without_credentials(path: str) -> str:
    """A path for a message, without parts that may be credentials."""
    if "@" not in path or path.lower().startswith(("abfs://", "abfss://")):
        return path
    return f"{path.partition(':')[0]}://***@{path.rpartition('@')[2]}"
