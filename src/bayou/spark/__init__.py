from typing import TYPE_CHECKING

import bayou.spark.pyspark_version  # noqa: F401  # before imports fail that need a newer one
from bayou import on_use

if TYPE_CHECKING:
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

# Of what Spark starts in Python processes, most needs few of them.
__getattr__ = on_use.loader(
    __name__,
    {
        "DeltaTable": "bayou.spark.tables",
        "DistributedScan": "bayou.spark.replay",
        "DistributedScanBuilder": "bayou.spark.replay",
        "IdentityGenerator": "bayou.spark.tables",
        "clear_cache": "bayou.spark.replay",
        "disable": "bayou.spark.session",
        "enable": "bayou.spark.session",
        "initial_snapshot_for_streaming": "bayou.spark.replay",
        "short_message": "bayou.spark.errors",
        "sql": "bayou.spark.statements",
        "start_session": "bayou.spark.session",
        "state_reconstruction": "bayou.spark.replay",
    },
)
