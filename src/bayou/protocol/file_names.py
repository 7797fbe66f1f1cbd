"""Names of log files, and the encodings of data file paths.

See PROTOCOL.md, File Types, Checkpoint Naming Scheme, Add File and Remove File. Partition values in
folder names are escaped as in Hive. `add.path` is a percent-encoded URI.

Writers percent-encode different characters: `deltalake` and Delta Kernel in Rust encode non-ASCII
letters, delta-spark doesn't. The `add` and the `remove` of a file can therefore have different
strings for the same path. Paths are compared in their decoded form (`canonical_path`). A column of
encoded paths, such as in a checkpoint, is searched for all encodings of a path
(`equivalent_paths`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_sidecars"
CHANGE_DATA_DIRECTORY = "_change_data"
STAGED_COMMIT_DIRECTORY = "_staged_commits"
LAST_CHECKPOINT = "_last_checkpoint"
HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""String for NULL in the names of partition folders.

Readers don't use this string, because they take partition values from the log.
"""
MAX_FOLDER_NAME_BYTES = 255
"""Maximum length of a folder's name in bytes, which is the limit of most file systems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFile:
    """`<version>.json`, a Delta log entry."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicCheckpoint:
    """`<version>.checkpoint.parquet`, of the V1 or V2 spec."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiPartCheckpoint:
    """`<version>.checkpoint.<part>.<parts>.parquet`; `part` counts from 1."""

    version: int
    part: int
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UuidCheckpoint:
    """`<version>.checkpoint.<uuid>.{json,parquet}`, of the V2 spec."""

    version: int
    uuid: str
    format: Literal["json", "parquet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedCommits:
    """`<version>.<end_version>.compacted.json`: the commits `version..end_version`, reconciled."""

    version: int
    end_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumFile:
    """`<version>.crc`, the version checksum."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCommit:
    """`<version>.<uuid>.json` of a catalog-managed table; valid only if the catalog ratifies it."""

    version: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpointFile:
    """`_last_checkpoint`, the checkpoint hint."""


LogFile: TypeAlias = (
    CommitFile
    | ClassicCheckpoint
    | MultiPartCheckpoint
    | UuidCheckpoint
    | CompactedCommits
    | ChecksumFile
    | StagedCommit
    | LastCheckpointFile
)

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKSUM = re.compile(r"([0-9]{20})\.crc")
_CLASSIC = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_MULTI_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_UUID_NAMED = re.compile(rf"([0-9]{{20}})\.checkpoint\.({_UUID})\.(json|parquet)")
_COMPACTED = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")
_STAGED = re.compile(rf"([0-9]{{20}})\.({_UUID})\.json")


def parse_log_file(name: str) -> LogFile | None:
    """Parse the name of a file in the log folder; None for an unknown kind of file."""
    if match := _COMMIT.fullmatch(name):
        return CommitFile(version=int(match[1]))
    if match := _CHECKSUM.fullmatch(name):
        return ChecksumFile(version=int(match[1]))
    if match := _CLASSIC.fullmatch(name):
        return ClassicCheckpoint(version=int(match[1]))
    if match := _MULTI_PART.fullmatch(name):
        part, parts = int(match[2]), int(match[3])
        if 1 <= part <= parts:
            return MultiPartCheckpoint(version=int(match[1]), part=part, parts=parts)
        return None
    if match := _UUID_NAMED.fullmatch(name):
        return UuidCheckpoint(
            version=int(match[1]),
            uuid=match[2],
            format="json" if match[3] == "json" else "parquet",
        )
    if match := _COMPACTED.fullmatch(name):
        start, end = int(match[1]), int(match[2])
        return CompactedCommits(version=start, end_version=end) if start < end else None
    if match := _STAGED.fullmatch(name):
        return StagedCommit(version=int(match[1]), uuid=match[2])
    if name == LAST_CHECKPOINT:
        return LastCheckpointFile()
    return None


def commit_file_name(version: int) -> str:
    """Return a name such as `00000000000000000012.json`."""
    return f"{version:020d}.json"


def checksum_file_name(version: int) -> str:
    """Return a name such as `00000000000000000012.crc`."""
    return f"{version:020d}.crc"


def compacted_file_name(version: int, end_version: int) -> str:
    """Return a name such as `00000000000000000004.00000000000000000006.compacted.json`."""
    return f"{version:020d}.{end_version:020d}.compacted.json"


def checkpoint_file_name(version: int, unique: str | None = None) -> str:
    """Return `<version>.checkpoint.parquet`, or `<version>.checkpoint.<unique>.parquet`.

    Args:
        unique: UUID of the checkpoint; None for a classic name.
    """
    middle = "" if unique is None else f".{unique}"
    return f"{version:020d}.checkpoint{middle}.parquet"


def multipart_checkpoint_file_name(version: int, part: int, parts: int) -> str:
    """Return `<version>.checkpoint.<part>.<parts>.parquet`; `part` counts from 1."""
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def list_prefix(version: int) -> str:
    """Return the file name from which to list the log files of `version` and later versions.

    The name sorts before the version's log files, and after the log files of earlier versions.
    """
    return f"{version:020d}"


# Characters that java.net.URI, and therefore delta-spark, doesn't escape in a path (RFC 2396).
_URI_SAFE = re.compile(r"[A-Za-z0-9_\-!.~'()*,;:$&+=@/]*")
_URI_ESCAPED = re.compile(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/]")
_ASCII_ESCAPED = re.compile(r"(?![A-Za-z0-9_\-!.~'()*,;:$&+=@/])[\x00-\x7f\ud800-\udfff]")
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SCHEME_AND_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*")


def data_file_path_to_uri(path: str) -> str:
    """Percent-encode a decoded path for `add.path`.

    Non-ASCII letters are encoded, as RFC 2396 requires. `deltalake` also encodes these letters in
    `add.path` and `remove.path`; delta-spark doesn't encode them.

    Args:
        path: relative to the table, or absolute.
    """
    prefix = ""
    if match := _SCHEME_AND_AUTHORITY.match(path):
        prefix, path = match[0], path[match.end() :]
    if not _URI_SAFE.fullmatch(path):
        path = _URI_ESCAPED.sub(_escape_uri_character, path)
    if not prefix and ":" in path:
        # With a colon, the first segment of a relative path would be read as a scheme.
        first, slash, rest = path.partition("/")
        path = first.replace(":", "%3A") + slash + rest
    return prefix + path


def absolute_data_file_uri(path: str) -> str:
    """Percent-encode a decoded absolute path; add `file:` to a path without a scheme.

    Non-ASCII letters aren't encoded, because delta-spark matches rows to files by paths in which
    these letters aren't encoded.
    """
    prefix = "file:"
    if match := _SCHEME_AND_AUTHORITY.match(path):
        prefix, path = match[0], path[match.end() :]
    return prefix + _ASCII_ESCAPED.sub(_escape_uri_character, path)


def decode_data_file_uri(uri: str) -> str:
    """Percent-decode the path of an `add`, `remove` or `cdc` action once."""
    return unquote(uri, errors="surrogateescape") if "%" in uri else uri


def is_absolute_uri(uri: str) -> bool:
    """Whether a path has a scheme or begins with a slash."""
    return uri.startswith("/") or _ABSOLUTE_URI.match(uri) is not None


_HIVE_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")


def escape_partition_value(value: str) -> str:
    """Escape a column name or value for a partition's folder name, as Hive does."""
    return _HIVE_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", value)


def partition_directory(partition_columns: Sequence[str], values: Mapping[str, str | None]) -> str:
    """Return the folder of a partition, such as `a=1/b=__HIVE_DEFAULT_PARTITION__`.

    Names and values are escaped as in Hive. The result isn't percent-encoded as a URI.
    """
    return "/".join(
        f"{escape_partition_value(name)}="
        f"{escape_partition_value(values[name] or '') or HIVE_DEFAULT_PARTITION}"
        for name in partition_columns
    )


def _escape_uri_character(match: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "surrogateescape"))


def canonical_path(uri: str) -> str:
    """Return the canonical form of a data file's path: all encodings of a path have the same form.

    The path is percent-decoded, and `file:///` becomes `file:/`. A relative path isn't made
    absolute, and no scheme is added. The result is only for comparisons.
    """
    if "%" not in uri and ":" not in uri and not uri.startswith("/"):
        return uri
    if is_absolute_uri(uri):
        prefix, path = _split(uri)
        return _as_utf8(prefix + decode_data_file_uri(path))
    path = decode_data_file_uri(uri)
    return _as_utf8(f"./{path}" if is_absolute_uri(path) else path)


def _as_utf8(path: str) -> str:
    """Return a decoded path as a string that can be encoded as UTF-8.

    If the path has bytes that aren't UTF-8, the result is two NUL characters, followed by the whole
    path in percent-encoded form.
    """
    if path.isascii():
        return path
    try:
        path.encode()
    except UnicodeEncodeError:
        return "\0\0" + quote(path, safe="", errors="surrogateescape")
    return path


def equivalent_paths(uri: str) -> tuple[str, ...]:
    """Return all URIs that writers use for the path of `uri`; the first one is `uri` itself.

    Writers differ in the characters that they encode, in the case of hexadecimal digits, and in the
    prefix of local URIs (`file:/` or `file:///`).
    """
    if _NEVER_ESCAPED.fullmatch(uri):
        return (uri,)
    canonical = canonical_path(uri)
    absolute = is_absolute_uri(uri)
    prefix, path = _split(uri) if absolute else ("", uri)
    encodings = _encodings(decode_data_file_uri(path))
    if absolute:
        prefixes = _LOCAL_PREFIXES if prefix == _LOCAL else (prefix,)
        candidates = [p + encoded for encoded in encodings for p in prefixes]
    else:
        candidates = [uri for encoded in encodings for uri in (encoded, _without_scheme(encoded))]
    return tuple(dict.fromkeys([uri, *(c for c in candidates if canonical_path(c) == canonical)]))


def hadoop_encoded_path(uri: str) -> str:
    """Encode a path as Hadoop's `Path` does; delta-spark sorts files by paths in this encoding."""
    if _NEVER_ESCAPED.fullmatch(uri):
        return uri
    prefix, path = _split(uri) if is_absolute_uri(uri) else ("", uri)
    return prefix + _HADOOP.sub(_escape, decode_data_file_uri(path))


_LOCAL = "file:"
_LOCAL_PREFIXES = (_LOCAL, "file://")

_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_\-.=][A-Za-z0-9_\-.=/]*")
"""Regular expression that matches relative paths with only characters that no writer encodes."""

_LOCAL_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_URI_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?")


def _split(uri: str) -> tuple[str, str]:
    if match := _LOCAL_FILE.match(uri):
        return _LOCAL, uri[match.end() :]
    match = _URI_ROOT.match(uri)
    return ("", uri) if match is None else (match[0], uri[match.end() :])


def _without_scheme(path: str) -> str:
    """Percent-encode the colons in the first segment of a relative path.

    With the colon, a path such as `a:b/c` would be a URI with the scheme `a`.
    """
    first, slash, rest = path.partition("/")
    return first.replace(":", "%3A") + slash + rest


def _encodings(path: str) -> Iterator[str]:
    for escaped in (_HADOOP, _BAYOU, _DELTALAKE, _RESERVED):
        encoded = escaped.sub(_escape, path)
        yield encoded
        yield _ESCAPE.sub(_lower, encoded)
    if not _SURROGATE.search(path):  # a lone surrogate stands for a byte that isn't UTF-8
        yield path


# Characters that are escaped. RFC 2396 allows A-Z a-z 0-9 _-!.~'()*,;:$&+=@/ in a path.
_HADOOP = re.compile(
    r"(?![A-Za-z0-9_\-!.~'()*,;:$&+=@/])[\x00-\u00a0]"
    r"|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]"
)
# The Rust kernel escapes the same characters as Bayou.
_BAYOU = re.compile(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/]")
_DELTALAKE = re.compile(r"[^A-Za-z0-9_\-!.~'(),;:$&+=@/]")
_RESERVED = re.compile(r"[^A-Za-z0-9_\-.~=/]")

_ESCAPE = re.compile("%[0-9A-F]{2}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "surrogateescape"))


def _lower(match: re.Match[str]) -> str:
    return match[0].lower()
