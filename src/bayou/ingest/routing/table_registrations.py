"""Records a topic's `route-by` tables as transaction identifiers of the default table.

A table is registered before it is created: a commit to the default table records a transaction
identifier with the `appId` `kafka/CLUSTER/TOPIC/route/PATH/registered`. Later, each batch records
the versions of the tables that it has written, in its commit to the default table. The `appId` for
the version of a table is `kafka/CLUSTER/TOPIC/route/PATH/TABLE-ID`. With these identifiers, a run
finds all tables even if the configuration has changed, and detects that a table was deleted,
replaced or rolled back.

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
"""`appId` whose version counts registrations, so that concurrent registrations conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTable:
    """A registered table of `route-by`.

    Attributes:
        path: the table's path, relative to the folder of the default table.
        fingerprint: the `value_fingerprint` of the value whose records are in the table; 0 if
            `route-by.tables` lists the table.
        versions: for each id that the table has had, the last recorded version. It is empty until a
            batch with rows of this table is committed.
    """

    path: str
    fingerprint: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)


def registered_tables(transactions: Mapping[str, int]) -> dict[str, RegisteredTable]:
    """Return the registered tables of all topics that write to a default table.

    The keys are paths relative to the folder of the default table.

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
    """Return the `appId` that registers a table. The path is relative; see `relative_path`."""
    return f"{_prefix(topic)}route/{path}/{_REGISTERED}"


def version_id(topic: KafkaTopic, path: str, table_id: str) -> str:
    """Return the `appId` that records the last version of a table that a topic has written."""
    return f"{_prefix(topic)}route/{path}/{table_id}"


def written_id(topic: KafkaTopic) -> str:
    """Return the `appId` that counts a topic's commits to a routed table.

    Each commit increments the version, even a commit that only repeats a batch. Commits of two
    pipelines therefore always conflict.
    """
    return f"{_prefix(topic)}{_WRITTEN}"


def check_table(
    topic: Topic, known: RegisteredTable, table_id: str | None, version: int | None
) -> None:
    """Check that a table wasn't replaced, and that its recorded version still exists.

    Args:
        topic: the copy of the topic that writes to this table only; see `Topic.routed`.
        known: the registration of the table, with the recorded versions.
        table_id: the table's current id; None if there is no table.
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

    A path in another bucket is returned unchanged.
    """
    root, folder = _split(posixpath.dirname(default.rstrip("/")))
    other, rest = _split(path.rstrip("/"))
    return posixpath.relpath(rest, folder) if root == other else path.rstrip("/")


def absolute_path(path: str, default: str) -> str:
    """Convert a result of `relative_path` to the path of the table."""
    if "://" in path:
        return path
    root, folder = _split(posixpath.dirname(default.rstrip("/")))
    return root + posixpath.normpath(posixpath.join(folder, path))


def _split(path: str) -> tuple[str, str]:
    """Split a URI into `SCHEME://BUCKET` and a path. For a local path, the first part is empty."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "", path
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", f"/{key}"


def _prefix(topic: KafkaTopic) -> str:
    return f"kafka/{topic.cluster_id}/{topic.name}/"
