"""Kafka topics to Delta tables, exactly once.

`load_configuration` reads a YAML file, and `run_pipeline` ingests the topics of the file.
`TopicTable` is an API for the table of one topic. It writes records without Kafka, compares the
schema, runs maintenance, reads earlier versions and migrates JSON files. The import of this package
starts nothing, and doesn't import Spark or pydantic.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import

if TYPE_CHECKING:
    from bayou.ingest.config import load_configuration
    from bayou.ingest.notebook_progress import NotebookProgress
    from bayou.ingest.runtime.pipeline import run_pipeline
    from bayou.ingest.topic_table.topic_table import TopicTable

__all__ = ["NotebookProgress", "TopicTable", "load_configuration", "run_pipeline"]

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        "NotebookProgress": "bayou.ingest.notebook_progress",
        "TopicTable": "bayou.ingest.topic_table.topic_table",
        "load_configuration": "bayou.ingest.config",
        "run_pipeline": "bayou.ingest.runtime.pipeline",
    },
)
