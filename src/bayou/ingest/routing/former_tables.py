"""The tables that `route-by` wrote before it was removed from a topic's configuration.

The topic now writes only to its default table, the table of `destination.table-path`. The other
tables keep their rows, and are still registered in the default table. The records of these rows
must not be added to the default table again.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyroaring import BitMap64

from bayou.api import SnapshotHandle, table
from bayou.ingest.background_task import run_parallel
from bayou.ingest.config import Topic
from bayou.ingest.offsets import OffsetSpan, covered_offsets
from bayou.ingest.offsets_of_rows import TopicOffsets
from bayou.ingest.routing.table_registrations import absolute_path, registered_tables

_MAX_OFFSET = 2**62


def registered_snapshots(
    topic: Topic, default: SnapshotHandle, storage_options: dict[str, str]
) -> tuple[SnapshotHandle, ...]:
    """Return the latest snapshot of each existing table that is registered in the default table.

    This function doesn't check whether a table was deleted, replaced or rolled back.

    Args:
        default: the default table, which is the table of `destination.table-path`.
    """
    paths = [
        absolute_path(path, topic.table_path) for path in registered_tables(default.transactions)
    ]

    def snapshot(path: str) -> SnapshotHandle | None:
        handle = table(path, storage_options)
        return handle.snapshot() if handle.exists() else None

    return tuple(s for s in run_parallel(snapshot, sorted(paths)) if s is not None)


def interrupted_rows(
    topic: Topic, default: SnapshotHandle | None, storage_options: dict[str, str]
) -> dict[int, BitMap64]:
    """Return the offsets of rows that an interrupted batch has written to registered tables.

    The batch was interrupted before its commit to the default table. The default table therefore
    hasn't recorded these offsets, and the next batch reads their records again.

    Args:
        default: the default table, which is the table of `destination.table-path`. The other tables
            are registered in the default table. None if the default table doesn't exist.

    Returns:
        The offsets by Kafka partition.
    """
    rows: dict[int, BitMap64] = {}
    if default is None:
        return rows
    name = topic.config.kafka_topic
    covered = covered_offsets(name, default.transactions)
    for snapshot in registered_snapshots(topic, default, storage_options):
        ends = covered_offsets(name, snapshot.transactions)
        starts = {p: covered.get(p, 0) for p, end in ends.items() if end > covered.get(p, 0)}
        add_rows(rows, snapshot, name, starts)
    return rows


def within_spans(
    rows: Mapping[int, BitMap64], spans: Mapping[int, OffsetSpan]
) -> dict[int, frozenset[int]]:
    """For each Kafka partition, return the offsets in `rows` that are also in `spans`."""
    offsets_by_partition: dict[int, frozenset[int]] = {}
    for partition, span in spans.items():
        known = rows.get(partition)
        if known and (within := known & BitMap64(range(span.start, span.end))):
            offsets_by_partition[partition] = frozenset(within)
    return offsets_by_partition


def add_rows(
    rows: dict[int, BitMap64], snapshot: SnapshotHandle, name: str, starts: Mapping[int, int]
) -> None:
    """Add the offsets of a table's rows to `rows`.

    Args:
        name: the name of the Kafka topic.
        starts: for each Kafka partition, the first offset to add. Rows of other partitions aren't
            added.
    """
    if not starts:
        return
    seen = TopicOffsets()
    within = OffsetSpan(start=min(starts.values()), end=_MAX_OFFSET)
    seen.read(snapshot, name, prefix="_kafka_", within=within)
    for partition, start in starts.items():
        known = rows.setdefault(partition, BitMap64())
        known |= BitMap64(offset for offset in seen.of(partition).once if offset >= start)
