"""Checks that the folder of a topic's table has no files of other programs or topics.

The path of a table can depend on the name of a topic or on a value of a record. It may then be the
path of any existing folder. If a table were created there, its VACUUM would delete the files in the
folder. If the folder has the table of another topic, the rows of both topics would be mixed.
"""

from __future__ import annotations

import posixpath
import re

from bayou.api import SnapshotHandle
from bayou.errors import PipelineError
from bayou.ingest.config import Topic
from bayou.ingest.offsets import recorded_topics
from bayou.kernel.engine import Engine
from bayou.protocol.properties import TableProperties, normalize

_OWN = r"part-\d{5}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-c000"
"""Regular expression that matches the beginning of the names of the pipeline's data files. An
interrupted batch may have left such files."""

_LOG = "_delta_log"


def foreign_file(topic: Topic, engine: Engine) -> str | None:
    """Return the path of a file of another program in the table's folder; None if there is none.

    Files and folders whose names begin with `_` or `.` are ignored, because VACUUM doesn't delete
    them. If the folder contains the folder of another table, the result may be the path of that
    table's log.
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


def check_folder(topic: Topic, engine: Engine, snapshot: SnapshotHandle | None) -> None:
    """Check that a table's folder has no files of other programs, and no table of other topics.

    Nothing is checked if the table's path doesn't depend on the topic's name. The path depends on
    the name if a pattern selects the topic and each topic has its own table.

    Args:
        snapshot: the latest snapshot of the topic's table; None if there is no table.

    Raises:
        PipelineError: the folder has files of other programs, or the table of another topic.
    """
    if not topic.from_pattern or topic.shares_table:
        return
    if snapshot is not None:
        others = recorded_topics(snapshot.transactions)
        if others and topic.config.kafka_topic not in others:
            raise PipelineError(
                f"topic {topic.key!r}: {topic.table_path} is the table of Kafka topic "
                f"{min(others)!r}. Set another table-path.",
                topic=topic.key,
            )
        return
    file = foreign_file(topic, engine)
    if file is not None:
        raise PipelineError(
            f"topic {topic.key!r}: {topic.table_path} isn't a Delta table, but contains files, "
            f"such as {file}. VACUUM would delete these files. Move the files to another folder, "
            "or set another table-path.",
            topic=topic.key,
        )
