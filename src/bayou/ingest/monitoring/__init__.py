"""Monitoring of a running pipeline: metrics, health and a status page over HTTP.

Start reading at `status`, which defines the values of a pipeline's status. `status_store` collects
them from the events of a run.
"""

from bayou.ingest.monitoring.listeners import Listeners, Monitor, monitored
from bayou.ingest.monitoring.status import PipelineStatus, Sample, ShownCommit, TopicStatus
from bayou.ingest.monitoring.status_store import StatusStore

__all__ = [
    "Listeners",
    "Monitor",
    "PipelineStatus",
    "Sample",
    "ShownCommit",
    "StatusStore",
    "TopicStatus",
    "monitored",
]
