"""Names of files in a table's folder (PROTOCOL.md, File Types and Checkpoint Naming Scheme).

Names of the log, and the two encodings of a data file's path: Hive's escaping of partition values
in folder names, and the percent-encoding of the URI that stands in `add.path`.

Which paths in a log name the same data file (PROTOCOL.md, Add File and Remove File).

A path is a URI, and writers don't agree on what to percent-encode in one: delta-spark leaves
letters beyond ASCII as they are, `deltalake` and Delta's Rust kernel escape them, so that a remove
by one doesn't carry the text of an add by the other. Files are compared by their decoded paths
(`canonical_path`). Where only texts can be compared, as in the columns of a checkpoint,
`spellings` gives those that writers produce.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import unquote

__all__ = [
    "CHANGE_DATA_DIRECTORY",
    "HIVE_DEFAULT_PARTITION",
    "LAST_CHECKPOINT",
    "LOG_DIRECTORY",
    "LONGEST_FOLDER_NAME",
    "SIDECAR_DIRECTORY",
    "STAGED_COMMIT_DIRECTORY",
    "ChecksumFile",
    "ClassicCheckpoint",
    "CommitFile",
    "CompactedCommits",
    "LastCheckpointFile",
    "LogFile",
    "MultiPartCheckpoint",
    "StagedCommit",
    "UuidCheckpoint",
    "absolute_data_file_uri",
    "canonical_path",
    "checkpoint_file_name",
    "checksum_file_name",
    "commit_file_name",
    "compacted_file_name",
    "data_file_path_to_uri",
    "decode_data_file_uri",
    "escape_partition_value",
    "hadoop_spelling",
    "is_absolute_uri",
    "list_prefix",
    "multipart_checkpoint_file_name",
    "parse_log_file",
    "partition_directory",
    "spellings",
]


LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_sidecars"
CHANGE_DATA_DIRECTORY = "_change_data"
STAGED_COMMIT_DIRECTORY = "_staged_commits"
LAST_CHECKPOINT = "_last_checkpoint"
HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Folder name of a NULL partition value; readers take the value from the log, never from here."""
LONGEST_FOLDER_NAME = 255
"""Bytes of one part of `partition_directory`; file systems take no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFile:
    """`<version>.json`, a Delta log entry."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicCheckpoint:
    """`<version>.checkpoint.parquet`; follows the V1 or the V2 spec."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiPartCheckpoint:
    """`<version>.checkpoint.<part>.<parts>.parquet`; `part` counts from 1."""

    version: int
    part: int
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UuidCheckpoint:
    """`<version>.checkpoint.<uuid>.{json,parquet}`; always the V2 spec."""

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
    """`<version>.<uuid>.json` of a catalog-managed table; it counts only if the catalog says so."""

    version: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpointFile:
    """`_last_checkpoint`, a hint."""


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
    """What a bare file name of the log folder says, None for a file of no known kind."""
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
    """`00000000000000000012.json`."""
    return f"{version:020d}.json"


def checksum_file_name(version: int) -> str:
    """`00000000000000000012.crc`."""
    return f"{version:020d}.crc"


def compacted_file_name(version: int, end_version: int) -> str:
    """`00000000000000000004.00000000000000000006.compacted.json`."""
    return f"{version:020d}.{end_version:020d}.compacted.json"


def checkpoint_file_name(version: int, unique: str | None = None) -> str:
    """`00000000000000000010.checkpoint.parquet`, or `...10.checkpoint.<unique>.parquet`."""
    middle = "" if unique is None else f".{unique}"
    return f"{version:020d}.checkpoint{middle}.parquet"


def multipart_checkpoint_file_name(version: int, part: int, parts: int) -> str:
    """`00000000000000000010.checkpoint.0000000001.0000000003.parquet`; `part` counts from 1."""
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def list_prefix(version: int) -> str:
    """The name from which a listing finds all files of the log from this version on."""
    return f"{version:020d}"


# RFC 2396 characters that need no escape in a path, as java.net.URI (so delta-spark) sees it.
_URI_SAFE = re.compile(r"[A-Za-z0-9_\-!.~'()*,;:$&+=@/]*")
_URI_ESCAPED = re.compile(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/]")
_ASCII_ESCAPED = re.compile(r"(?![A-Za-z0-9_\-!.~'()*,;:$&+=@/])[\x00-\x7f\ud800-\udfff]")
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SCHEME_AND_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*")


def data_file_path_to_uri(path: str) -> str:
    """Percent-encode a decoded path, relative to the table or absolute, for `add.path`.

    The escapes are those of delta-spark, and letters beyond ASCII are escaped too, as RFC 2396
    asks: `deltalake` writes its removes so, and they would miss an add that isn't. A percent sign
    is always escaped. `decode_data_file_uri` is the inverse.
    """
    prefix = ""
    if match := _SCHEME_AND_AUTHORITY.match(path):
        prefix, path = match[0], path[match.end() :]
    if not _URI_SAFE.fullmatch(path):
        path = _URI_ESCAPED.sub(_escape_uri_character, path)
    if not prefix and ":" in path:
        # A colon in the first segment of a relative path would make it a scheme.
        first, slash, rest = path.partition("/")
        path = first.replace(":", "%3A") + slash + rest
    return prefix + path


def absolute_data_file_uri(path: str) -> str:
    """The absolute URI of a decoded, fully qualified path; a local one's begins with `file:/`.

    Letters beyond ASCII stay as they are: delta-spark finds the rows of a file with an absolute
    path by the text that it would write itself.
    """
    prefix = "file:"
    if match := _SCHEME_AND_AUTHORITY.match(path):
        prefix, path = match[0], path[match.end() :]
    return prefix + _ASCII_ESCAPED.sub(_escape_uri_character, path)


def decode_data_file_uri(uri: str) -> str:
    """Percent-decode `add.path` (or a remove's or cdc's) exactly once."""
    return unquote(uri, errors="surrogateescape") if "%" in uri else uri


def is_absolute_uri(uri: str) -> bool:
    """Whether `add.path` is absolute: has a scheme, or begins with a slash."""
    return uri.startswith("/") or _ABSOLUTE_URI.match(uri) is not None


_HIVE_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")


def escape_partition_value(value: str) -> str:
    """Hive's escaping of a column name or value in a partition's folder name."""
    return _HIVE_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", value)


def partition_directory(partition_columns: Sequence[str], values: Mapping[str, str | None]) -> str:
    """Decoded folder of a partition, `a=1/b=__HIVE_DEFAULT_PARTITION__`; "" without columns.

    Args:
        partition_columns: names in the table's order.
        values: serialized values by name.
    """
    return "/".join(
        f"{escape_partition_value(name)}="
        f"{escape_partition_value(values[name] or '') or HIVE_DEFAULT_PARTITION}"
        for name in partition_columns
    )


def _escape_uri_character(match: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "surrogateescape"))


def canonical_path(uri: str) -> str:
    """What tells a data file from others: equal for all spellings of one file, else different.

    Decoded once; `file:///` is `file:/`. What stands before an absolute path is part of it: one
    without a scheme isn't that of any scheme, and none is the same as a relative path, wherever
    they lead.
    """
    if "%" not in uri and ":" not in uri and not uri.startswith("/"):
        return uri
    if is_absolute_uri(uri):
        prefix, path = _split(uri)
        return prefix + decode_data_file_uri(path)
    path = decode_data_file_uri(uri)
    return f"./{path}" if is_absolute_uri(path) else path


def spellings(uri: str) -> tuple[str, ...]:
    """Texts by which writers may name the file of a path, the one given first.

    They are: percent-encoded as by Hadoop's `Path` (delta-spark, Java's kernel), by Bayou, by
    `deltalake`, by Delta's Rust kernel, with everything escaped that RFC 3986 reserves, or not at
    all; with escapes in lower case too; `file:/` with one slash and with three.
    """
    if _SPELLED_ALIKE.fullmatch(uri):
        return (uri,)
    canonical = canonical_path(uri)
    absolute = is_absolute_uri(uri)
    prefix, path = _split(uri) if absolute else ("", uri)
    encoded = _encodings(decode_data_file_uri(path))
    if absolute:
        prefixes = _LOCAL_PREFIXES if prefix == _LOCAL else (prefix,)
        found = [p + text for text in encoded for p in prefixes]
    else:
        found = [spelled for text in encoded for spelled in (text, _without_scheme(text))]
    return tuple(dict.fromkeys([uri, *(s for s in found if canonical_path(s) == canonical)]))


def hadoop_spelling(uri: str) -> str:
    """The canonical path as Hadoop's `Path` spells it: what delta-spark orders files by."""
    if _SPELLED_ALIKE.fullmatch(uri):
        return uri
    prefix, path = _split(uri) if is_absolute_uri(uri) else ("", uri)
    return prefix + _HADOOP.sub(_escape, decode_data_file_uri(path))


_LOCAL = "file:"
_LOCAL_PREFIXES = (_LOCAL, "file://")

_SPELLED_ALIKE = re.compile(r"[A-Za-z0-9_\-.=][A-Za-z0-9_\-.=/]*")
"""Relative paths in which no writer escapes anything."""

_LOCAL_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_URI_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?")


def _split(uri: str) -> tuple[str, str]:
    """What stands before an absolute URI's path, and the path."""
    if match := _LOCAL_FILE.match(uri):
        return _LOCAL, uri[match.end() :]
    match = _URI_ROOT.match(uri)
    return ("", uri) if match is None else (match[0], uri[match.end() :])


def _without_scheme(text: str) -> str:
    """A colon in the first segment would make the segment a scheme."""
    first, slash, rest = text.partition("/")
    return first.replace(":", "%3A") + slash + rest


def _encodings(path: str) -> Iterator[str]:
    for escaped in (_HADOOP, _BAYOU, _DELTALAKE, _RUST_KERNEL, _RESERVED):
        text = escaped.sub(_escape, path)
        yield text
        yield _ESCAPE.sub(_lower, text)
    if not _SURROGATE.search(path):  # else it isn't text
        yield path


# Characters that are escaped. RFC 2396 leaves A-Z a-z 0-9 _-!.~'()*,;:$&+=@/ as they are in a path.
_HADOOP = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/\u00a1-\uffff\U00010000-\U0010ffff]"
    r"|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]"
)
_BAYOU = re.compile(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/]")
_DELTALAKE = re.compile(r"[^A-Za-z0-9_\-!.~'(),;:$&+=@/]")
_RUST_KERNEL = re.compile(r'[\x00-\x20"#%<>?\[\\\]^`{|}\x7f-\U0010ffff]')
_RESERVED = re.compile(r"[^A-Za-z0-9_\-.~=/]")

_ESCAPE = re.compile("%[0-9A-F]{2}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "surrogateescape"))


def _lower(match: re.Match[str]) -> str:
    return match[0].lower()
