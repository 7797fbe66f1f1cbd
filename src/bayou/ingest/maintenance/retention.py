"""Whether a vacuum keeps files as long as the table promises its readers."""

from __future__ import annotations

from bayou.api import table as open_table
from bayou.errors import ConfigurationError, StorageError
from bayou.ingest.background_task import Errand
from bayou.ingest.config import Configuration, Topic
from bayou.protocol.properties import DELETED_FILE_RETENTION

__all__ = ["check_retention"]

_HOUR = 3_600_000
_PATIENCE = 10.0


def check_retention(configuration: Configuration) -> None:
    """Refuse a retention that is shorter than the table's own; tables are opened for it.

    Raises:
        ConfigurationError: names the topics; a table that isn't there yet has the default.
        BayouError: a table can't be opened, or its store takes more than ten seconds to answer.
    """
    problems: list[str] = []

    def look() -> None:
        for topic in configuration.topics:
            problem = _problem(configuration, topic)
            if problem is not None:
                problems.append(problem)

    errand = Errand(look)
    if not errand.wait(_PATIENCE):
        raise StorageError("the store doesn't answer", path=configuration.topics[0].table_path)
    errand.finish()
    if problems:
        raise ConfigurationError("\n".join(problems), file=configuration.file)


def _problem(configuration: Configuration, topic: Topic) -> str | None:
    delta = topic.config.destination.delta_config
    hours = delta.vacuum_retention_hours
    if hours is None or not delta.enable_vacuum:
        return None
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    properties = handle.snapshot().properties if handle.exists() else {}
    own = DELETED_FILE_RETENTION.read(properties) or 0
    if hours * _HOUR >= own:
        return None
    key = f"connector.topics.{topic.key}.destination.delta-config.vacuum-retention-hours"
    return (
        f"{configuration.file}: {key}: {hours} hours are shorter than the {own / _HOUR:g} hours "
        f"that {topic.table_path} keeps files for its readers "
        "(delta.deletedFileRetentionDuration); write that many or more, or change the table's "
        "property first"
    )
