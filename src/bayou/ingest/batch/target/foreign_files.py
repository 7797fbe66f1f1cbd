"""Finds files of others in the folder of a table that doesn't exist yet.

The value of a record or the name of a topic can be the name of any folder, such as one with raw
files beside the tables. If a table were created there, its VACUUM would delete these files.
"""

from __future__ import annotations

import posixpath
import re

from bayou.errors import PipelineError
from bayou.ingest.config import Topic
from bayou.kernel.engine import Engine
from bayou.protocol.properties import TableProperties, normalize

_OWN = r"part-\d{5}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-c000"
"""Data files of a batch, which may have been interrupted before it created the table."""

_LOG = "_delta_log"


def foreign_file(topic: Topic, engine: Engine) -> str | None:
    """Return a file in the folder of a new table that the pipeline hasn't written, or None.

    Names that begin with `_` or `.` aren't considered, as in a VACUUM, except for the log of a
    table inside the folder.
    """
    root = engine.files.resolve_path(topic.table_path).rstrip("/")
    properties = normalize(topic.config.destination.delta_config.table_properties)
    codec = TableProperties(properties).compression_codec
    extension = r"\.zstd" if codec == "zstd" else r"(\.\w+)?"
    own = re.compile(rf"{_OWN}{extension}\.parquet\Z")
    logs: list[str] = []

    def should_skip(folder: str) -> bool:
        name = posixpath.basename(folder.rstrip("/"))
        if name == _LOG and posixpath.dirname(folder.rstrip("/")) != root:
            logs.append(folder)
        return name.startswith(("_", "."))

    with engine.files.list_tree(root, should_skip) as files:
        for file in files:
            name = posixpath.basename(file.path)
            if name and not name.startswith(("_", ".")) and not own.match(name):
                return file.path
    return logs[0] if logs else None


def check_new_folder(topic: Topic, engine: Engine, version: int | None) -> None:
    """Check that the folder of a new table has no files of others, if a topic's name chooses it.

    Args:
        version: the version of the topic's table; None if there is no table.

    Raises:
        PipelineError: the folder has files of others.
    """
    if version is not None or not topic.from_pattern or topic.shares_table:
        return
    file = foreign_file(topic, engine)
    if file is not None:
        raise PipelineError(
            f"topic {topic.key!r}: {topic.table_path} isn't a table, but has other files, such as "
            f"{file}, which VACUUM of a table would delete. Move the files away, or set another "
            "table-path.",
            topic=topic.key,
        )
