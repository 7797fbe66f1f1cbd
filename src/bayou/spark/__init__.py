from typing import TYPE_CHECKING

import bayou.spark.session.prerequisites  # noqa: F401  # checks versions before imports that fail
from bayou import lazy_import

if TYPE_CHECKING:
    from bayou.spark.delta_table import DeltaTable, IdentityGenerator
    from bayou.spark.errors import short_message
    from bayou.spark.extension import disable, enable, start_session
    from bayou.spark.log_replay import (
        DistributedScan,
        DistributedScanBuilder,
        clear_cache,
        initial_snapshot_for_streaming,
        state_reconstruction,
    )
    from bayou.spark.sql_statements import sql

__all__ = [
    "DeltaTable",
    "DistributedScan",
    "DistributedScanBuilder",
    "IdentityGenerator",
    "clear_cache",
    "disable",
    "enable",
    "initial_snapshot_for_streaming",
    "short_message",
    "sql",
    "start_session",
    "state_reconstruction",
]

# Loaded lazily, because most Python workers of Spark need few of them.
__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        "DeltaTable": "bayou.spark.delta_table",
        "DistributedScan": "bayou.spark.log_replay",
        "DistributedScanBuilder": "bayou.spark.log_replay",
        "IdentityGenerator": "bayou.spark.delta_table",
        "clear_cache": "bayou.spark.log_replay",
        "disable": "bayou.spark.extension",
        "enable": "bayou.spark.extension",
        "initial_snapshot_for_streaming": "bayou.spark.log_replay",
        "short_message": "bayou.spark.errors",
        "sql": "bayou.spark.sql_statements",
        "start_session": "bayou.spark.extension",
        "state_reconstruction": "bayou.spark.log_replay",
    },
)
