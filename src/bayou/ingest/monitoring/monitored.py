"""A run with everything that watches it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from bayou.ingest.config import Configuration
from bayou.ingest.config.operations import MonitoringConfig
from bayou.ingest.monitoring.server import StatusServer
from bayou.ingest.monitoring.status_store import StatusStore
from bayou.ingest.monitoring.watch import Watch

__all__ = ["Monitor", "monitored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    """What watches a run.

    Attributes:
        store: to be told by the run; knows its status.
        url: the status page, None where no port was opened.
    """

    store: StatusStore
    url: str | None


@contextlib.contextmanager
def monitored(configuration: Configuration, *, watch: bool = False) -> Iterator[Monitor]:
    """Watch a run for as long as this holds.

    Args:
        configuration: says whether and where a port is opened (`connector.monitoring`).
        watch: ask brokers and tables now and then although no port is opened.

    Raises:
        PrerequisiteError: the address can't be listened at.
    """
    config = configuration.connector.monitoring
    store = StatusStore(configuration)
    serves = config is not None and config.enabled
    with contextlib.ExitStack() as stack:
        url: str | None = None
        if config is not None and serves:
            server = StatusServer(config, store)
            stack.callback(server.close)
            url = server.url
        if serves or watch:
            interval = (config or MonitoringConfig()).interval_seconds
            stack.enter_context(Watch(configuration, store, interval))
        yield Monitor(store=store, url=url)
