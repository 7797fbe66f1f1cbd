"""Maintenance of a topic's table: compaction, OPTIMIZE, VACUUM, and removal of old deleted keys.

Start reading at `scheduler`, which decides when a task is due; `steps` runs the tasks.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import

if TYPE_CHECKING:
    from bayou.ingest.maintenance.last_run import LastRun, LastRuns, completed_task, last_runs
    from bayou.ingest.maintenance.scheduler import TopicMaintenance
    from bayou.ingest.maintenance.steps import check_retention, maintain_table

__all__ = [
    "LastRun",
    "LastRuns",
    "TopicMaintenance",
    "check_retention",
    "completed_task",
    "last_runs",
    "maintain_table",
]

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        "LastRun": "bayou.ingest.maintenance.last_run",
        "LastRuns": "bayou.ingest.maintenance.last_run",
        "TopicMaintenance": "bayou.ingest.maintenance.scheduler",
        "check_retention": "bayou.ingest.maintenance.steps",
        "completed_task": "bayou.ingest.maintenance.last_run",
        "last_runs": "bayou.ingest.maintenance.last_run",
        "maintain_table": "bayou.ingest.maintenance.steps",
    },
)
