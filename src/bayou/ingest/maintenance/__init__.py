"""Maintenance of a topic's table during a run: compaction, optimize, vacuum, deleted keys.

Start at `scheduler`, which decides when a task is due; `steps` runs the tasks.
"""

from bayou.ingest.maintenance.scheduler import TopicUpkeep
from bayou.ingest.maintenance.steps import (
    LastRun,
    LastRuns,
    check_retention,
    last_runs,
    maintain_table,
    task_of,
)

__all__ = [
    "LastRun",
    "LastRuns",
    "TopicUpkeep",
    "check_retention",
    "last_runs",
    "maintain_table",
    "task_of",
]
