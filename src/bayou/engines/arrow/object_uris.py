"""URIs of object stores: which paths are one, their bucket and their key.

A path that was meant as a URI never becomes a local folder, an object has one name, and no message
shows a path with credentials in it.
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
"""What a path's scheme is called here; Hadoop's names are taken for what they mean."""

_REMOTE = frozenset(
    {
        *_CANONICAL,
        *("adl", "cos", "dbfs", "hdfs", "http", "https", "memory", "oci", "oss", "s3n"),
        *("viewfs", "wasb", "wasbs", "webhdfs"),
    }
)
"""Schemes of URIs that nobody means as the name of a local folder."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//)?")
_BUCKET = re.compile(r"[^\s/?#@:%\\\[\]\x00-\x1f\x7f]+")
_CONTAINER = re.compile(rf"{_BUCKET.pattern}(?:@{_BUCKET.pattern})?")
"""Of Azure: a container, and where the account is named the host of its endpoint."""

_ODD_KEY = re.compile(r"//|^/|(?:^|/)\.{1,2}/|[\x00-\x1f\x7f]")
_REFUSED_KEY = re.compile(r"(?:^|/)\.{1,2}/|[\x00-\x1f\x7f]")
"""A dot at the end may be the beginning of a name, from which names are listed."""

_BUCKET_OPTIONS = {
    "s3": ("aws_bucket", "aws_bucket_name", "bucket", "bucket_name"),
    "gs": ("google_bucket", "google_bucket_name", "bucket", "bucket_name"),
    "az": ("azure_container_name", "container_name"),
}
_ACCOUNT_OPTIONS = ("azure_storage_account_name", "account_name")


def is_object_store(scheme: str) -> bool:
    """Whether paths of this scheme are objects of a store known here."""
    return scheme.lower() in _CANONICAL


def is_local_path(path: str) -> bool:
    """Whether a path is of the local disk.

    Raises:
        ArgumentError: it is a URI of no store known here, or of one with a slash missing.
    """
    if path.startswith("/"):
        return True
    found = _SCHEME.match(path)
    if found is None or found[1] == "file":
        return True
    scheme = found[1].lower()
    if found[2] and is_object_store(scheme):
        return False
    if found[2]:
        raise ArgumentError(
            f"can't open {_shown(path)}: no engine for the scheme {scheme!r}; use a local path or "
            "one of file://, s3://, s3a://, gs://, az://, abfs://, abfss://",
            argument="path",
        )
    if scheme in _REMOTE:
        raise ArgumentError(
            f"can't open {_shown(path)}: a URI has two slashes behind its scheme, such as "
            f"{scheme}://bucket/key. Write a local folder of this name as ./{scheme}:...",
            argument="path",
        )
    return True


def split_object_uri(path: str) -> tuple[str, str]:
    """Root (`s3://bucket`) and key of a URI; slashes in the key are single, as Hadoop has them.

    Raises:
        ArgumentError: it is no URI of a store known here, names no bucket, holds credentials, or
            its key has a part `.` or `..` or a control character.
    """
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    canonical = _CANONICAL.get(scheme.lower())
    if canonical is None or not bucket:
        raise ArgumentError(
            f"{_shown(path)!r} is no path of an object store; it must be like s3://bucket/key",
            argument="path",
        )
    form = _CONTAINER if canonical in ("az", "abfs", "abfss") else _BUCKET
    if not form.fullmatch(bucket):
        raise ArgumentError(
            f"{_shown(path)!r}: what follows {scheme}:// isn't the name of a bucket. Write "
            "credentials and the address of a store as storage_options, not into a path.",
            argument="path",
        )
    if _ODD_KEY.search(key):
        key = re.sub("/{2,}", "/", key).lstrip("/")
        if _REFUSED_KEY.search(key):
            raise ArgumentError(
                f"{path!r}: objects whose key has a part '.' or '..' or a control character can't "
                "be reached. Write the path without it.",
                argument="path",
            )
    return f"{canonical}://{bucket}", key


def check_bucket_options(root: str, options: dict[str, str]) -> None:
    """Take out options that name the bucket and the account again: the path names them.

    Args:
        root: as `split_object_uri` returns it.
        options: lower-case names of the store's own options; changed.

    Raises:
        ArgumentError: an option names another one than the path.
    """
    scheme, _, rest = root.partition("://")
    bucket, _, host = rest.partition("@")
    account = host.partition(".")[0]
    named = dict.fromkeys(_BUCKET_OPTIONS.get(scheme, _BUCKET_OPTIONS["az"]), bucket)
    if account:
        named |= dict.fromkeys(_ACCOUNT_OPTIONS, account)
    for name, expected in named.items():
        given = options.pop(name, None)
        if given is not None and given != expected:
            raise ArgumentError(
                f"storage option {name!r} is {given!r} but the path lies in {expected!r} ({root}). "
                "Leave the option out, or use options of that store.",
                argument="storage_options",
            )


def _shown(path: str) -> str:
    """A path for a message: without what may be credentials."""
    if "@" not in path or path.lower().startswith(("abfs://", "abfss://")):
        return path
    return f"{path.partition(':')[0]}://***@{path.rpartition('@')[2]}"
