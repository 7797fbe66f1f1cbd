"""Merges the last row of each key into the target. The same commit records offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bayou.ingest.events import BatchReport
from bayou.ingest.upsert.deleted_keys import DeletedKeys, rows_of_keys
from bayou.ingest.upsert_order import (
    BARE,
    DELETED,
    FORCED,
    SUPERSEDED,
    UpsertKeys,
    keys_of_tombstones,
    last_of_each_key,
)
from bayou.kernel import Engine, Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.merge import (
    MergeClause,
    MergeDefinition,
    MergeMetrics,
    MergeSource,
    merge,
)
from bayou.protocol.sql import quote_identifier

UPSERTS = "upserts"
"""`appId` of the transaction identifier that each upsert of a target increments.

With this identifier, concurrent upserts always conflict. Otherwise, a delete of a key that isn't in
the target would change no file and cause no conflict. A concurrent upsert that doesn't know the
delete could then insert an older row of the key.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """The target's new version, and the number of changed rows."""

    version: int
    inserted: int
    updated: int
    deleted: int

    @classmethod
    def of(cls, metrics: MergeMetrics) -> UpsertResult:
        return cls(
            version=metrics.version,
            inserted=metrics.num_target_rows_inserted,
            updated=metrics.num_target_rows_updated,
            deleted=metrics.num_target_rows_deleted,
        )

    def add_to_report(
        self, report: BatchReport, records: int, new_columns: tuple[str, ...]
    ) -> BatchReport:
        """Return the report of a batch with the numbers of this result.

        A record counts as superseded if it neither changed nor deleted a row.

        Args:
            records: number of valid records in the batch.
        """
        rows = self.inserted + self.updated
        return replace(
            report,
            rows=rows,
            deleted=self.deleted,
            superseded=records - rows - self.deleted,
            version=self.version,
            new_columns=new_columns,
        )


class UpsertTable:
    """The target table of an upsert, and the table of its deleted keys.

    Args:
        time_zone: time zone of the target's partition values of type timestamp that have no time
            zone.
    """

    def __init__(
        self,
        engine: Engine,
        table_path: str,
        keys: UpsertKeys,
        *,
        engine_info: str,
        user_metadata: str | None = None,
        time_zone: str = "UTC",
    ) -> None:
        self.engine = engine
        self.path = table_path
        self.keys = keys
        self.engine_info = engine_info
        self.user_metadata = user_metadata
        self.time_zone = time_zone
        self.deleted_keys = DeletedKeys(engine, table_path, keys, engine_info=engine_info)

    def last_of_each_key(self, snapshot: Snapshot | None, rows: pa.Table) -> pa.Table:
        """Return the last row or delete of each key, for `merge` and `DeletedKeys.remember`.

        Args:
            snapshot: the target's snapshot; None if the target doesn't exist yet.
        """
        keys = self.keys
        orderings = rows.select(list(keys.all_columns)).slice(0, 0)
        tombstones = keys_of_tombstones(keys, rows)
        if tombstones is not None and snapshot is not None:
            names = [n for n in keys.all_columns if n != "_kafka_timestamp"]
            orderings = rows_of_keys(
                self.engine, snapshot, keys.columns, names, tombstones, time_zone=self.time_zone
            )
        return last_of_each_key(keys, rows, self.deleted_keys.of(rows), orderings)

    def merge(
        self,
        snapshot: Snapshot,
        winners: pa.Table,
        *,
        transaction_ids: Mapping[str, int],
        table_properties: Mapping[str, str],
    ) -> UpsertResult:
        """Merge the result of `last_of_each_key` into the target.

        Call `DeletedKeys.remember` first. The MERGE commits even if no row changes, because the
        transaction identifiers must be recorded.
        """
        winners = winners.filter(pc.invert(winners.column(SUPERSEDED)))
        metrics = merge(
            self.engine,
            snapshot,
            MergeSource.read(winners.schema, winners.to_batches()),
            self.definition(snapshot, winners.column_names),
            engine_info=self.engine_info,
            user_metadata=self.user_metadata,
            transaction_ids=transaction_ids,
            table_properties=table_properties,
            counter=UPSERTS,
            time_zone=self.time_zone,
        )
        return UpsertResult.of(metrics)

    def definition(self, snapshot: Snapshot, columns: Sequence[str]) -> MergeDefinition:
        """Return the definition of the MERGE that upserts rows.

        Args:
            columns: the columns of the rows.
        """
        flags = (DELETED, FORCED, BARE, SUPERSEDED)
        names = [quote_identifier(n) for n in columns if n not in flags]
        values = {name: f"s.{name}" for name in names}
        newer = self.keys.newer_than(snapshot.schema.names)
        return MergeDefinition(
            on=self.keys.matching,
            clauses=(
                MergeClause(
                    kind="MATCHED",
                    action="delete",
                    condition=f"s.{DELETED} AND ({newer})",
                ),
                MergeClause(
                    kind="MATCHED",
                    action="update",
                    condition=newer,
                    assignments=values,
                ),
                MergeClause(
                    kind="NOT MATCHED",
                    action="insert",
                    condition=f"NOT s.{DELETED}",
                    assignments=values,
                ),
            ),
            source_alias="s",
            target_alias="t",
            schema_evolution=True,
        )
