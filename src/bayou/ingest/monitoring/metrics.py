"""A pipeline's status in Prometheus' text format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from bayou.ingest.monitoring.status import BATCH_BUCKETS, Histogram, PipelineStatus, TopicStatus

__all__ = ["CONTENT_TYPE", "METRIC_NAMES", "exposition"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

_COUNTERS = {
    "rows": ("bayou_rows", "Rows added to the table."),
    "dead_letters": ("bayou_dead_letters", "Records added to the dead letters."),
    "left_out": ("bayou_left_out", "Records that the tables had already."),
    "deleted": ("bayou_deleted_rows", "Rows that records of an upsert took out."),
    "superseded": ("bayou_superseded", "Records of an upsert that changed no row."),
    "bytes": ("bayou_written_bytes", "Bytes of data files that were committed."),
    "batches": ("bayou_batches", "Micro-batches that were committed."),
    "retries": ("bayou_retries", "Attempts at a batch beyond the first."),
    "conflicts": ("bayou_conflicts", "Commits that another writer's commit refused."),
    "lost": ("bayou_lost_offsets", "Offsets that Kafka's retention took before they were read."),
    "checks": ("bayou_freshness_checks", "Looks at the freshness."),
    "misses": ("bayou_freshness_misses", "Looks that found it beyond the objective."),
}
_GAUGES = {
    "waiting": ("bayou_lag_records", "Offsets that wait, of all partitions."),
    "freshness": (
        "bayou_freshness_seconds",
        "Age of the oldest record that isn't in the table, at most.",
    ),
    "objective": ("bayou_freshness_objective_seconds", "slo.freshness-seconds."),
    "version": ("bayou_table_version", "The table's latest version."),
    "files": ("bayou_table_files", "Live files of the table."),
    "small_files": ("bayou_table_small_files", "Those below 16 MiB."),
    "table_bytes": ("bayou_table_bytes", "Bytes of the live files."),
    "letters_waiting": ("bayou_dead_letters_waiting", "Rows of the dead letters' table."),
    "last_commit": (
        "bayou_last_commit_timestamp_seconds",
        "When the last batch was committed.",
    ),
}
_HISTOGRAMS = {
    "batch_seconds": ("bayou_batch_seconds", "From a batch's arrival to its commit."),
    "commit_seconds": (
        "bayou_commit_seconds",
        "Of a batch's commits; of an upsert with its merge.",
    ),
}
_PARTITION_LAG = ("bayou_partition_lag_records", "Offsets that wait, of one partition.")
_UP = ("bayou_topic_up", "1 while the topic is read, 0 before, after, and when it has failed.")
_FAILED = ("bayou_topic_failed", "1 where an error stopped the topic.")
_MAINTENANCE = ("bayou_maintenance_runs", "Maintenance tasks that ended, well or not.")
_MAINTAINED = ("bayou_maintenance_timestamp_seconds", "When a task ended last.")
_MAINTENANCE_OK = ("bayou_maintenance_ok", "1 where the task's last run did what it should.")
_WATCH = ("bayou_watch_ok", "1 where brokers and tables answered when they were last asked.")
_INFO = ("bayou_build_info", "The version that runs.")

METRIC_NAMES = frozenset(
    {
        *(f"{name}_total" for name, _ in _COUNTERS.values()),
        *(name for name, _ in _GAUGES.values()),
        *(
            f"{name}_{part}"
            for name, _ in _HISTOGRAMS.values()
            for part in ("bucket", "count", "sum")
        ),
        f"{_MAINTENANCE[0]}_total",
        *(m[0] for m in (_PARTITION_LAG, _UP, _FAILED, _MAINTAINED, _MAINTENANCE_OK, _WATCH)),
        _INFO[0],
    }
)
"""Every name that a query can use."""


def exposition(status: PipelineStatus) -> bytes:
    """The text of `/metrics`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(status))
    return generate_latest(registry)


class _Status(Collector):
    def __init__(self, status: PipelineStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        topics = self._status.topics
        for attribute, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=["topic"])
            for topic in topics:
                counter.add_metric([topic.topic], float(getattr(topic, attribute)))
            yield counter
        for attribute, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["topic"])
            for topic in topics:
                value = getattr(topic, attribute)
                if value is not None:
                    gauge.add_metric([topic.topic], float(value))
            yield gauge
        yield from _states(topics)
        yield from _maintenance(topics)
        yield from _histograms(topics)
        lag = GaugeMetricFamily(*_PARTITION_LAG, labels=["topic", "partition"])
        for topic in topics:
            for partition, waiting in topic.lag.items():
                lag.add_metric([topic.topic, str(partition)], float(waiting))
        yield lag
        yield GaugeMetricFamily(*_WATCH, value=float(self._status.watch_error is None))
        info = GaugeMetricFamily(*_INFO, labels=["version"])
        info.add_metric([self._status.version], 1.0)
        yield info


def _states(topics: tuple[TopicStatus, ...]) -> Iterator[Metric]:
    up = GaugeMetricFamily(*_UP, labels=["topic"])
    failed = GaugeMetricFamily(*_FAILED, labels=["topic"])
    for topic in topics:
        up.add_metric([topic.topic], float(topic.state == "running"))
        failed.add_metric([topic.topic], float(topic.state == "failed"))
    yield up
    yield failed


def _maintenance(topics: tuple[TopicStatus, ...]) -> Iterator[Metric]:
    labels = ["topic", "task"]
    runs = CounterMetricFamily(*_MAINTENANCE, labels=labels)
    moments = GaugeMetricFamily(*_MAINTAINED, labels=labels)
    fine = GaugeMetricFamily(*_MAINTENANCE_OK, labels=labels)
    for topic in topics:
        for run in topic.maintenance:
            runs.add_metric([topic.topic, run.task], float(run.runs))
            moments.add_metric([topic.topic, run.task], run.at)
            fine.add_metric([topic.topic, run.task], float(run.result in ("done", "nothing")))
    yield runs
    yield moments
    yield fine


def _histograms(topics: tuple[TopicStatus, ...]) -> Iterator[Metric]:
    bounds = [*(str(b) for b in BATCH_BUCKETS), "+Inf"]
    for attribute, (name, text) in _HISTOGRAMS.items():
        family = HistogramMetricFamily(name, text, labels=["topic"])
        for topic in topics:
            found: Histogram = getattr(topic, attribute)
            below = itertools.accumulate(found.counts)
            buckets = [(b, float(count)) for b, count in zip(bounds, below, strict=True)]
            family.add_metric([topic.topic], buckets, sum_value=found.total)
        yield family
