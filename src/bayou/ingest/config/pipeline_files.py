"""Detects files of the pipeline, such as schema files, that VACUUM of a table would delete.

VACUUM deletes every file in a table's folder that the table doesn't use. It only ignores files and
folders whose names start with `_` or `.`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayou.errors import ConfigurationError
from bayou.ingest.config.document import Document, KeyPath

if TYPE_CHECKING:
    from bayou.ingest.config.configuration import Configuration


def files_in_tables(document: Document, configuration: Configuration) -> list[ConfigurationError]:
    """Return an error for each file or folder of the pipeline that a VACUUM would delete.

    Tables of topics that match a pattern are checked later with `file_in_table`.
    """
    paths = [(topic.key, topic.table_path) for topic in configuration.topics]
    paths += [(s.key, s.table_path) for s in configuration.patterns if s.config.shares_table]
    paths += [
        (topic.key, path)
        for topic in configuration.topics
        if topic.routes is not None
        for path in topic.routes.paths
    ]
    tables = [(key, _location(path)) for key, path in paths]
    return [
        document.error(
            f"{path} is inside the table of topic {key!r}, and VACUUM of this table would delete "
            "it; move it, or choose another table-path",
            at,
        )
        for at, path in _files(configuration)
        for key, table in tables
        if _is_vacuumed(_location(path), table)
    ]


def file_in_table(configuration: Configuration, table_path: str) -> str | None:
    """Return a file or folder of the pipeline that a VACUUM would delete; None if there is none.

    `table_path` is the path of the table that is vacuumed.
    """
    table = _location(table_path)
    files = (path for _, path in _files(configuration))
    return next((path for path in files if _is_vacuumed(_location(path), table)), None)


def _files(configuration: Configuration) -> Iterator[tuple[KeyPath, str]]:
    connector: KeyPath = ("connector",)
    yield (), os.path.realpath(configuration.file)
    yield (*connector, "state-path"), str(configuration.state_path)
    for topic in configuration.topics:
        source = configuration.json_path(topic)
        if source is not None:
            yield (*connector, "migration", "json-path", topic.key), source
    schema_files = {topic.section: topic.schema_file for topic in configuration.topics}
    schema_files |= {section.key: section.schema_file for section in configuration.patterns}
    for key, file in schema_files.items():
        if file is not None:
            yield (*connector, "topics", key, "schema-file"), str(file)


def _location(path: str) -> Sequence[str]:
    """Split a path into its scheme and the names of its folders and file.

    `s3a` becomes `s3`; the scheme of a local path is empty.
    """
    scheme, separator, rest = path.partition("://")
    if not separator:
        return ("", *Path(os.path.realpath(path)).parts)
    names = [name for name in rest.split("/") if name not in ("", ".")]
    return (scheme.replace("s3a", "s3"), *names)


def _is_vacuumed(path: Sequence[str], table: Sequence[str]) -> bool:
    below = path[len(table) :]
    inside = tuple(path[: len(table)]) == tuple(table) and bool(below)
    return inside and not any(name.startswith(("_", ".")) for name in below)
