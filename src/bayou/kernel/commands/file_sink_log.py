"""The log of Structured Streaming's file sink (`_spark_metadata`), which lists committed files.

The log has one file for each micro-batch, and the file's name is the batch number. The file
consists of a version line (`v1`) and one JSON line for each data file of the batch. A file
`<number>.compact` also lists the data files of all earlier batches.
"""

from __future__ import annotations

import re

import msgspec

from bayou.errors import CorruptTableError, FileMissingError, SchemaError
from bayou.json_decoding import JsonDecoder
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.engine.file_system import check_length
from bayou.protocol.file_names import decode_data_file_uri

SINK_LOG_DIRECTORY = "_spark_metadata"
_VERSION = b"v1"
_BATCH = re.compile(r"(?P<number>[0-9]+)(?P<compact>\.compact)?")


class _SinkFile(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    size: int
    modification_time: int
    action: str = "add"


def sink_files(engine: Engine, folder: str) -> list[FileStatus] | None:
    """Return the files that a folder's sink log lists; None if the folder has no sink log."""
    live: dict[str, _SinkFile] = {}
    batches = _batches(engine, folder)
    if not batches:
        return None
    contents = engine.files.read_files([ByteRange(path=batch.path) for batch in batches])
    for batch, content in zip(batches, contents, strict=True):
        check_length(batch, len(content))
        for file in _lines(folder, batch.path, bytes(content)):
            if file.action == "delete":
                live.pop(file.path, None)
            else:
                live[file.path] = file
    return [_status(engine, folder, file) for file in live.values()]


def _batches(engine: Engine, folder: str) -> list[FileStatus]:
    """Return the log files to read, oldest first: the newest compact file and all later batches."""
    plain: dict[int, FileStatus] = {}
    compact: dict[int, FileStatus] = {}
    try:
        with engine.files.list_from(f"{folder}/{SINK_LOG_DIRECTORY}/") as files:
            for status in files:
                match = _BATCH.fullmatch(status.path.rpartition("/")[2])
                if match is not None:
                    batches = compact if match["compact"] else plain
                    batches[int(match["number"])] = status
    except FileMissingError:
        return []
    first = max(compact, default=-1)
    later = sorted(number for number in plain if number > first)
    for expected, number in enumerate(later, first + 1):
        if number != expected:
            raise CorruptTableError(
                f"{folder}: batch {expected} is missing from the log of Structured Streaming "
                f"({SINK_LOG_DIRECTORY}), so the committed files are unknown. Restore the batch. "
                "To convert all Parquet files in the folder instead, move "
                f"{SINK_LOG_DIRECTORY} out of the folder.",
                table=folder,
                file=f"{folder}/{SINK_LOG_DIRECTORY}/{expected}",
            )
    return [*([compact[first]] if compact else []), *(plain[number] for number in later)]


def _lines(folder: str, path: str, content: bytes) -> list[_SinkFile]:
    version, _, rest = content.partition(b"\n")
    if version.strip() != _VERSION:
        raise _unreadable(folder, path, f"its version isn't {_VERSION.decode()}")
    try:
        return [_DECODER.decode(line) for line in rest.splitlines() if line.strip()]
    except msgspec.MsgspecError as error:
        raise _unreadable(folder, path, str(error)) from error


def _status(engine: Engine, folder: str, file: _SinkFile) -> FileStatus:
    path = engine.files.resolve_path(decode_data_file_uri(file.path))
    if not path.startswith(f"{folder}/"):
        raise SchemaError(
            f"{folder}: the log of Structured Streaming ({SINK_LOG_DIRECTORY}) lists {path}, which "
            f"isn't in this folder. If the folder was moved, move {SINK_LOG_DIRECTORY} out of the "
            "folder. Then all its Parquet files are converted.",
            table=folder,
        )
    return FileStatus(path=path, size=file.size, modification_time=file.modification_time)


def _unreadable(folder: str, path: str, reason: str) -> CorruptTableError:
    return CorruptTableError(
        f"{folder}: {path} in the log of Structured Streaming can't be read: {reason}. Restore "
        "the file. To convert all Parquet files in the folder instead, move "
        f"{SINK_LOG_DIRECTORY} out of the folder.",
        table=folder,
        file=path,
    )


_DECODER = JsonDecoder(_SinkFile)
