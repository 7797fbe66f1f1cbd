"""Exports a pipeline's status in Prometheus' text format."""

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

CONTENT_TYPE = CONTENT_TYPE_LATEST

_COUNTERS = {
    "rows": ("bayou_rows", "Rows added to the table."),
    "dead_letters": ("bayou_dead_letters", "Records added to the dead letter table."),
    "left_out": ("bayou_left_out", "Records that the tables already had."),
    "filtered": ("bayou_filtered", "Records that processing.where filtered out."),
    "deleted": ("bayou_deleted_rows", "Rows that an upsert deleted."),
    "superseded": ("bayou_superseded", "Records of an upsert that changed no row."),
    "bytes": ("bayou_written_bytes", "Bytes of committed data files."),
    "batches": ("bayou_batches", "Committed micro-batches."),
    "retries": ("bayou_retries", "Attempts at a batch after the first."),
    "conflicts": ("bayou_conflicts", "Commits that conflicted with another writer's commit."),
    "lost": ("bayou_lost_offsets", "Offsets that Kafka's retention deleted before they were read."),
    "checks": ("bayou_freshness_checks", "Checks of a topic's freshness."),
    "misses": ("bayou_freshness_misses", "Freshness checks that missed the objective."),
}
_GAUGES = {
    "waiting": ("bayou_lag_records", "Offsets of all partitions that aren't in the table yet."),
    "freshness": (
        "bayou_freshness_seconds",
        "Maximum age of the oldest record that isn't in the table.",
    ),
    "objective": ("bayou_freshness_objective_seconds", "slo.freshness-seconds."),
    "version": ("bayou_table_version", "The table's latest version."),
    "files": ("bayou_table_files", "Live files of the table."),
    "small_files": ("bayou_table_small_files", "Live files below 16 MiB."),
    "table_bytes": ("bayou_table_bytes", "Bytes of the live files."),
    "iceberg_lag": (
        "bayou_iceberg_lag_versions",
        "Versions of the table that aren't in its Iceberg metadata yet.",
    ),
    "routed_table_count": (
        "bayou_routed_tables",
        "Tables of route-by, without the default table.",
    ),
    "letters_waiting": ("bayou_dead_letters_waiting", "Rows of the dead letter table."),
    "last_commit": (
        "bayou_last_commit_timestamp_seconds",
        "Time of the last batch's commit.",
    ),
}
_HISTOGRAMS = {
    "batch_seconds": ("bayou_batch_seconds", "Time from a batch's start to its commit."),
    "commit_seconds": (
        "bayou_commit_seconds",
        "Time of a batch's commits; for an upsert including its merge.",
    ),
}
_REASONS = (
    "bayou_dead_letters_waiting_by_reason",
    "Rows of the dead letter table by kind of reason.",
)
_PARTITION_LAG = (
    "bayou_partition_lag_records",
    "Offsets of a partition that aren't in the table yet.",
)
_UP = ("bayou_topic_up", "1 while the topic is read, 0 before, after, and when it has failed.")
_FAILED = ("bayou_topic_failed", "1 if an error stopped the topic.")
_MAINTENANCE = ("bayou_maintenance_runs", "Maintenance tasks that ended, with or without error.")
_MAINTAINED = ("bayou_maintenance_timestamp_seconds", "Time when the task's last run ended.")
_MAINTENANCE_OK = ("bayou_maintenance_ok", "1 if the task's last run succeeded.")
_WATCH = ("bayou_watch_ok", "1 if brokers and tables answered when they were last checked.")
_INFO = ("bayou_build_info", "The running version.")

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
        *(
            m[0]
            for m in (_PARTITION_LAG, _REASONS, _UP, _FAILED, _MAINTAINED, _MAINTENANCE_OK, _WATCH)
        ),
        _INFO[0],
    }
)
"""The names of all metrics, as used in PromQL."""


def exposition(status: PipelineStatus) -> bytes:
    """Return the status in Prometheus' text format, the content of `/metrics`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(status))
    return generate_latest(registry)


class _Status(Collector):
    def __init__(self, status: PipelineStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        topics = self._status.topics
        for attribute, (name, description) in _COUNTERS.items():
            counter = CounterMetricFamily(name, description, labels=["topic"])
            for topic in topics:
                counter.add_metric([topic.topic], float(getattr(topic, attribute)))
            yield counter
        for attribute, (name, description) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, description, labels=["topic"])
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
        reasons = GaugeMetricFamily(*_REASONS, labels=["topic", "reason"])
        for topic in topics:
            for reason, letters in topic.letters_by_reason.items():
                reasons.add_metric([topic.topic, reason], float(letters))
        yield reasons
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
    timestamps = GaugeMetricFamily(*_MAINTAINED, labels=labels)
    ok = GaugeMetricFamily(*_MAINTENANCE_OK, labels=labels)
    for topic in topics:
        for run in topic.maintenance:
            runs.add_metric([topic.topic, run.task], float(run.runs))
            timestamps.add_metric([topic.topic, run.task], run.at)
            ok.add_metric([topic.topic, run.task], float(run.result in ("done", "nothing")))
    yield runs
    yield timestamps
    yield ok


def _histograms(topics: tuple[TopicStatus, ...]) -> Iterator[Metric]:
    bounds = [*(str(b) for b in BATCH_BUCKETS), "+Inf"]
    for attribute, (name, description) in _HISTOGRAMS.items():
        family = HistogramMetricFamily(name, description, labels=["topic"])
        for topic in topics:
            histogram: Histogram = getattr(topic, attribute)
            below = itertools.accumulate(histogram.counts)
            buckets = [(b, float(count)) for b, count in zip(bounds, below, strict=True)]
            family.add_metric([topic.topic], buckets, sum_value=histogram.total)
        yield family
