"""Distributed log replay: scans and snapshots of large tables as Spark jobs.

Start reading at `builder.DistributedScanBuilder`.
"""

from bayou.spark.log_replay.builder import DistributedScanBuilder
from bayou.spark.log_replay.distributed_scan import DistributedScan
from bayou.spark.log_replay.initial_snapshot import (
    initial_snapshot_for_streaming,
    state_reconstruction,
)
from bayou.spark.log_replay.snapshot_cache import clear_cache, latest_snapshot

__all__ = [
    "DistributedScan",
    "DistributedScanBuilder",
    "clear_cache",
    "initial_snapshot_for_streaming",
    "latest_snapshot",
    "state_reconstruction",
]
