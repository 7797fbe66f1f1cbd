"""Which paths in a log name the same data file (PROTOCOL.md, Add File and Remove File).

A path is a URI, and writers don't agree on what to percent-encode in one: delta-spark leaves
letters beyond ASCII as they are, `deltalake` and Delta's Rust kernel escape them, so that a remove
by one doesn't carry the text of an add by the other. Files are compared by their decoded paths
(`canonical_path`). Where only texts can be compared, as in the columns of a checkpoint,
`spellings` gives those that writers produce.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayou.protocol.file_names import decode_data_file_uri, is_absolute_uri

__all__ = ["canonical_path", "hadoop_spelling", "spellings"]


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
_SCHEME_AND_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?")


def _split(uri: str) -> tuple[str, str]:
    """What stands before an absolute URI's path, and the path."""
    if match := _LOCAL_FILE.match(uri):
        return _LOCAL, uri[match.end() :]
    match = _SCHEME_AND_AUTHORITY.match(uri)
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
