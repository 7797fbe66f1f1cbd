"""Keys of the configuration that this version accepts without acting on them, or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayou.ingest.config.document import Document, KeyPath, show_key
from bayou.ingest.config.model import PipelineConfig, SparkConfig, TopicConfig

__all__ = ["DROPPED_SPARK_CONF", "Notice", "Refusal", "notices", "refusals"]

_MAINTENANCE = {
    "enable_optimize": "optimize",
    "optimize_interval": "optimize",
    "enable_compaction": "compaction",
    "compaction_interval": "compaction",
    "enable_vacuum": "vacuum",
    "vacuum_retention_hours": "vacuum",
}

DROPPED_SPARK_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""delta-spark's settings; its JAR isn't there, so Spark would fail to start with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A key that has no effect yet. `text` is one line for people."""

    key: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A key that can't be followed, where ignoring it would make a wrong table."""

    path: KeyPath
    message: str


def notices(config: PipelineConfig, document: Document) -> tuple[Notice, ...]:
    """Everything in the file that this version accepts and doesn't do."""
    found: list[Notice] = []

    def note(path: KeyPath, reason: str) -> None:
        line = document.line_of(path)
        where = document.file if line is None else f"{document.file}:{line}"
        key = show_key(path)
        found.append(Notice(key=key, line=line, text=f"{where}: {key}: {reason}"))

    for key, topic in config.connector.topics.items():
        delta = topic.destination.delta_config
        for name, task in _MAINTENANCE.items():
            if name in delta.model_fields_set and getattr(delta, name) is not False:
                at = (*_delta_path(key), name.replace("_", "-"))
                note(at, f"{task} isn't run by this version; the table is complete without it")
    for conf in _dropped(config.connector.spark):
        note(
            ("connector", "spark", conf),
            "dropped: it belongs to delta-spark, whose JAR isn't there and isn't needed",
        )
    return tuple(found)


def refusals(config: PipelineConfig) -> Iterator[Refusal]:
    """Everything in the file that this version must not ignore."""
    for key, topic in config.connector.topics.items():
        if topic.destination.delta_config.enable_upsert:
            yield Refusal(
                path=(*_delta_path(key), "enable-upsert"),
                message="upserts aren't supported by this version, and rows are never silently "
                "appended instead; remove enable-upsert to append every record",
            )
        else:
            yield from _keys_without_upsert(key, topic)


def _keys_without_upsert(key: str, topic: TopicConfig) -> Iterator[Refusal]:
    for section, path in (
        (topic.destination.key_columns, ("connector", "topics", key, "destination")),
        (topic.destination.delta_config.key_columns, _delta_path(key)),
    ):
        if section:
            yield Refusal(
                path=(*path, "key-columns"),
                message="key-columns mean an upsert, which isn't supported by this version; "
                "remove them to append every record",
            )


def _dropped(spark: SparkConfig) -> Iterator[str]:
    conf = spark.conf()
    for key, value in DROPPED_SPARK_CONF.items():
        if conf.get(key) == value:
            yield key


def _delta_path(key: str) -> tuple[str, ...]:
    return ("connector", "topics", key, "destination", "delta-config")
