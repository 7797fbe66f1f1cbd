"""Compares a topic's table with the topic's schema file and settings.

For a topic without a schema file, this module finds masks and expressions whose fields aren't in
the table. For a topic with a schema file, loading the configuration checks that the fields are in
the schema file.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayou.api import SnapshotHandle
from bayou.api import table as open_table
from bayou.errors import ConfigurationError, StorageError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.batch.expressions import unseen_fields
from bayou.ingest.batch.target.stored_columns import record_columns_of
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.decode import record_columns
from bayou.ingest.inspection.schema_changes import SchemaChange, compare_schemas
from bayou.ingest.routing.inspection import routed_snapshots
from bayou.ingest.routing.routed_columns import all_columns
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.record_schema import topic_columns
from bayou.protocol.schema import StructType

_TIMEOUT = 10.0


def schema_file_changes(
    configuration: Configuration, topic: Topic, snapshot: SnapshotHandle
) -> tuple[SchemaChange, ...]:
    """Return the differences between a topic's table (`before`) and its schema file (`after`).

    Fields in `processing.drop` are ignored. Columns that don't store record fields, such as
    `_kafka_offset` and derived columns, are also ignored.

    Raises:
        ConfigurationError: the topic has no schema file.
    """
    schema = topic_schemas(configuration)[topic.section]
    if schema is None:
        raise ConfigurationError(
            f"{configuration.file}: connector.topics.{topic.section} has no schema-file to compare "
            "with. Set schema-file, or omit --schema-file to compare versions of the table.",
            file=configuration.file,
            key=f"connector.topics.{topic.section}.schema-file",
        )
    unstored = topic.config.processing.unstored
    before, after = (
        StructType(tuple(f for f in columns if f.name.lower() not in unstored))
        for columns in (record_columns_of(topic, snapshot.kernel), record_columns(schema))
    )
    return compare_schemas(before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenSettings:
    """Fields that a topic's settings name but for which the table has no column.

    Attributes:
        masks: paths of fields in the setting `masks`.
        fields: paths of fields that `processing.columns`, `processing.where` or `route-by` read.
    """

    masks: tuple[str, ...]
    fields: tuple[str, ...]


def unseen_settings(configuration: Configuration) -> dict[str, UnseenSettings]:
    """Find the fields that settings name but for which the table has no column.

    Only topics without a schema file are checked. The result has the fields of each topic, by the
    topic's key. Topics without such fields are omitted.

    Raises:
        BayouError: a table can't be opened, or its store doesn't answer within ten seconds.
    """
    topics = [
        t
        for t in configuration.topics
        if t.schema_file is None
        and (t.config.masks or t.config.processing.inputs or t.config.route_inputs)
    ]
    unseen: dict[str, UnseenSettings] = {}

    def check() -> None:
        for topic in topics:
            unseen[topic.key] = _unseen(configuration, topic)

    task = BackgroundTask(check)
    if not task.wait(_TIMEOUT):
        raise StorageError("the store doesn't answer", path=topics[0].table_path)
    task.finish()
    return {key: found for key, found in unseen.items() if found.masks or found.fields}


def _unseen(configuration: Configuration, topic: Topic) -> UnseenSettings:
    columns = topic_columns(topic, None)
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    if handle.exists():
        snapshot = handle.snapshot()
        routed = routed_snapshots(configuration, topic, snapshot)
        columns = all_columns(record_columns_of(topic, s.kernel) for s in (snapshot, *routed))
    elif not columns.fields:
        return UnseenSettings(masks=(), fields=())
    return UnseenSettings(
        masks=unseen_masks(topic, columns), fields=unseen_fields(topic.config, columns)
    )
