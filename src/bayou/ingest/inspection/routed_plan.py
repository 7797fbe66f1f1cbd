"""Uses sampled records to preview what a run would write to the tables of `route-by`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.ingest.batch.expressions import unseen_fields
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.config import Topic
from bayou.ingest.inspection.run_cost import RunCost, run_cost
from bayou.ingest.offsets import KafkaTopic
from bayou.ingest.routing.routed_columns import RoutedColumns, all_columns, read_routed
from bayou.ingest.routing.routed_tables import RoutedTables
from bayou.ingest.routing.router import DEFAULT_TABLE
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.record_schema import RecordSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTablePlan:
    """What a run would write to a table of `route-by`.

    Attributes:
        table: the name of the table.
        creates: whether the run would create the table.
        sampled: number of sampled records that would become rows of the table.
        new_columns: the type of each column that the sampled records would add, by the column's
            name.
    """

    table: str
    table_path: str
    creates: bool
    sampled: int
    new_columns: Mapping[str, str]


def routed_plan(
    topic: Topic,
    kafka: KafkaTopic,
    tables: TopicTables,
    schema: RecordSchema,
    sampled: Sequence[tuple[int, pa.RecordBatch]],
    *,
    records: int,
    commits: int,
) -> dict[str, Any]:
    """Return values for those attributes of `TopicPlan` that depend on the sampled records.

    Args:
        tables: the target and the dead letter table. The target must be open.
        sampled: pairs of a Kafka partition and a batch of its records.
        records: number of records that the run would read.
        commits: number of batches that the run would commit.

    Returns:
        The values by attribute name.
    """
    routed = RoutedTables(topic, kafka, tables, schema)
    routed.open()
    columns = RoutedColumns(topic, routed, schema, time.time_ns() // 1000)
    read = read_routed(columns, lambda: [batch for _, batch in sampled])
    count = sum(batch.num_rows for _, batch in sampled)
    partitions = [partition for partition, _ in sampled]
    costs: list[RunCost] = []
    plans: list[RoutedTablePlan] = []
    added: dict[int, dict[str, str]] = {}
    for number, output in enumerate(read.outputs):
        rows = read.rows.get(number, ())
        found = sum(batch.num_rows for _, batch in rows)
        target = output.table.target
        names = target.new_columns(output.layout)
        fields = (*output.layout.stored, *output.layout.derived)
        added[number] = {f.name: str(f.data_type) for f in fields if f.name in names}
        if found or number == DEFAULT_TABLE:
            costs.append(
                run_cost(
                    _by_partition(rows, partitions, output.layout),
                    output.layout,
                    partition_columns=topic.config.destination.partition_columns,
                    records=round(records * found / count) if count else 0,
                    commits=commits,
                    checkpoint_interval=target.checkpoint_interval,
                )
            )
        if found and number != DEFAULT_TABLE:
            plans.append(
                RoutedTablePlan(
                    table=output.table.topic.routed_table or "",
                    table_path=target.path,
                    creates=target.version is None,
                    sampled=found,
                    new_columns=added[number],
                )
            )
    known = all_columns(output.layout.record for output in read.outputs)
    refused = Counter(
        str(reason) for _, dead in read.dead_letters for reason in dead.column("reason").to_pylist()
    )
    return {
        "refused": dict(refused.most_common()),
        "new_columns": added[DEFAULT_TABLE],
        "columns": read.outputs[DEFAULT_TABLE].layout.schema.names,
        "unseen_masks": unseen_masks(topic, known),
        "unseen_fields": unseen_fields(topic.config, known) if count else (),
        "filtered": read.filtered,
        "tables": tuple(plans),
        "cost": RunCost(
            data_files=sum(cost.data_files for cost in costs),
            data_bytes=sum(cost.data_bytes for cost in costs),
            log_files=sum(cost.log_files for cost in costs),
        ),
    }


def _by_partition(
    rows: Sequence[tuple[int, pa.RecordBatch]], partitions: Sequence[int], layout: RowLayout
) -> dict[int, list[pa.RecordBatch]]:
    """Group rows of a table by Kafka partition.

    Args:
        rows: pairs of an index in `partitions` and a batch of rows.
        partitions: the Kafka partition of each sampled batch of records.
    """
    batches: dict[int, list[pa.RecordBatch]] = {}
    for number, batch in rows:
        batches.setdefault(partitions[number], []).append(batch.select(layout.schema.names))
    return batches
