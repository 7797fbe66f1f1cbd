from bayou.spark.replay.builder import DistributedScanBuilder
from bayou.spark.replay.distributed_scan import DistributedScan
from bayou.spark.replay.initial_snapshot import initial_snapshot_for_streaming, state_reconstruction
from bayou.spark.replay.snapshot_cache import clear_cache, latest_snapshot

__all__ = [
    "DistributedScan",
    "DistributedScanBuilder",
    "clear_cache",
    "initial_snapshot_for_streaming",
    "latest_snapshot",
    "state_reconstruction",
]
