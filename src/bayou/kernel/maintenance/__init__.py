"""Maintenance of the log: cleanup, log compaction, manifests.

A commit starts them, see `bayou.kernel.transaction.post_commit_hooks`.
"""

__all__: list[str] = []
