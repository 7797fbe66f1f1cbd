"""Commits between two versions: raw actions and the change data feed.

`commit_range` reads actions, `table_changes` reads changed rows.
"""

__all__: list[str] = []
