"""Commits between two versions: actions and the change data feed.

`commit_range` reads actions, `table_changes` reads changed rows, and `streamed_commits` reads the
files of new commits for streams.
"""

__all__: list[str] = []
