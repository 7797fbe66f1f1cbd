"""Maintenance after commits: log cleanup, log compaction, symlink manifests.

Post-commit hooks start the maintenance, see `bayou.kernel.transaction.post_commit_hooks`.
"""

__all__: list[str] = []
