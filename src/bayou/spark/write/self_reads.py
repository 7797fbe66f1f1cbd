"""Finds the version and the rows that a write reads from its target table.

A DataFrame reads the version that is the latest at `load`. If the DataFrame is written to the same
table, the write is based on this version, and detects conflicts with later commits:

- An overwrite must not remove rows that were committed after the `load`.
- An append can read its target table, for example to insert only missing rows. Such an append isn't
  a blind append: its read set contains the rows that match the filters of the DataFrame's scans.
  Therefore two concurrent appends of the same missing row conflict.
- An overwrite of some rows or partitions has a read set too, because the DataFrame can also read
  rows that aren't replaced.
- The source and the subqueries of a MERGE, UPDATE or DELETE can read the target table. The
  operation is based on the version that the source and subqueries read. Its read set contains the
  rows that the source and subqueries read.

A cached DataFrame is an exception, so that a program can write it several times. An append of
cached rows is based on the latest version. An overwrite with cached rows has an empty read set.
"""

from __future__ import annotations

from typing import Any

from bayou.kernel import Engine, Predicate, Snapshot, Table
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.column_metadata import COLLATIONS_KEY
from bayou.spark.expressions.catalyst_filters import to_predicate
from bayou.spark.jvm.plans import relation_filters, relation_options
from bayou.spark.session.read_version_options import LOADED_VERSION, read_loaded_version


def version_read(frame: Any, table: str) -> int | None:
    """Return the version of a table that a DataFrame reads.

    If the DataFrame reads several versions, the result is the oldest one. If the DataFrame doesn't
    read the table, the result is None. Reads with time travel are ignored. DataFrames of Spark
    Connect aren't supported.

    Args:
        table: the table's resolved path.
    """
    reads = map(read_loaded_version, relation_options(frame, LOADED_VERSION))
    versions = [read[1] for read in reads if read is not None and read[0] == table]
    return min(versions, default=None)


def snapshot_read(engine: Engine, snapshot: Snapshot, *frames: Any) -> Snapshot:
    """Return the snapshot on which a MERGE, UPDATE or DELETE must be based.

    This is the snapshot of the oldest version that one of the DataFrames reads. If the operation
    were based on a later version, it could undo commits that the DataFrame hasn't read. If no
    DataFrame reads the table, the result is `snapshot`.

    Args:
        snapshot: the latest snapshot of the table.
        frames: the DataFrames of the operation, such as the source of a MERGE.
    """
    reads = [version_read(frame, snapshot.path) for frame in frames]
    version = min((v for v in reads if v is not None), default=snapshot.version)
    if version == snapshot.version:
        return snapshot
    return Table.for_path(engine, snapshot.path).snapshot_as_of_version(engine, version)


def is_scanned(frame: Any, table: str) -> bool:
    """Whether a DataFrame's plan has a scan of a table; False if the rows come from Spark's cache.

    Args:
        table: the table's resolved path.
    """
    reads = (read_loaded_version(option) for option, _ in relation_filters(frame, LOADED_VERSION))
    return any(read is not None and read[0] == table for read in reads)


def rows_read(frame: Any, snapshot: Snapshot) -> tuple[Predicate | None, ...]:
    """Return predicates for the rows that a DataFrame reads from a table; see `predicates_read`.

    Returns an empty tuple if the DataFrame doesn't read the table.
    """
    if version_read(frame, snapshot.path) is None:
        return ()
    return predicates_read(frame, snapshot)


def predicates_read(frame: Any, snapshot: Snapshot) -> tuple[Predicate | None, ...]:
    """Return one predicate for each scan of a table in a DataFrame's plan.

    The predicate is true for all rows that the scan returns. None stands for all rows of the table.
    If the plan has no scan of the table, as for a cached DataFrame, the result is `(None,)`.
    """
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    collated = {physical_name(f) for f in snapshot.schema if COLLATIONS_KEY in f.metadata}
    predicates: list[Predicate | None] = []
    for option, filters in relation_filters(frame, LOADED_VERSION):
        read = read_loaded_version(option)
        if read is not None and read[0] == snapshot.path:
            predicates.append(
                to_predicate(
                    filters,
                    snapshot.schema,
                    time_zone=zone,
                    ansi=False,  # ignores filters that depend on ANSI mode
                    ignored_columns=frozenset(collated),
                )
            )
    return tuple(predicates) or (None,)
