"""Estimates the files that a run would write, from sampled rows."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.engines import for_path
from bayou.ingest.batch.row_layout import RowLayout
from bayou.kernel import Operation, Table, write_data
from bayou.version import ENGINE_INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """An estimate of the files that a run would write to the target.

    The estimate doesn't include dead letters, maintenance, and existing rows that an upsert
    rewrites.

    Attributes:
        data_files: number of data files. A batch writes a file for each pair of a Kafka partition
            and a table partition.
        data_bytes: total size of the data files in bytes. It is usually too high, because the small
            sample compresses less well than a batch.
        log_files: number of commit files and checkpoints.
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
    """Estimate the files of a run by writing sampled rows to a temporary table.

    Args:
        rows: the sampled rows of each Kafka partition.
        records: number of records that the run would read.
        commits: number of commits that the run would make.
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
        adds = [add for batches in rows.values() for add in write_data(engine, state, batches)]
    return RunCost(
        data_files=len(adds) * commits,
        data_bytes=round(sum(add.size for add in adds) / sampled * records),
        log_files=commits + commits // checkpoint_interval,
    )
