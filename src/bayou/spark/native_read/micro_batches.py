"""The version of a table that a micro-batch reads if a stream is joined with the table.

The table is a batch DataFrame in a streaming query. As in delta-spark, each micro-batch reads the
table's latest version. All scans of the table in a micro-batch read the same version. This is
possible because Spark plans the scans of each micro-batch again, and then lists their files.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from bayou.errors import SchemaError
from bayou.kernel import Engine, Snapshot
from bayou.kernel.table_changes.schema_changes import TableShape, incompatibility
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType
from bayou.spark.jvm.streaming import MicroBatch, current_micro_batch, runs_micro_batch
from bayou.spark.log_replay.snapshot_cache import latest_snapshot

_MAX_SNAPSHOTS = 100

_lock = threading.Lock()
_snapshots: OrderedDict[tuple[str, str, bytes], tuple[MicroBatch, Snapshot]] = OrderedDict()
"""The last micro-batch and the version that it reads, by (streaming query, table, engine)."""


def micro_batch_snapshot(
    spark: Any, engine: Engine, path: str, *, planned: bool = False
) -> Snapshot | None:
    """Return the version of a table that the current micro-batch reads.

    The result is None outside of a micro-batch.

    Args:
        planned: whether Spark only plans the query. If true, a query in the function of
            `foreachBatch` counts as a part of the micro-batch. If false, the result for such a
            query is None.
    """
    micro_batch = current_micro_batch(spark)
    if micro_batch is None or not (planned or runs_micro_batch(spark)):
        return None
    key = (micro_batch.query, path, engine.description().to_bytes())
    with _lock:
        known = _snapshots.get(key)
    if known is not None and known[0] == micro_batch:
        return known[1]
    snapshot = latest_snapshot(engine, path, spark)
    with _lock:
        known = _snapshots.get(key)
        if known is not None and known[0] == micro_batch:
            return known[1]  # another thread was faster
        _snapshots[key] = micro_batch, snapshot
        _snapshots.move_to_end(key)
        if len(_snapshots) > _MAX_SNAPSHOTS:
            _snapshots.popitem(last=False)
    return snapshot


def check_readable(loaded: Snapshot, latest: Snapshot) -> None:
    """Raise `SchemaError` if a plan for the version `loaded` can't read the version `latest`."""
    problem = incompatibility(_shape(loaded), _shape(latest)) or _null_change(
        loaded.schema, latest.schema, ""
    )
    if loaded.partition_columns != latest.partition_columns:
        problem = "the partition columns have changed"
    if problem is not None:
        raise SchemaError(
            f"Table {latest.path}: the streaming query can't read version {latest.version}. Since "
            f"version {loaded.version}, at which the table was loaded, {problem} "
            "(DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS). Load the table again, and restart the query.",
            table=latest.path,
        )


def deletion_vector_error(loaded: Snapshot, latest: Snapshot) -> SchemaError:
    """Return the error for a plan that can't read the deletion vectors of the version `latest`."""
    return SchemaError(
        f"Table {latest.path}: the streaming query can't read version {latest.version}, because "
        "deletion vectors were enabled after the table was loaded at version "
        f"{loaded.version}. Load the table again, and restart the query.",
        table=latest.path,
    )


def _shape(snapshot: Snapshot) -> TableShape:
    return TableShape(schema=snapshot.schema, mode=snapshot.column_mapping)


def _null_change(loaded: DataType, latest: DataType, name: str) -> str | None:
    """Return a message if a column or field can be null in `latest` but not in `loaded`.

    Returns None if there is no such column or field.
    """
    match loaded, latest:
        case StructType(), StructType():
            by_name = {field.name.lower(): field for field in latest}
            for field in loaded:
                other = by_name[field.name.lower()]
                path = f"{name}{field.name}"
                if other.nullable and not field.nullable:
                    return f"column {path!r} can be null"
                change = _null_change(field.data_type, other.data_type, f"{path}.")
                if change is not None:
                    return change
        case ArrayType(), ArrayType():
            if latest.contains_null and not loaded.contains_null:
                return f"column '{name}element' can be null"
            return _null_change(loaded.element_type, latest.element_type, f"{name}element.")
        case MapType(), MapType():
            if latest.value_contains_null and not loaded.value_contains_null:
                return f"column '{name}value' can be null"
            return _null_change(loaded.key_type, latest.key_type, f"{name}key.") or _null_change(
                loaded.value_type, latest.value_type, f"{name}value."
            )
    return None
