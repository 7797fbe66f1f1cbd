"""MERGE of `DeltaTable`."""

from __future__ import annotations

import time
from typing import Any

from bayou.kernel.operations.merge import MergeDefinition, MergeMetrics, MergeSource, merge
from bayou.spark.tables.target import SPARK_ENGINE_INFO, TargetTable

__all__ = ["run_merge", "source_alias"]


def run_merge(target: TargetTable, source: Any, definition: MergeDefinition) -> MergeMetrics:
    """Merge a DataFrame's rows into a table, and commit; see `DeltaMergeBuilder.execute`."""
    started = time.perf_counter()
    rows = source.toArrow()
    return merge(
        target.engine,
        target.snapshot(),
        MergeSource.read(rows.schema, rows.to_batches()),
        definition,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        started=started,
    )


def source_alias(source: Any) -> str | None:
    """By which name a DataFrame's columns may be called; None where it has none."""
    if not hasattr(source, "_jdf"):
        alias = getattr(source._plan, "_alias", None)  # noqa: SLF001  # published nowhere
        return None if alias is None else str(alias)
    plan = source._jdf.queryExecution().analyzed()  # noqa: SLF001  # as above
    if str(plan.getClass().getSimpleName()) != "SubqueryAlias":
        return None
    return str(plan.alias())
