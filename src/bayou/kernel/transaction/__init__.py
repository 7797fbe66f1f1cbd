"""Transactions: from the builder to the commit, with conflict checks and retries.

Start reading at `builder` and `transaction`. `conflict_checker` decides whether a commit can be
rebased onto a concurrent commit, `commit` writes the log entry, and `post_commit_hooks` run
afterwards.
"""

__all__: list[str] = []
