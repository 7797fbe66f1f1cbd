"""The configured definition of a topic's table: properties, clustering columns and comments.

A new table is created with the definition. An existing table is compared with it: differences are
reported, and applied only on request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayou.errors import SchemaError
from bayou.ingest.config import Topic
from bayou.kernel import Engine, Snapshot, TransactionBuilder
from bayou.kernel.commands.alter.change_column import change_comment
from bayou.kernel.commands.alter.cluster_by import cluster_by
from bayou.kernel.commands.alter.properties import set_properties
from bayou.kernel.commands.alter.schema_paths import field_at, with_changed_field
from bayou.kernel.table_features.column_dependencies import ColumnPath, quote_path
from bayou.protocol import properties
from bayou.protocol.schema import StructField, StructType

_COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """A setting of `destination` in the YAML that the table doesn't match.

    Attributes:
        setting: the YAML key of the setting, such as `cluster-by`.
        configured: the configured value.
        actual: the value in the table; None if the table has none.
    """

    setting: str
    configured: str
    actual: str | None

    def __str__(self) -> str:
        actual = "the table has none" if self.actual is None else f"the table has {self.actual!r}"
        return f"{self.setting} is {self.configured!r}, {actual}"


def with_definition(builder: TransactionBuilder, topic: Topic) -> TransactionBuilder:
    """Add the configured properties, clustering columns and comment to a new table."""
    destination = topic.config.destination
    builder = builder.with_table_properties(
        properties.normalize(destination.delta_config.table_properties)
    )
    if destination.cluster_by:
        builder = builder.with_clustering_columns(destination.clustering_paths)
    return builder.with_description(destination.comment)


def lacks_layout_columns(topic: Topic, schema: StructType) -> bool:
    """Whether a schema lacks a configured partition column or clustering column of the topic."""
    destination = topic.config.destination
    return any(name not in schema.names for name in destination.partition_columns) or any(
        _field(topic, schema, path) is None for path in destination.clustering_paths
    )


def with_column_comments(topic: Topic, schema: StructType) -> StructType:
    """Add the configured comments to the columns of a schema."""
    for path, comment in topic.config.destination.comment_paths.items():

        def commented(field: StructField, comment: str = comment) -> StructField:
            return replace(field, metadata={**field.metadata, _COMMENT: comment})

        if _field(topic, schema, path) is not None:
            schema = with_changed_field(topic.table_path, schema, path, commented)
    return schema


def table_differences(topic: Topic, snapshot: Snapshot) -> tuple[TableDifference, ...]:
    """Return the differences between the configured settings and a table.

    A configured comment is ignored if the table doesn't have the comment's column.
    """
    destination = topic.config.destination
    differences = [
        TableDifference(
            setting=f"delta-config.table-properties.{key}",
            configured=value,
            actual=snapshot.properties.get(key),
        )
        for key, value in _changed_properties(topic, snapshot).items()
    ]
    if _has_other_clustering(topic, snapshot):
        differences.append(
            TableDifference(
                setting="cluster-by",
                configured=_names(destination.clustering_paths),
                actual=_names(snapshot.clustering_columns) or None,
            )
        )
    if (comment := _changed_comment(topic, snapshot)) is not None:
        actual = snapshot.metadata.description
        differences.append(TableDifference(setting=_COMMENT, configured=comment, actual=actual))
    differences.extend(
        TableDifference(
            setting=f"column-comments.{quote_path(path)}", configured=comment, actual=actual
        )
        for path, (comment, actual) in _changed_column_comments(topic, snapshot).items()
    )
    return tuple(differences)


def apply_definition(
    engine: Engine, topic: Topic, snapshot: Snapshot, *, engine_info: str
) -> Snapshot:
    """Change a table to the configured definition, and return its latest snapshot.

    The properties and the table's comment are changed in one commit, the clustering columns in
    another commit, and the comment of each column in its own commit.

    Raises:
        IcebergCompatError, TablePropertyError, SchemaError, UnsupportedFeatureError: a change isn't
            possible.
        CommitConflictError: another writer changed the table at the same time.
    """
    changed = _changed_properties(topic, snapshot)
    if (comment := _changed_comment(topic, snapshot)) is not None:
        changed[_COMMENT] = comment
    if changed:
        set_properties(engine, snapshot, changed, engine_info=engine_info)
        snapshot = snapshot.refreshed(engine)
    if _has_other_clustering(topic, snapshot):
        paths = topic.config.destination.clustering_paths
        cluster_by(engine, snapshot, paths, engine_info=engine_info)
        snapshot = snapshot.refreshed(engine)
    return comment_columns(engine, topic, snapshot, engine_info=engine_info)


def comment_columns(
    engine: Engine, topic: Topic, snapshot: Snapshot, *, engine_info: str
) -> Snapshot:
    """Set the configured comments of a table's columns, and return the table's latest snapshot."""
    for path, (comment, _) in _changed_column_comments(topic, snapshot).items():
        change_comment(engine, snapshot, path, comment, engine_info=engine_info)
        snapshot = snapshot.refreshed(engine)
    return snapshot


def _changed_properties(topic: Topic, snapshot: Snapshot) -> dict[str, str]:
    configured = properties.normalize(topic.config.destination.delta_config.table_properties)
    return {k: v for k, v in configured.items() if snapshot.properties.get(k) != v}


def _has_other_clustering(topic: Topic, snapshot: Snapshot) -> bool:
    configured = _names(topic.config.destination.clustering_paths).lower()
    return bool(configured) and configured != _names(snapshot.clustering_columns).lower()


def _changed_comment(topic: Topic, snapshot: Snapshot) -> str | None:
    comment = topic.config.destination.comment
    return None if comment == (snapshot.metadata.description or "") else comment


def _changed_column_comments(
    topic: Topic, snapshot: Snapshot
) -> dict[ColumnPath, tuple[str, str | None]]:
    """Return the configured and the actual comment of each column where the two differ.

    The keys are the paths of the columns.
    """
    changed: dict[ColumnPath, tuple[str, str | None]] = {}
    for path, comment in topic.config.destination.comment_paths.items():
        field = _field(topic, snapshot.schema, path)
        if field is not None and field.metadata.get(_COMMENT, "") != comment:
            changed[path] = (comment, field.metadata.get(_COMMENT))
    return changed


def _field(topic: Topic, schema: StructType, path: ColumnPath) -> StructField | None:
    try:
        return field_at(topic.table_path, schema, path)
    except SchemaError:
        return None


def _names(paths: tuple[ColumnPath, ...]) -> str:
    return ", ".join(quote_path(path) for path in paths)
