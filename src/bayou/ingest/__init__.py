"""Kafka topics to Delta tables, exactly once.

`load_configuration` reads a YAML file, `run_pipeline` runs it, and a `TopicTable` is one topic's
table from a program: records written without Kafka, schema, maintenance, time travel, migration.
Importing this package starts nothing and imports neither Spark nor pydantic.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayou.ingest.config import load_configuration
    from bayou.ingest.pipeline import run_pipeline
    from bayou.ingest.topic_table import TopicTable

__all__ = ["TopicTable", "load_configuration", "run_pipeline"]

_MODULES = {
    "TopicTable": "bayou.ingest.topic_table",
    "load_configuration": "bayou.ingest.config",
    "run_pipeline": "bayou.ingest.pipeline",
}


def __getattr__(name: str) -> object:
    """What brings Arrow, pydantic or Spark with it is loaded on use."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'bayou.ingest' has no attribute {name!r}")
