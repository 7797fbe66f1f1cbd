"""What a running pipeline shows: metrics, health and a status page, over HTTP."""

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
