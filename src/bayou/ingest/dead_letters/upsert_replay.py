"""Dead letters of a table of upserts, put into it as what they are: records of their time.

The order of records decides which row counts, not when they come: a letter that fits by now is
upserted with its own timestamp and offset, so that it wins against older records of its key and
loses against newer ones. What is done twice ends the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.api import table
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.offsets import covered_offsets
from bayou.ingest.topic_table.writer import DirectWriter

__all__ = ["UpsertedLetters", "upsert_letters"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertedLetters:
    """What became of some dead letters; see `ReplayOutcome`."""

    replayed: int = 0
    refused: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    version: int | None = None


def upsert_letters(
    configuration: Configuration, topic: Topic, *, where: str | None, dry_run: bool
) -> UpsertedLetters:
    """Upsert the letters that fit by now, and take them out of the dead letters.

    Args:
        where: SQL over the columns of the dead letters: only these.
        dry_run: change nothing, tell what would be.

    Raises:
        BayouError: it can't be done; letters stay then.
    """
    options = configuration.connector.storage.storage_options()
    dead_letters = table(dead_letters_path(topic.table_path), options)
    name = topic.config.kafka_topic
    if not dead_letters.exists():
        return UpsertedLetters()
    writer = DirectWriter(configuration, topic, records_of_topic=True)
    chosen = f"topic = '{name}'" + (f" AND ({where})" if where else "")
    letters = dead_letters.to_arrow(filter=chosen)
    ready = _covered(letters, covered_offsets(name, writer.transactions()))
    refused, report = writer.replay(ready.combine_chunks().to_batches(), dry_run=dry_run)
    reasons = pc.value_counts(refused.column("reason")).to_pylist()
    outcome = UpsertedLetters(
        replayed=ready.num_rows - refused.num_rows,
        refused=refused.num_rows,
        reasons={reason["values"]: reason["counts"] for reason in reasons},
        left=letters.num_rows - ready.num_rows,
        version=None if report is None else report.version,
    )
    if outcome.replayed and not dry_run:
        place = ["partition", "offset"]
        done = ready.select(place).join(refused.select(place), place, join_type="left anti")
        dead_letters.merge(
            done.group_by(place).aggregate([]),
            on=f"target.topic = '{name}' AND target.partition = source.partition "
            "AND target.offset = source.offset",
            user_metadata="replayed",
        ).when_matched_delete().execute()
    return outcome


def _covered(letters: pa.Table, covered: Mapping[int, int]) -> pa.Table:
    """Those whose records the target covers: the others will be decided by the pipeline."""
    ends = pa.table(
        {
            "partition": pa.array(covered, pa.int32()),
            "end": pa.array(covered.values(), pa.int64()),
        }
    )
    found = pc.index_in(letters.column("partition"), value_set=ends.column("partition"))
    below = pc.less(letters.column("offset"), ends.column("end").take(found))
    return letters.filter(pc.fill_null(below, False))
