"""Replays the dead letters of an upsert in the order of their records.

A dead letter that fits now is upserted with its own timestamp and offset, so it replaces older
records of its key and is superseded by newer ones. The replay is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from bayou.api import table
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.offsets import covered_offsets
from bayou.ingest.topic_table.writer import DirectWriter
from bayou.kernel.arrow.compute import pc

__all__ = ["UpsertReplayResult", "upsert_letters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertReplayResult:
    """The result of a replay; see `ReplayResult`."""

    replayed: int = 0
    refused: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    version: int | None = None


def upsert_letters(
    configuration: Configuration, topic: Topic, *, where: str | None, dry_run: bool
) -> UpsertReplayResult:
    """Upsert dead letters that fit now, then delete them.

    Args:
        configuration: the configuration.
        topic: the topic.
        where: an SQL condition on the columns of the dead letter table.
        dry_run: change nothing, only report the result.

    Raises:
        BayouError: the replay failed, and the dead letters remain.
    """
    options = configuration.connector.storage.storage_options()
    dead_letters = table(dead_letters_path(topic.table_path), options)
    name = topic.config.kafka_topic
    if not dead_letters.exists():
        return UpsertReplayResult()
    writer = DirectWriter(configuration, topic, records_of_topic=True)
    condition = f"topic = '{name}'" + (f" AND ({where})" if where else "")
    candidates = dead_letters.to_arrow(filter=condition)
    ready = _covered(candidates, covered_offsets(name, writer.transactions()))
    refused, report = writer.replay(ready.combine_chunks().to_batches(), dry_run=dry_run)
    reasons = pc.value_counts(refused.column("reason")).to_pylist()
    result = UpsertReplayResult(
        replayed=ready.num_rows - refused.num_rows,
        refused=refused.num_rows,
        reasons={reason["values"]: reason["counts"] for reason in reasons},
        left=candidates.num_rows - ready.num_rows,
        version=None if report is None else report.version,
    )
    if result.replayed and not dry_run:
        position = ["partition", "offset"]
        done = ready.select(position)
        done = done.join(refused.select(position), position, join_type="left anti")
        dead_letters.merge(
            done.group_by(position).aggregate([]),
            on=f"target.topic = '{name}' AND target.partition = source.partition "
            "AND target.offset = source.offset",
            user_metadata="replayed",
        ).when_matched_delete().execute()
    return result


def _covered(dead_letters: pa.Table, covered: Mapping[int, int]) -> pa.Table:
    """Return the dead letters at offsets that the target covers; a run processes the others."""
    ends = pa.table(
        {
            "partition": pa.array(covered, pa.int32()),
            "end": pa.array(covered.values(), pa.int64()),
        }
    )
    indices = pc.index_in(dead_letters.column("partition"), value_set=ends.column("partition"))
    below = pc.less(dead_letters.column("offset"), ends.column("end").take(indices))
    return dead_letters.filter(pc.fill_null(below, False))
