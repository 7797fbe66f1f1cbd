"""Which version of a table a DataFrame reads that the same table is overwritten with.

A lazy DataFrame stays at the version that `load` saw. An overwrite with its rows must build on that
version: on the latest one it would remove rows that were committed since, and that nobody has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayou.spark.jvm.classes import scala_items
from bayou.spark.session.loaded_version import LOADED_VERSION, read_loaded_version

__all__ = ["version_read"]


def version_read(frame: Any, table: str) -> int | None:
    """The oldest version of a table that a DataFrame reads; None where it doesn't read it.

    Reads of a version or time that the user asked for don't count: going back is what they mean.

    Args:
        frame: a classic `DataFrame`.
        table: the table's resolved path.
    """
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  # Catalyst is published nowhere
    jvm = frame.sparkSession._jvm  # noqa: SLF001  # likewise
    found = [version for path, version in _reads(jvm, plan) if path == table]
    return min(found, default=None)


def _reads(jvm: Any, plan: Any) -> Iterator[tuple[str, int]]:
    for part in (plan, *scala_items(jvm, plan.subqueriesAll())):
        for leaf in scala_items(jvm, part.collectLeaves()):
            match str(leaf.getClass().getSimpleName()):
                case "LogicalRelation":
                    found = read_loaded_version(_option(leaf.relation()))
                case "DataSourceV2Relation":
                    found = read_loaded_version(leaf.options().get(LOADED_VERSION))
                case _:
                    found = None
            if found is not None:
                yield found


def _option(relation: Any) -> str:
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return ""
    found = relation.options().get(LOADED_VERSION)
    return str(found.get()) if found.isDefined() else ""
