"""The version and the rows that a DataFrame reads from the table to which it is written.

A lazy DataFrame reads the version that was the latest one at its `load`. An overwrite of the table
with these rows must be based on the same version. If it were based on the latest version instead,
it would remove rows that were committed since the `load`.

An append can also read the table to which it writes, for example to insert only rows that the table
doesn't have yet. Such an append isn't a blind append. Its read set contains the rows that match the
filters of its scans. Therefore two concurrent appends of the same missing row conflict.

Both rules apply to a MERGE, UPDATE or DELETE whose source or subquery reads the changed table: the
operation is based on the version that was read, and its read set contains the rows that were read.
"""

from __future__ import annotations

from typing import Any

from bayou.kernel import Engine, Predicate, Snapshot, Table
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.spark.expressions.catalyst_filters import to_predicate
from bayou.spark.jvm.plans import relation_filters, relation_options
from bayou.spark.session.loaded_version import LOADED_VERSION, read_loaded_version

_COLLATIONS = "__COLLATIONS"


def version_read(frame: Any, table: str) -> int | None:
    """Return the oldest version of a table that a classic DataFrame reads.

    Returns None if the DataFrame doesn't read the table. Reads with time travel are ignored,
    because they read older rows on purpose. `table` is the table's resolved path.
    """
    reads = map(read_loaded_version, relation_options(frame, LOADED_VERSION))
    versions = [read[1] for read in reads if read is not None and read[0] == table]
    return min(versions, default=None)


def snapshot_read(engine: Engine, snapshot: Snapshot, *frames: Any) -> Snapshot:
    """Return the oldest version of a table that the DataFrames of a MERGE, UPDATE or DELETE read.

    The operation must be based on this version. If it changed the rows of a later version, it would
    undo the commits in between. If no DataFrame reads the table, `snapshot` itself is returned.
    """
    reads = [version_read(frame, snapshot.path) for frame in frames]
    version = min((v for v in reads if v is not None), default=snapshot.version)
    if version == snapshot.version:
        return snapshot
    return Table.for_path(engine, snapshot.path).snapshot_as_of_version(engine, version)


def rows_read(frame: Any, snapshot: Snapshot) -> tuple[Predicate | None, ...]:
    """Return the result of `predicates_read`; empty if the DataFrame doesn't read the table."""
    if version_read(frame, snapshot.path) is None:
        return ()
    return predicates_read(frame, snapshot)


def predicates_read(frame: Any, snapshot: Snapshot) -> tuple[Predicate | None, ...]:
    """Return a predicate for each scan of a table in a DataFrame's plan.

    The predicate matches all rows that the scan returns. If a scan has no usable filter, its
    predicate is None, which means all rows. If the plan shows no scan of the table, as for a cached
    DataFrame, the result is `(None,)`.
    """
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    collated = {physical_name(f) for f in snapshot.schema if _COLLATIONS in f.metadata}
    predicates: list[Predicate | None] = []
    for option, filters in relation_filters(frame, LOADED_VERSION):
        read = read_loaded_version(option)
        if read is not None and read[0] == snapshot.path:
            predicates.append(
                to_predicate(
                    filters,
                    snapshot.schema,
                    time_zone=zone,
                    ansi=False,  # only filters that don't depend on ANSI mode
                    ignored_columns=frozenset(collated),
                )
            )
    return tuple(predicates) or (None,)
