"""Counts a table's rows from the log, without reading data files.

Answers `DataFrame.count()` and `SELECT count(*)` without a filter. Both read the version that was
loaded, like a native read.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from bayou.api.read import row_count_from_statistics
from bayou.engines import for_path
from bayou.errors import BayouError
from bayou.kernel import Engine, Snapshot, Table
from bayou.spark.hooks.requests import CountRequest, QueryRequest
from bayou.spark.jvm.objects import JvmError
from bayou.spark.jvm.plans import counted_relation, unfiltered_relation
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.loaded_version import LOADED_VERSION, read_loaded_version
from bayou.spark.session.storage_options import storage_options

_LOG = logging.getLogger(__name__)

SETTING = "spark.databricks.delta.optimizeMetadataQuery.enabled"
"""delta-spark's setting; false: counts read the data files."""

_COUNTS = re.compile(r"\bcount\s*\(\s*(\*|\d+)\s*\)", re.IGNORECASE)


def count(request: CountRequest) -> Any:
    """Handler of `count`: return the number of rows; `NotImplemented` if the log lacks it."""
    if not _is_enabled(request.spark):
        return NotImplemented
    try:
        loaded = unfiltered_relation(request.frame, LOADED_VERSION)
    except JvmError:
        return NotImplemented
    rows = _row_count(request.spark, loaded)
    return NotImplemented if rows is None else rows


def query(request: QueryRequest) -> Any:
    """Handler of `query`: return a DataFrame with the count of a `SELECT count(*) FROM table`."""
    if _COUNTS.search(request.text) is None or not _is_enabled(request.spark):
        return NotImplemented
    try:
        loaded = counted_relation(request.frame, LOADED_VERSION)
    except JvmError:
        return NotImplemented
    rows = _row_count(request.spark, loaded)
    if rows is None:
        return NotImplemented
    return request.spark.createDataFrame([(rows,)], request.frame.schema)


def _is_enabled(spark: Any) -> bool:
    return str(spark.conf.get(SETTING, "true")).strip().lower() != "false"


def _row_count(spark: Any, loaded: str | None) -> int | None:
    """Return the number of rows of a version; None if the log doesn't have it.

    Args:
        loaded: the value of `LOADED_VERSION`.
    """
    table = read_loaded_version(loaded)
    if table is None:
        return None
    path, version = table
    try:
        options = with_session_storage(spark, path, {})
        engine = for_path(path, storage_options({k.lower(): v for k, v in options.items()}))
        return row_count_from_statistics(engine, _snapshot(spark, engine, path, version))
    except BayouError as error:
        _LOG.debug("%s: rows aren't counted from the log: %s", path, error)
        return None


def _snapshot(spark: Any, engine: Engine, path: str, version: int) -> Snapshot:
    latest = latest_snapshot(engine, path, spark)
    if latest.version == version:
        return latest
    return Table.for_path(engine, path).snapshot_as_of_version(engine, version)
