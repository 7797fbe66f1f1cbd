"""Tells the write tasks of a query which table versions the query's read tasks have read.

Spark doesn't tell a Python data source which tables the rows of a write come from. Therefore a read
task writes a small file to a local directory of its executor. The file's name contains the query's
execution id. The write tasks of the query on the same executor read the file.

Files on other executors can't be read, but they are rarely needed. A query without a shuffle reads
and writes in the same task. A query with a shuffle usually has read tasks and write tasks on each
executor.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import suppress
from pathlib import Path

import msgspec
from pyspark import TaskContext

_FOLDER = "bayou-versions-read"
_MAX_FILES = 1_000
"""Maximum number of files in the local directory; the oldest files are deleted.

Spark deletes all of these files when it stops.
"""


def report_version_read(table: str, version: int) -> None:
    """Record that the current task reads a table version. Does nothing outside of a query."""
    folder = _query_folder()
    if folder is None:
        return
    content = msgspec.json.encode((table, version))
    file = folder.with_name(f"{folder.name}-{hashlib.sha256(content).hexdigest()[:32]}")
    with suppress(OSError):  # without the file, an overwrite is based on the latest version
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            _delete_old_files(file.parent)
            new = file.with_name(f".{uuid.uuid4()}")
            new.write_bytes(content)
            new.replace(file)


def versions_read(table: str) -> frozenset[int]:
    """Return the versions of a table that tasks of the current query have read on this executor."""
    folder = _query_folder()
    versions: set[int] = set()
    if folder is not None:
        for file in folder.parent.glob(f"{folder.name}-*"):
            with suppress(OSError, msgspec.DecodeError):
                path, version = msgspec.json.decode(file.read_bytes(), type=tuple[str, int])
                if path == table:
                    versions.add(version)
    return frozenset(versions)


def _query_folder() -> Path | None:
    """Return the common path prefix of the files that record the current query's table versions.

    The result is None if no query runs in this process.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("spark.sql.execution.id")
    local = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return Path(local, _FOLDER, query) if local and query else None


def _delete_old_files(folder: Path) -> None:
    files = list(folder.iterdir())
    if len(files) > _MAX_FILES:
        with suppress(OSError):  # another task has deleted a file
            for file in sorted(files, key=lambda f: f.stat().st_mtime)[: _MAX_FILES // 2]:
                file.unlink(missing_ok=True)
