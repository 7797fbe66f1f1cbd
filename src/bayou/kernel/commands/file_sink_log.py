"""The log of Structured Streaming's file sink, `_spark_metadata`: which files of a folder count.

A batch has a file of its number: a version (`v1`), then a line of JSON for each file. Every so many
batches one is called `<number>.compact` and holds all that came before.
"""

from __future__ import annotations

import re

import msgspec

from bayou.errors import CorruptTableError, FileMissingError, SchemaError
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.protocol.file_names import decode_data_file_uri
from bayou.protocol.json_decoding import JsonDecoder

__all__ = ["sink_files"]

_FOLDER = "_spark_metadata"
_VERSION = b"v1"
_BATCH = re.compile(r"(?P<number>[0-9]+)(?P<compact>\.compact)?")


class _SinkFile(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    size: int
    modification_time: int
    action: str = "add"


def sink_files(engine: Engine, folder: str) -> list[FileStatus] | None:
    """The files that a streaming query committed to a folder, None where it has no such log.

    Raises:
        CorruptTableError: the log can't be read, or lacks a batch.
        SchemaError: it names a file that isn't below the folder.
    """
    found: dict[str, _SinkFile] = {}
    batches = _batches(engine, folder)
    if not batches:
        return None
    contents = engine.files.read_files([ByteRange(path=path) for path in batches])
    for path, content in zip(batches, contents, strict=True):
        for file in _lines(folder, path, bytes(content)):
            if file.action == "delete":
                found.pop(file.path, None)
            else:
                found[file.path] = file
    return [_status(engine, folder, file) for file in found.values()]


def _batches(engine: Engine, folder: str) -> list[str]:
    """Files of the log from its newest compact batch on, oldest first."""
    plain: dict[int, str] = {}
    compact: dict[int, str] = {}
    try:
        with engine.files.list_from(f"{folder}/{_FOLDER}/") as files:
            for status in files:
                match = _BATCH.fullmatch(status.path.rpartition("/")[2])
                if match is not None:
                    of_kind = compact if match["compact"] else plain
                    of_kind[int(match["number"])] = status.path
    except FileMissingError:
        return []
    first = max(compact, default=-1)
    behind = sorted(number for number in plain if number > first)
    for expected, number in enumerate(behind, first + 1):
        if number != expected:
            raise CorruptTableError(
                f"{folder} was written by Structured Streaming, and its log {_FOLDER} lacks batch "
                f"{expected}: nobody can say which files count. Restore it, or move the folder "
                f"{_FOLDER} away if every file counts.",
                table=folder,
                file=f"{folder}/{_FOLDER}/{expected}",
            )
    return [*([compact[first]] if compact else []), *(plain[number] for number in behind)]


def _lines(folder: str, path: str, content: bytes) -> list[_SinkFile]:
    version, _, rest = content.partition(b"\n")
    if version.strip() != _VERSION:
        raise _unreadable(folder, path, f"it isn't of version {_VERSION.decode()}")
    try:
        return [_DECODER.decode(line) for line in rest.splitlines() if line.strip()]
    except msgspec.MsgspecError as error:
        raise _unreadable(folder, path, str(error)) from error


def _status(engine: Engine, folder: str, file: _SinkFile) -> FileStatus:
    path = engine.files.resolve_path(decode_data_file_uri(file.path))
    if not path.startswith(f"{folder}/"):
        raise SchemaError(
            f"{folder} was written by Structured Streaming, and its log {_FOLDER} names {path}, "
            f"which isn't below it: was the folder moved? Move the folder {_FOLDER} away if every "
            "file counts.",
            table=folder,
        )
    return FileStatus(path=path, size=file.size, modification_time=file.modification_time)


def _unreadable(folder: str, path: str, reason: str) -> CorruptTableError:
    return CorruptTableError(
        f"{folder} was written by Structured Streaming, and {path} of its log can't be read: "
        f"{reason}. Restore it, or move the folder {_FOLDER} away if every file counts.",
        table=folder,
        file=path,
    )


_DECODER = JsonDecoder(_SinkFile)
