from bayou.spark.replay.snapshot_cache import clear_cache, latest_snapshot

__all__ = ["clear_cache", "latest_snapshot"]
