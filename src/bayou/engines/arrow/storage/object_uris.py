"""Recognizes URIs of object stores and HDFS, and splits them into bucket and key.

A mistyped URI raises an error instead of being used as the path of a local folder. Error messages
don't contain the credentials in a URI.
"""

from __future__ import annotations

import re

from bayou.errors import ArgumentError

_CANONICAL = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "abfs",
    "abfss": "abfss",
    "hdfs": "hdfs",
}
"""The canonical scheme for each supported scheme. The aliases include schemes of Hadoop."""

_REMOTE = frozenset(
    {
        *_CANONICAL,
        *("adl", "cos", "dbfs", "http", "https", "memory", "oci", "oss", "s3n"),
        *("viewfs", "wasb", "wasbs", "webhdfs"),
    }
)
"""Schemes of URIs. A path that begins with one of them isn't a local path."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//)?")
_MISTYPED = re.compile(r"[^\w/]*([A-Za-z][A-Za-z0-9+.\-]*?)[^\w/]*//")
"""Regular expression that matches a mistyped URI: `s3//b/k`, `s3;//b/k`, ` s3://b/k`."""

_LEADING_NAME = re.compile(r"[^\w/]*[A-Za-z0-9+.\-]*")
_BUCKET = re.compile(r"[^\s/?#@:%\\\[\]\x00-\x1f\x7f]+")
_CONTAINER = re.compile(rf"{_BUCKET.pattern}(?:@{_BUCKET.pattern})?")
"""Regular expression that matches an Azure container, optionally followed by `@` and a host."""

_NAME_NODE = re.compile(rf"(?:{_BUCKET.pattern}(?::\d+)?)?")
"""Regular expression that matches the authority of an HDFS URI: a name node's host and port, or a
name service. The authority is empty for Hadoop's default file system."""

_ODD_KEY = re.compile(r"//|^/|(?:^|/)\.{1,2}/|[\x00-\x1f\x7f]")
_REFUSED_KEY = re.compile(r"(?:^|/)\.{1,2}/|[\x00-\x1f\x7f]")
"""Regular expression that matches invalid keys: keys with a folder `.` or `..`, or with a control
character.

The last name in a key may be `.` or `..`, because a key can also be the prefix of a listing."""

_FORMS = {"az": _CONTAINER, "abfs": _CONTAINER, "abfss": _CONTAINER, "hdfs": _NAME_NODE}

_BUCKET_OPTIONS = {
    "s3": ("aws_bucket", "aws_bucket_name", "bucket", "bucket_name"),
    "gs": ("google_bucket", "google_bucket_name", "bucket", "bucket_name"),
    "az": ("azure_container_name", "container_name"),
}
_ACCOUNT_OPTIONS = ("azure_storage_account_name", "account_name")


def is_hdfs(path: str) -> bool:
    """Whether a path is a URI of HDFS."""
    return path[: len("hdfs://")].lower() == "hdfs://"


def is_local_path(path: str) -> bool:
    """Whether a path is on the local disk.

    Raises:
        ArgumentError: the path's scheme isn't supported, or the path looks like a mistyped URI.
    """
    if path.startswith("/"):
        return True
    match = _SCHEME.match(path)
    if match is None:
        _check_local_name(path)
        return True
    scheme, rest = match[1].lower(), path[match.end() :]
    if match[1] == "file":
        return True
    if scheme in _CANONICAL:
        if match[2]:
            return False
        raise _mistyped(path, scheme)
    if scheme == "uc" and match[2]:
        raise ArgumentError(
            f"{path}: a name in Unity Catalog can't be used here. If the table is external, use "
            "its path. A managed table can be used only with bayou.table, bayou.write and the "
            "commands that take a table.",
            argument="path",
        )
    if match[2] or rest.startswith("/") or scheme in _REMOTE:
        raise ArgumentError(
            f"{_without_credentials(path)}: no engine for the scheme {match[1]!r}. Use a local "
            "path or one of file://, s3://, s3a://, gs://, az://, abfs://, abfss://, hdfs://. "
            f"For a local folder whose name begins with {match[1]}:, write ./{match[1]}:...",
            argument="path",
        )
    return True


def split_object_uri(path: str) -> tuple[str, str]:
    """Split a URI into root (`s3://bucket`) and key; repeated slashes in the key become one slash.

    The root of HDFS is its name node, `hdfs://host:8020`.
    """
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    canonical = _CANONICAL.get(scheme.lower())
    if canonical is None or not (bucket or canonical == "hdfs"):
        raise ArgumentError(
            f"{_without_credentials(path)!r}: not a path of an object store. Use one such as "
            "s3://bucket/key.",
            argument="path",
        )
    form = _FORMS.get(canonical, _BUCKET)
    if not form.fullmatch(bucket):
        raise ArgumentError(
            f"{_without_credentials(path)!r}: the part after {scheme}:// isn't the name of a "
            "bucket. If it contains credentials or an endpoint, pass these as storage_options "
            "instead.",
            argument="path",
        )
    if _ODD_KEY.search(key):
        key = re.sub("/{2,}", "/", key).lstrip("/")
        if _REFUSED_KEY.search(key):
            raise ArgumentError(
                f"{path!r}: the key contains a control character, or a segment '.' or '..'. "
                "Remove this character or segment.",
                argument="path",
            )
    return f"{canonical}://{bucket}", key


def _check_local_name(path: str) -> None:
    match = _MISTYPED.match(path)
    if match is not None and not path.startswith(".") and match[1].lower() in _REMOTE:
        raise _mistyped(path, match[1].lower())


def _mistyped(path: str, scheme: str) -> ArgumentError:
    return ArgumentError(
        f"{_without_credentials(path)}: the path looks like a mistyped URI. Write it as "
        f"{scheme}://bucket/key. If the path is a local folder, write "
        f"./{_without_credentials(path)}.",
        argument="path",
    )


def check_bucket_options(root: str, options: dict[str, str]) -> None:
    """Remove the options that set the bucket or account, which a URI already contains.

    Args:
        root: the root of the URI, such as `s3://bucket`.
        options: storage options with lower-case names; changed in place.

    Raises:
        ArgumentError: the bucket or account in an option differs from that in `root`.
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
                f"storage option {name!r}: the value is {value!r}, but the bucket or account in "
                f"the path is {expected!r} ({root}). Remove the option, or pass the options for "
                "this bucket or account.",
                argument="storage_options",
            )


def _without_credentials(path: str) -> str:
    """Return a path without credentials, for an error message."""
    if "@" not in path or path.lower().startswith(("abfs://", "abfss://")):
        return path
    scheme = _LEADING_NAME.match(path)
    return f"{scheme[0] if scheme else ''}://***@{path.rpartition('@')[2]}"
