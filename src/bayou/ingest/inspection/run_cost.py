"""What a run would write: a first commit of the sampled records, made in a folder of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.engines import for_path
from bayou.ingest.batch.rows import RowLayout
from bayou.kernel import Operation, Table, write_data
from bayou.version import ENGINE_INFO

__all__ = ["RunCost", "run_cost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What a run would write, about; without dead letters, maintenance and statistics of upserts.

    Attributes:
        data_files: files of rows. A batch makes one for each Kafka partition and each table
            partition that its records fall into.
        data_bytes: of these, compressed; rows of a few thousand records compress less well than
            larger batches do.
        log_files: commits and checkpoints.
    """

    data_files: int
    data_bytes: int
    log_files: int


def run_cost(
    rows: Mapping[int, Sequence[pa.RecordBatch]],
    layout: RowLayout,
    *,
    partition_columns: Sequence[str],
    records: int,
    commits: int,
    checkpoint_interval: int,
) -> RunCost:
    """Write a sample as a commit does, and multiply.

    Args:
        rows: of the sample, by Kafka partition; each a task's.
        records: how many the run would take.
        commits: how many it would make.
        checkpoint_interval: commits between two checkpoints.
    """
    sampled = sum(batch.num_rows for batches in rows.values() for batch in batches)
    if not sampled or not commits:
        return RunCost(data_files=0, data_bytes=0, log_files=0)
    with tempfile.TemporaryDirectory(prefix="bayou-plan-") as folder:
        engine = for_path(folder)
        transaction = (
            Table.for_path(engine, folder)
            .create_transaction_builder(engine, engine_info=ENGINE_INFO, operation=Operation.WRITE)
            .with_schema(layout.schema)
            .with_partition_columns(tuple(partition_columns))
            .build(engine)
        )
        state = transaction.transaction_state(engine)
        written = [add for share in rows.values() for add in write_data(engine, state, share)]
    return RunCost(
        data_files=len(written) * commits,
        data_bytes=round(sum(add.size for add in written) / sampled * records),
        log_files=commits + commits // checkpoint_interval,
    )
