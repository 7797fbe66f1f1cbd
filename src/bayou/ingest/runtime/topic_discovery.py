"""Starts runs of new topics that match a `kafka-topic-pattern`, while a pipeline runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from bayou.errors import BayouError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.broker import topic_names
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.runtime.topic_restarts import TopicRestarts
from bayou.ingest.runtime.topic_run import TopicRun

INTERVAL = 20.0
"""Seconds between requests for the names of all topics."""


class TopicDiscovery:
    """Finds new topics at the brokers, and prepares a run of each new topic in the background.

    If a topic is deleted and a topic with the same name is created later, it counts as a new topic.

    Args:
        configuration: the configuration, including the topics that exist at the start of the
            pipeline.
        restarts: the restarts of failed topics. The restart of a deleted topic is canceled.
        interval: seconds between requests to the brokers; None for `INTERVAL`.
    """

    def __init__(
        self,
        configuration: Configuration,
        new_run: Callable[[Topic], TopicRun],
        restarts: TopicRestarts,
        *,
        interval: float | None = None,
    ) -> None:
        self._configuration = configuration
        self._new_run = new_run
        self._restarts = restarts
        self._interval = INTERVAL if interval is None else interval
        self._topics = {topic.key: topic for topic in configuration.topics}
        self._request: _Request | None = None
        self._due = time.monotonic() + self._interval
        self._preparations: dict[str, _Preparation] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether the configuration has a `kafka-topic-pattern`."""
        return bool(self._configuration.patterns)

    def prepared(self, runs: Mapping[str, TopicRun]) -> list[TopicRun]:
        """Return the prepared runs of new topics; each run is returned once. Doesn't block.

        Args:
            runs: the current run of each topic, by the topic's key.
        """
        if not self.is_enabled:
            return []
        self._poll(runs)
        ended = [key for key, p in self._preparations.items() if not p.task.is_running]
        preparations = [self._preparations.pop(key) for key in ended]
        for preparation in preparations:
            preparation.task.finish()
        return [preparation.run for preparation in preparations]

    def end(self) -> None:
        """Wait until all runs in preparation are prepared, and abandon these runs."""
        for preparation in self._preparations.values():
            preparation.task.finish()
            preparation.run.abandon()

    def _poll(self, runs: Mapping[str, TopicRun]) -> None:
        if self._request is None:
            if time.monotonic() >= self._due:
                self._request = _Request(self._configuration)
            return
        if self._request.task.is_running:
            return
        names, self._request = self._request.names, None
        self._due = time.monotonic() + self._interval
        if names is None:  # the brokers don't answer; the running topics report it
            return
        matching = {topic.key: topic for topic in self._configuration.matching(names)}
        for key, topic in list(self._topics.items()):
            if topic.from_pattern and key not in matching and self._has_ended(key, runs):
                del self._topics[key]  # the topic was deleted
        new = matching.keys() - self._topics.keys() - self._preparations.keys()
        topics = (topic for key, topic in matching.items() if key in new)
        for topic in self._configuration.with_table_problems(self._topics.values(), topics):
            self._topics[topic.key] = topic
            run = self._new_run(topic)
            task = BackgroundTask(partial(run.prepare, once=False))
            self._preparations[topic.key] = _Preparation(run=run, task=task)

    def _has_ended(self, key: str, runs: Mapping[str, TopicRun]) -> bool:
        if key in self._preparations or runs[key].active:
            return False
        return self._restarts.cancel(key)


class _Request:
    """A request for the names of all topics, in the background.

    Attributes:
        names: the names; None if the request is still running or has failed.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._properties = configuration.connector.kafka.client_properties()
        self.names: frozenset[str] | None = None
        self.task = BackgroundTask(self._ask)

    def _ask(self) -> None:
        try:
            self.names = frozenset(topic_names(self._properties))
        except BayouError:
            self.names = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preparation:
    run: TopicRun
    task: BackgroundTask
