import bayou.spark.pyspark_version  # noqa: F401  # before imports fail that need a newer one
from bayou.spark.errors import short_message
from bayou.spark.replay import (
    DistributedScan,
    DistributedScanBuilder,
    clear_cache,
    initial_snapshot_for_streaming,
    state_reconstruction,
)
from bayou.spark.session import disable, enable, start_session
from bayou.spark.statements import sql
from bayou.spark.tables import DeltaTable, IdentityGenerator

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
