"""Maintenance of a topic's table: compaction, OPTIMIZE, VACUUM, removal of old deleted keys.

Start at `scheduler`, which decides when a task is due; `steps` runs the tasks.
"""

from bayou.ingest.maintenance.scheduler import TopicMaintenance
from bayou.ingest.maintenance.steps import (
    LastRun,
    LastRuns,
    check_retention,
    completed_task,
    last_runs,
    maintain_table,
)

__all__ = [
    "LastRun",
    "LastRuns",
    "TopicMaintenance",
    "check_retention",
    "completed_task",
    "last_runs",
    "maintain_table",
]
