"""The table version that a DataFrame reads, for overwrites of a table with its own rows.

A lazy DataFrame stays at the version of its `load`. An overwrite with its rows must be based on
that version: based on the latest version, it would remove rows that were committed since then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayou.spark.jvm.classes import scala_items
from bayou.spark.session.loaded_version import LOADED_VERSION, read_loaded_version

__all__ = ["version_read"]


def version_read(frame: Any, table: str) -> int | None:
    """The oldest version of a table that a DataFrame reads; None if it doesn't read the table.

    Time travel reads don't count, because their rows are older on purpose.

    Args:
        frame: a classic `DataFrame`.
        table: the table's resolved path.
    """
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  # no public API
    jvm = frame.sparkSession._jvm  # noqa: SLF001  # no public API
    versions = [version for path, version in _reads(jvm, plan) if path == table]
    return min(versions, default=None)


def _reads(jvm: Any, plan: Any) -> Iterator[tuple[str, int]]:
    for part in (plan, *scala_items(jvm, plan.subqueriesAll())):
        for leaf in scala_items(jvm, part.collectLeaves()):
            match str(leaf.getClass().getSimpleName()):
                case "LogicalRelation":
                    path_and_version = read_loaded_version(_option(leaf.relation()))
                case "DataSourceV2Relation":
                    path_and_version = read_loaded_version(leaf.options().get(LOADED_VERSION))
                case _:
                    path_and_version = None
            if path_and_version is not None:
                yield path_and_version


def _option(relation: Any) -> str:
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return ""
    value = relation.options().get(LOADED_VERSION)
    return str(value.get()) if value.isDefined() else ""
