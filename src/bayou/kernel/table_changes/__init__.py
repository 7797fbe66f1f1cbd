"""Incremental reads: the actions of a range of commits, the change data feed, and streams.

`commit_range` reads actions. `table_changes` reads changed rows. `streamed_commits` lists the files
of new commits for streaming reads.
"""

__all__: list[str] = []
