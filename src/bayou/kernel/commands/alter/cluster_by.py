"""CLUSTER BY: change a table's clustering columns (PROTOCOL.md, Clustered Table)."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.table_features.clustering import resolve_clustering_columns
from bayou.kernel.table_features.column_dependencies import ColumnPath, quote_path
from bayou.protocol import features


def cluster_by(
    engine: Engine, state: TableState, paths: Sequence[ColumnPath], *, engine_info: str
) -> AlterationMetrics:
    """Set the clustering columns that OPTIMIZE uses from now on; an empty list ends clustering.

    Existing files aren't rewritten. If the table wasn't clustered, the protocol gets the table
    feature `clustering`, which all writers must then support.
    """
    clustered = features.CLUSTERING in features.writer_features(state.protocol)
    if not paths and not clustered:
        return AlterationMetrics(version=state.version, num_commits=0)
    columns = resolve_clustering_columns(
        state.path, state.schema, state.properties, state.partition_columns, paths
    )
    before = state.clustering_columns
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.CLUSTER_BY,
        parameters={
            "oldClusteringColumns": ",".join(quote_path(path) for path in before),
            "newClusteringColumns": ",".join(quote_path(path) for path in columns),
        },
    )
    return alteration.commit(lambda builder: builder.with_clustering_columns(columns))
