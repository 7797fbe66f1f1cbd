"""Records a topic's `route-by` tables as transaction identifiers of the default table.

A table is registered before it is created: the default table gets the identifier
`kafka/CLUSTER/TOPIC/route/PATH/registered`. Each commit of a batch to the default table then
records the versions of the tables that the batch has written. The identifier of a table's version
is `kafka/CLUSTER/TOPIC/route/PATH/TABLE-ID`. A run finds all tables by these identifiers, even if
the configuration has changed. It also detects that a table was deleted, replaced or rolled back.

`PATH` is relative to the folder of the default table, so that the tables can be moved together.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bayou.errors import PipelineError
from bayou.ingest.config import Topic
from bayou.ingest.offsets import KafkaTopic

_ENTRY = re.compile(r"kafka/[^/]*/[^/]*/route/(.+)/([^/]+)\Z", re.DOTALL)
_REGISTERED = "registered"
_WRITTEN = "written"
REGISTRATIONS = "bayou-routes"
"""Application id that counts registrations, so that concurrent registrations conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTable:
    """A registered table of `route-by`.

    Attributes:
        path: the table's path, relative to the folder of the default table.
        fingerprint: the hash (`value_fingerprint`) of the value whose records are in the table; 0
            if `route-by.tables` lists the table's path.
        versions: the last recorded version of the table, by table id. The mapping is empty until a
            batch with rows of this table is committed.
    """

    path: str
    fingerprint: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)


def registered_tables(transactions: Mapping[str, int]) -> dict[str, RegisteredTable]:
    """Return the registered tables of all topics by their relative path.

    Args:
        transactions: the transaction identifiers of the default table.
    """
    entries: dict[str, dict[str, int]] = {}
    for application, version in transactions.items():
        if (match := _ENTRY.match(application)) is not None:
            path, entry = match.groups()
            known = entries.setdefault(path, {})
            known[entry] = max(version, known.get(entry, -1))
    return {
        path: RegisteredTable(
            path=path, fingerprint=versions.pop(_REGISTERED, 0), versions=versions
        )
        for path, versions in entries.items()
    }


def registration_id(topic: KafkaTopic, path: str) -> str:
    """Return the application id that registers a table."""
    return f"{_prefix(topic)}route/{path}/{_REGISTERED}"


def version_id(topic: KafkaTopic, path: str, table_id: str) -> str:
    """Return the application id that records the last version that a topic wrote to a table."""
    return f"{_prefix(topic)}route/{path}/{table_id}"


def written_id(topic: KafkaTopic) -> str:
    """Return the application id whose version counts a topic's commits in a table of `route-by`.

    Each commit increments the version, even a commit that only repeats a batch. Commits of two
    pipelines therefore always conflict.
    """
    return f"{_prefix(topic)}{_WRITTEN}"


def check_table(
    topic: Topic, known: RegisteredTable, table_id: str | None, version: int | None
) -> None:
    """Check that a table is the recorded table, and that it still has the recorded version.

    Args:
        topic: the copy of the topic that writes to this table only; see `Topic.routed`.
        table_id: the table's id; None if there is no table.
        version: the table's latest version; None if there is no table.

    Raises:
        PipelineError: the table was deleted, replaced or rolled back.
    """
    if not known.versions:
        return
    recorded = -1 if table_id is None else known.versions.get(table_id, -1)
    advice = "Restore the routed table, or move all tables of the topic away to start again"
    if version is not None and version < recorded:
        change = f"was rolled back from version {recorded} to {version}"
    elif recorded >= 0 or topic.accepts_deleted:
        return
    else:
        change = "was deleted or moved" if table_id is None else "was replaced by another table"
        setting = f"connector.topics.{topic.section}.destination.route-by.accept-deleted"
        advice += f". If the table was deleted on purpose, set {setting}: [{topic.routed_table}]"
    raise PipelineError(
        f"topic {topic.key!r}: {topic.table_path} {change}. The default table still records the "
        f"offsets of the missing rows, so their records won't be read again. {advice}.",
        topic=topic.key,
    )


def relative_path(path: str, default: str) -> str:
    """Return a table's path relative to the folder of the default table.

    A URI in another bucket is returned unchanged.
    """
    root, folder = _split(posixpath.dirname(default.rstrip("/")))
    other, rest = _split(path.rstrip("/"))
    return posixpath.relpath(rest, folder) if root == other else path.rstrip("/")


def absolute_path(path: str, default: str) -> str:
    """Convert a result of `relative_path` back to an absolute path."""
    if "://" in path:
        return path
    root, folder = _split(posixpath.dirname(default.rstrip("/")))
    return root + posixpath.normpath(posixpath.join(folder, path))


def _split(path: str) -> tuple[str, str]:
    """Split a URI into `SCHEME://BUCKET` and a path; the first part of a local path is empty."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "", path
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", f"/{key}"


def _prefix(topic: KafkaTopic) -> str:
    return f"kafka/{topic.cluster_id}/{topic.name}/"
