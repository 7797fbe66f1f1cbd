"""Counts a table's rows from the log, without reading data files.

Used for `DataFrame.count()` and `SELECT count(*)` without a filter. The result is the number of
rows in the version that `load` has opened.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from bayou.api.rows.read import row_count_from_statistics
from bayou.engines import for_path
from bayou.errors import BayouError
from bayou.kernel import Engine, Snapshot, Table
from bayou.spark.hooks.requests import CountRequest, QueryRequest
from bayou.spark.jvm.objects import JvmError
from bayou.spark.jvm.plans import counted_relation, unfiltered_relation
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.read_version_options import WHOLE_TABLE, read_whole_table
from bayou.spark.session.settings import conf_flag
from bayou.spark.session.storage_options import storage_options

_LOG = logging.getLogger(__name__)

SETTING = "spark.databricks.delta.optimizeMetadataQuery.enabled"
"""Name of delta-spark's setting. If the setting is false, a count reads the data files."""

_COUNTS = re.compile(r"\bcount\s*\(\s*(\*|\d+)\s*\)", re.IGNORECASE)


def count(request: CountRequest) -> Any:
    """Handler of the hook `count`: return the number of rows from the log.

    Returns NotImplemented if the DataFrame's rows aren't exactly the rows of a table, or if the log
    doesn't contain the number of rows.
    """
    if not _is_enabled(request.spark):
        return NotImplemented
    try:
        table = unfiltered_relation(request.frame, WHOLE_TABLE)
    except JvmError:
        return NotImplemented
    rows = _row_count(request.spark, table)
    return NotImplemented if rows is None else rows


def query(request: QueryRequest) -> Any:
    """Handler of the hook `query`: return the result of `SELECT count(*) FROM table` from the log.

    Returns NotImplemented for other statements. Also returns NotImplemented if the log doesn't
    contain the number of rows.
    """
    if _COUNTS.search(request.text) is None or not _is_enabled(request.spark):
        return NotImplemented
    try:
        table = counted_relation(request.frame, WHOLE_TABLE)
    except JvmError:
        return NotImplemented
    rows = _row_count(request.spark, table)
    if rows is None:
        return NotImplemented
    return request.spark.createDataFrame([(rows,)], request.frame.schema)


def _is_enabled(spark: Any) -> bool:
    return conf_flag(spark, SETTING, default=True)


def _row_count(spark: Any, relation: str | None) -> int | None:
    """Return the number of rows of a version; None if the log doesn't contain the number.

    Args:
        relation: value of the read option `WHOLE_TABLE`, which identifies the version. None if the
            option isn't set; the result is then None.
    """
    table = read_whole_table(relation)
    if table is None:
        return None
    table_id, path, version = table
    try:
        options = with_session_storage(spark, path, {})
        engine = for_path(path, storage_options({k.lower(): v for k, v in options.items()}))
        snapshot = _snapshot(spark, engine, path, version)
        if snapshot.table_id != table_id:  # the table was replaced after `load`
            return None
        return row_count_from_statistics(engine, snapshot)
    except BayouError as error:
        _LOG.debug(
            "Table %s: Spark counts the rows, because the log can't be used (%s).", path, error
        )
        return None


def _snapshot(spark: Any, engine: Engine, path: str, version: int) -> Snapshot:
    latest = latest_snapshot(engine, path, spark)
    if latest.version == version:
        return latest
    return Table.for_path(engine, path).snapshot_as_of_version(engine, version)
