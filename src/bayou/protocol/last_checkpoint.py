"""The checkpoint hint `_last_checkpoint` (PROTOCOL.md, Last Checkpoint File Schema).

The file may be missing, outdated or corrupt; the log is then listed from its beginning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from bayou.json_decoding import decode_json


class LastCheckpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields of the checkpoint hint; `checkpointSchema` and unknown fields are ignored.

    Attributes:
        size: number of actions in the checkpoint.
        parts: number of files of a multi-part checkpoint; None if the checkpoint is a single file.
    """

    version: int
    size: int
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    tags: dict[str, str | None] | None = None


def parse(data: bytes) -> LastCheckpoint | None:
    """Parse `_last_checkpoint`; return None if it is corrupt or its checksum doesn't match."""
    try:
        hint = decode_json(data, LastCheckpoint)
        expected = decode_json(data, _Checksum).checksum
        if expected is not None and expected != checksum(data):
            return None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None
    return hint if hint.version >= 0 else None


def encode(hint: LastCheckpoint) -> bytes:
    """Encode `_last_checkpoint`, including the field `checksum`."""
    body: dict[str, Any] = msgspec.to_builtins(hint)
    body["checksum"] = checksum(msgspec.json.encode(body))
    return msgspec.json.encode(body)


def checksum(data: bytes | str) -> str:
    """Return the MD5 of `canonical_json`, in hex (PROTOCOL.md, JSON checksum)."""
    canonical = canonical_json(data).encode("utf-8")
    return hashlib.md5(canonical, usedforsecurity=False).hexdigest()


def canonical_json(data: bytes | str) -> str:
    """Return the canonical form of a JSON object, without its top-level field `checksum`.

    Numbers stay as they are written in `data`.
    """
    members = decode_json(data, dict[str, msgspec.Raw])
    members.pop("checksum", None)
    pairs = [pair for key, raw in members.items() for pair in _leaves(_quote(key), raw)]
    pairs.sort(key=lambda pair: pair[0].encode("utf-8"))
    return ",".join(f"{path}={value}" for path, value in pairs)


class _Checksum(msgspec.Struct):
    checksum: str | None = None


def _leaves(path: str, raw: msgspec.Raw) -> Iterator[tuple[str, str]]:
    value_json = bytes(raw).strip()
    match value_json[:1]:
        case b"{":
            for key, value in decode_json(value_json, dict[str, msgspec.Raw]).items():
                yield from _leaves(f"{path}+{_quote(key)}", value)
        case b"[":
            for index, value in enumerate(decode_json(value_json, list[msgspec.Raw])):
                yield from _leaves(f"{path}+{index}", value)
        case b'"':
            yield path, _quote(decode_json(value_json, str))
        case _:
            yield path, value_json.decode("ascii")


_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


def _quote(string: str) -> str:
    escaped = "".join(
        chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in string.encode("utf-8")
    )
    return f'"{escaped}"'
