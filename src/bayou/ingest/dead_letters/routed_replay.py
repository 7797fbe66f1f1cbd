"""Replays the dead letters of a topic with `route-by` into the topic's tables.

All dead letters to replay are read into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyroaring import BitMap64

from bayou.api import SnapshotHandle
from bayou.errors import PipelineError
from bayou.ingest.batch.filter_history import filter_properties
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.dead_letters.append_replay import (
    AppendReplay,
    deduplicated,
    with_timestamps,
)
from bayou.ingest.dead_letters.record_identity import at_offsets, identities
from bayou.ingest.offsets import KafkaTopic, covered_offsets
from bayou.ingest.routing.routed_columns import (
    RoutedColumns,
    RoutedOutput,
    RoutedRecordsRead,
    read_routed,
)
from bayou.ingest.routing.routed_tables import RoutedTables
from bayou.ingest.routing.router import DEFAULT_TABLE
from bayou.kernel import write_data
from bayou.kernel.arrow.compute import pc
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.actions import AddFile

_BATCH_ROWS = 10_000


class RoutedReplay(AppendReplay):
    """One attempt to replay dead letters; it reads one version of each table."""

    _no_replay = (
        "the record was migrated from a file or written by a program, before the topic had "
        "route-by. Send the corrected record to the Kafka topic, and drop the dead letter with "
        "bayou dlq drop"
    )

    def _add_rows(
        self, dead_letters: SnapshotHandle, snapshot: SnapshotHandle, *, dry_run: bool
    ) -> int | None:
        kafka = KafkaTopic(
            name=self._name,
            cluster_id=_cluster(self._name, snapshot.transactions),
            topic_id=None,
            bounds={},
        )
        topic_tables = TopicTables.of(self._topic, kafka, self._storage_options)
        target = topic_tables.target
        target.open()
        tables = RoutedTables(self._topic, kafka, topic_tables, self._schema)
        tables.open()
        # Look for existing rows in the versions on which the transactions are based. If another
        # replay has committed rows since then, the commit conflicts, so no row is added twice.
        opened = (target, *(table.target for table in tables.existing))
        snapshots = [table.snapshot for table in opened if table.snapshot is not None]
        covered = covered_offsets(self._name, snapshots[0].transactions)
        row_offsets = self._row_offsets(dead_letters, snapshots, covered)
        selected = [
            self._pending(batch, covered, row_offsets, count=True)
            for batch in dead_letters.to_batches(filter=self._where)
        ]
        # The batches aren't combined: an Arrow array of binary values has at most 2 GiB.
        pending = [with_timestamps(batch) for batch in deduplicated(selected) if batch.num_rows]
        if not pending:
            return None
        columns = RoutedColumns(self._topic, tables, self._schema, self._run_id)
        slices = [
            batch.slice(first, _BATCH_ROWS)
            for batch in pending
            for first in range(0, batch.num_rows, _BATCH_ROWS)
        ]
        read = read_routed(columns, lambda: slices)
        self._count_read(read, pending)
        if dry_run or not (read.rows or read.filtered):
            return None
        return self._commit(tables, read, dead_letters, covered)

    def _count_read(self, read: RoutedRecordsRead, pending: Sequence[pa.RecordBatch]) -> None:
        refused: dict[int, BitMap64] = {}
        for _, letters in read.dead_letters:
            self._refused += letters.num_rows
            for row in letters.select(["partition", "offset", "reason"]).to_pylist():
                refused.setdefault(row["partition"], BitMap64()).add(row["offset"])
                self._reasons[row["reason"]] = self._reasons.get(row["reason"], 0) + 1
        self._replayed += sum(
            rows.num_rows for batches in read.rows.values() for _, rows in batches
        )
        self._filtered += read.filtered
        for batch in pending:
            done = batch.filter(pc.invert(at_offsets(batch, refused)))
            self._done.append(identities(done, self._repeated))

    def _commit(
        self,
        tables: RoutedTables,
        read: RoutedRecordsRead,
        dead_letters: SnapshotHandle,
        covered: Mapping[int, int],
    ) -> int | None:
        """Commit the rows of the replayed dead letters to the topic's tables.

        The data files are written first, and new tables are registered. The last commit is to the
        default table, which is the table of `destination.table-path`.

        Returns:
            The version of the last commit; None if there was no commit.
        """
        target = tables.default.target
        assert target.snapshot is not None
        properties = filter_properties(
            self._topic,
            target.snapshot.properties,
            covered,
            self._kafka_ranges if read.filtered else None,
        )
        default = read.outputs[DEFAULT_TABLE]
        transaction, _ = target.begin(default.layout, {}, properties=properties)
        files: dict[int, Sequence[AddFile]] = {}
        for number, rows in read.rows.items():
            output = read.outputs[number]
            table_transaction = transaction if number == DEFAULT_TABLE else output.transaction
            if table_transaction is None:
                raise self._lacks_columns(output)
            state = table_transaction.transaction_state(output.table.engine)
            files[number] = write_data(output.table.engine, state, [batch for _, batch in rows])
        written = [read.outputs[number] for number in files if number != DEFAULT_TABLE]

        def discard() -> None:
            for number, adds in files.items():
                read.outputs[number].table.target.discard(adds)

        with discard_unless_committed(discard):
            tables.register(output.table for output in written)
        version: int | None = None
        for number, adds in sorted(files.items(), reverse=True):
            if number == DEFAULT_TABLE:
                continue
            routed = read.outputs[number].table.target
            changed = read.outputs[number].transaction
            assert changed is not None
            with discard_unless_committed(partial(routed.discard, adds)):
                ids = self._transaction_ids(dead_letters, routed.snapshot)
                version = routed.commit(changed.with_transaction_ids(ids), adds, {})
        adds = files.get(DEFAULT_TABLE, ())
        if adds or read.filtered:
            with discard_unless_committed(lambda: target.discard(adds)):
                ids = self._transaction_ids(dead_letters, target.snapshot)
                version = target.commit(transaction.with_transaction_ids(ids), adds, {})
        return version

    def _lacks_columns(self, output: RoutedOutput) -> PipelineError:
        return PipelineError(
            f"topic {self._topic.key!r}: {output.table.target.path} can't be created, because the "
            "dead letters lack a field that partition-columns or cluster-by names. Set a "
            "schema-file.",
            topic=self._topic.key,
        )


def _cluster(name: str, transactions: Mapping[str, int]) -> str:
    parts = (application.split("/") for application in transactions)
    return next((p[1] for p in parts if p[0] == "kafka" and p[2:3] == [name]), "")
