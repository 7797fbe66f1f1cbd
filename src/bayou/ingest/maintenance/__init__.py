"""A topic's table kept in shape while it is written, and on a schedule."""

from bayou.ingest.maintenance.last_runs import LastRun, LastRuns, last_runs, task_of
from bayou.ingest.maintenance.retention import check_retention
from bayou.ingest.maintenance.scheduler import TopicUpkeep
from bayou.ingest.maintenance.steps import maintain_table

__all__ = [
    "LastRun",
    "LastRuns",
    "TopicUpkeep",
    "check_retention",
    "last_runs",
    "maintain_table",
    "task_of",
]
