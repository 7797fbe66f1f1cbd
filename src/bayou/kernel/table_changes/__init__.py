"""Commits between two versions: actions and the change data feed.

`commit_range` reads actions, and `table_changes` reads changed rows.
"""

__all__: list[str] = []
