"""Messages about keys that have no effect, and about keys that prevent a pipeline from starting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bayou.engines.arrow.storage.object_store_files import opening_problem
from bayou.ingest.config.connector.catalog import IMPLEMENTATION
from bayou.ingest.config.connector.connections import SparkConfig, client_refusal
from bayou.ingest.config.connector.registry import registry_refusal
from bayou.ingest.config.document import Document, KeyPath, show_key
from bayou.ingest.config.model import PipelineConfig
from bayou.ingest.config.plaintext_secrets import clear_secrets

_MAINTENANCE = {
    "optimize_interval": "enable_optimize",
    "z_order_by": "enable_optimize",
    "compaction_interval": "enable_compaction",
    "vacuum_retention_hours": "enable_vacuum",
}

DROPPED_SPARK_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Spark confs that load delta-spark; without its JAR, they prevent Spark from starting."""


_HADOOP_STORES = {"spark.hadoop.fs.azure.": "azure", "spark.hadoop.fs.gs.": "google"}
"""For each prefix of Hadoop's object store settings, a section of `connector.storage`."""

_PLAINTEXT_NOTICE = (
    "a plaintext secret, visible to everybody who can read the file; write ${NAME} and set NAME in "
    "the environment of the service, or ${file:PATH}"
)
_NO_BROKER = (
    "bootstrap-servers is missing; write host:port, or set KAFKA_BOOTSTRAP_SERVERS in the "
    "environment"
)
_UPSERT_WITHOUT_KEYS = (
    "key-columns are missing, so every record is appended; for one row for each key, name the "
    "fields that identify a row"
)
_KEYS_WITHOUT_UPSERT = (
    "key-columns without enable-upsert; write enable-upsert: true for one row for each key, or "
    "enable-upsert: false to append every record"
)
_SCHEDULED = {
    "enable_optimize": ("optimize_interval", "write optimize-interval"),
    "enable_compaction": ("compaction_interval", "write compaction-interval"),
    "enable_vacuum": (None, "run bayou vacuum instead"),
}
"""For each key that enables a maintenance task, a pair.

A task runs on the schedule of maintenance. Some tasks also run after an interval, which is a number
of written records. The first element is the key of this interval; None if the task has no interval.
The second element is the advice for the user if there is neither a schedule nor an interval.
"""
_OF_REGISTRY = {
    "decode": ("protobuf", "json-schema"),
    "decode-key": ("avro", "protobuf", "json-schema"),
}
"""For each key that sets a record format, the formats that need a schema registry."""
_DEBEZIUM_WITHOUT_UPSERT = (
    "debezium needs an upsert, which has one row for each key; write enable-upsert: true and "
    "key-columns, or decode: json to append the envelopes unchanged"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A one-line message about a key of the configuration."""

    key: str
    line: int | None
    text: str


def notices(
    config: PipelineConfig, document: Document, s3a: Mapping[str, str | None]
) -> tuple[Notice, ...]:
    """Return notices about plaintext secrets, s3a settings, and keys that have no effect.

    `s3a` is the result of `take_s3a_settings`, which moves s3a settings to `connector.storage`.
    """
    result: list[Notice] = []

    def note(path: KeyPath, reason: str) -> None:
        result.append(_notice(document, path, reason))

    for key, topic in config.connector.topics.items():
        delta = topic.destination.delta_config
        for name, switch in _MAINTENANCE.items():
            if getattr(delta, name) not in (None, ()) and not getattr(delta, switch):
                at = (*_delta_path(key), name.replace("_", "-"))
                note(at, f"not used without {switch.replace('_', '-')}: true")
        if config.connector.maintenance.seconds is None:
            for switch, (interval, instead) in _SCHEDULED.items():
                if getattr(delta, switch) and not (interval and getattr(delta, interval)):
                    at = (*_delta_path(key), switch.replace("_", "-"))
                    note(at, f"does nothing with maintenance.schedule: off; {instead}")
        if delta.enable_upsert and not topic.destination.upsert_keys:
            note((*_delta_path(key), "enable-upsert"), _UPSERT_WITHOUT_KEYS)
        processing = topic.processing
        if "on_filtered" in processing.model_fields_set:
            at = ("connector", "topics", key, "processing", "on-filtered")
            if processing.where is None:
                note(at, "not used without where")
            elif not topic.destination.upsert_keys:
                note(at, "not used: without enable-upsert and key-columns, no row is replaced")
        if (routes := topic.destination.route_by) is not None:
            at = ("connector", "topics", key, "destination", "route-by")
            if "max_tables" in routes.model_fields_set and routes.table_path is None:
                note(
                    (*at, "max-tables"),
                    "not used without table-path: only the values in tables have a table",
                )
            if "on_unmatched" in routes.model_fields_set and routes.table_path is not None:
                note(
                    (*at, "on-unmatched"),
                    "not used with table-path: it defines a table for each value",
                )
        if topic.destination.ordering_column is not None and not topic.destination.upsert_keys:
            at = ("connector", "topics", key, "destination", "ordering-column")
            note(at, "not used: without enable-upsert and key-columns, every record is appended")
        if "enable_upsert" in delta.model_fields_set and not delta.enable_upsert:
            for columns, parent in (
                (topic.destination.key_columns, ("connector", "topics", key, "destination")),
                (delta.key_columns, _delta_path(key)),
            ):
                if columns:
                    at = (*parent, "key-columns")
                    note(at, "not used: with enable-upsert: false, every record is appended")
    migration = config.connector.migration
    if migration.json_path and not migration.enabled:
        at = ("connector", "migration", "json-path")
        note(at, "not used without enabled: true; bayou migrate takes a path as an argument")
    for conf in _dropped(config.connector.spark):
        note(
            ("connector", "spark", conf),
            "not used: the setting loads delta-spark, whose JAR isn't needed",
        )
    for conf in config.connector.spark.conf():
        for prefix, section in _HADOOP_STORES.items():
            if conf.startswith(prefix):
                note(
                    ("connector", "spark", conf),
                    f"not used: the object store is configured by connector.storage.{section}",
                )
    for conf, storage_key in s3a.items():
        note(
            ("connector", "spark", conf),
            "not used: the object store is configured by connector.storage"
            if storage_key is None
            else f"used as connector.storage.{storage_key}, unless that key is set",
        )
    catalog = config.connector.catalog
    if (
        catalog is not None
        and catalog.type == "session"
        and config.connector.spark.conf().get(IMPLEMENTATION) != "hive"
    ):
        note(
            ("connector", "catalog"),
            "the session catalog is in memory, so its entries are lost when the run ends; set "
            f"{IMPLEMENTATION}: hive in connector.spark",
        )
    for path in clear_secrets(document):
        note(path, _PLAINTEXT_NOTICE)
    return tuple(result)


def refusals(config: PipelineConfig, document: Document) -> tuple[Notice, ...]:
    """Return a notice for each setting that prevents a pipeline from starting."""
    result: list[Notice] = []
    refused = client_refusal(config.connector.kafka)
    if refused is not None:
        path, reason = refused
        result.append(_notice(document, ("connector", "kafka", *path), reason))
    options = config.connector.storage.storage_options()
    for table in {topic.destination.path for topic in config.connector.topics.values()}:
        problem = opening_problem(table, options)
        if problem is not None:
            result.append(_notice(document, ("connector", "storage"), problem))
    catalog = config.connector.catalog
    problem = None if catalog is None else catalog.problem(config.connector.spark.conf())
    if problem is not None:
        result.append(_notice(document, ("connector", "catalog"), problem))
    registry = config.connector.schema_registry
    if registry is not None and (refused := registry_refusal(registry)) is not None:
        path, reason = refused
        result.append(_notice(document, ("connector", "schema-registry", *path), reason))
    for key, topic in config.connector.topics.items():
        destination = topic.destination
        delta = destination.delta_config
        key_columns = [
            (("connector", "topics", key, "destination", "key-columns"), destination.key_columns),
            ((*_delta_path(key), "key-columns"), delta.key_columns),
        ]
        if topic.decode == "debezium" and not destination.upsert_keys:
            result.append(
                _notice(document, ("connector", "topics", key, "decode"), _DEBEZIUM_WITHOUT_UPSERT)
            )
        for name, form in (("decode", topic.decode), ("decode-key", topic.decode_key)):
            if registry is None and form in _OF_REGISTRY[name]:
                at = ("connector", "topics", key, name)
                result.append(_notice(document, at, f"{form} needs connector.schema-registry"))
        if (
            registry is not None
            and registry.subject_name_strategy in ("record-name", "topic-record-name")
            and topic.schema_record is None
            and topic.decode in ("avro", "protobuf", "json-schema")
        ):
            strategy = registry.subject_name_strategy
            reason = (
                f"subject-name-strategy {strategy} requires this key; set the full name of the type"
            )
            at = ("connector", "topics", key, "schema-record")
            result.append(_notice(document, at, reason))
        if topic.decode == "avro" and not (config.connector.schema_registry or topic.schema_file):
            at = ("connector", "topics", key, "decode")
            result.append(
                _notice(document, at, "avro needs connector.schema-registry, or a schema-file")
            )
        if "enable_upsert" not in delta.model_fields_set:
            result += [
                _notice(document, at, _KEYS_WITHOUT_UPSERT)
                for at, columns in key_columns
                if columns
            ]
    return tuple(result)


def missing_broker(config: PipelineConfig, document: Document) -> Notice | None:
    """Return a notice if neither the file nor the environment names the brokers; else None."""
    if config.connector.kafka.bootstrap_servers is not None:
        return None
    return _notice(document, ("connector", "kafka"), _NO_BROKER)


def without_delta_spark(conf: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's configuration without the extension and the catalog of delta-spark.

    If a conf lists several classes, the other classes are retained.
    """
    retained = dict(conf)
    for key, value in DROPPED_SPARK_CONF.items():
        if key in retained:
            classes = [c.strip() for c in retained[key].split(",") if c.strip() != value]
            retained[key] = ",".join(classes)
            if not classes:
                del retained[key]
    return retained


def _notice(document: Document, path: KeyPath, reason: str) -> Notice:
    key = show_key(path)
    text = f"{document.where(path)}: {key}: {reason}"
    return Notice(key=key, line=document.line_of(path), text=text)


def _dropped(spark: SparkConfig) -> Iterator[str]:
    conf = spark.conf()
    retained = without_delta_spark(conf)
    return (key for key in DROPPED_SPARK_CONF if conf.get(key) != retained.get(key))


def _delta_path(key: str) -> tuple[str, ...]:
    return ("connector", "topics", key, "destination", "delta-config")
