"""OPTIMIZE of a clustered table (PROTOCOL.md, Clustered Table), with the rules of delta-spark."""

from __future__ import annotations

from dataclasses import replace

from bayou.kernel.commands.optimize.bin_packing import pack
from bayou.kernel.commands.optimize.optimize import (
    optimize_parameters,
    rewrite_states,
    target_size,
)
from bayou.kernel.commands.optimize.rewrite import RewriteTask
from bayou.kernel.commands.optimize.rewrite_execution import RewritePlan
from bayou.kernel.commands.optimize.row_order import RowOrder
from bayou.kernel.commands.optimize.z_cubes import (
    CLUSTERING_PROVIDER,
    CUBE_BYTES,
    LARGE_CUBE_BYTES,
    files_to_cluster,
    new_cube_tags,
)
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.table_features.column_mapping import physical_path
from bayou.kernel.transaction.commit_table_actions import current_time_ms


def plan_clustering(
    engine: Engine,
    state: TableState,
    engine_info: str,
    *,
    full: bool = False,
    target_bytes: int | None = None,
    cube_bytes: int = CUBE_BYTES,
    large_cube_bytes: int = LARGE_CUBE_BYTES,
) -> RewritePlan:
    """Plan the rewrite of new files and small cubes, with rows in Hilbert order.

    A cube is a set of files whose rows an earlier OPTIMIZE sorted together.

    Args:
        full: whether to also rewrite files that were clustered by columns other than the table's
            current clustering columns.
        target_bytes: target size of new files. If None, this is the table's target file size.
        cube_bytes: maximum size of a new cube. If `large_cube_bytes` is larger, `large_cube_bytes`
            is the maximum.
        large_cube_bytes: size from which a cube is large. Large cubes aren't rewritten.
    """
    started = current_time_ms()
    target = target_size(state, target_bytes)
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    paths = state.clustering_columns
    names = [".".join(path) for path in paths]
    with ScanBuilder(state).with_whole_adds().build().scan_files(engine) as batches:
        chosen = files_to_cluster(batches, names, large_cube_bytes=large_cube_bytes, full=full)
    items = [
        RewriteTask(
            state=write_state,
            scan_state=scan_state,
            files=tuple(members),
            order=RowOrder(curve="hilbert", columns=paths),
            num_files=max(1, sum(file.size for file in members) // target),
            statistics_columns=tuple(".".join(physical_path(state.schema, path)) for path in paths),
            tags=new_cube_tags(names),
            clustering_provider=CLUSTERING_PROVIDER,
        )
        for members in pack(chosen.files, max(cube_bytes, large_cube_bytes))
    ]
    return RewritePlan(
        state=state,
        operation=Operation.OPTIMIZE,
        parameters=optimize_parameters(None, cluster_by=names, full=full),
        where=None,
        items=tuple(items),
        considered=chosen.considered,
        partitions=min(1, len(items)),
        started=started,
        clustering=replace(chosen.stats, num_output_zcubes=len(items)),
    )
