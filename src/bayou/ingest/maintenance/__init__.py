"""A topic's table kept in shape while it is written, and on a schedule."""

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
