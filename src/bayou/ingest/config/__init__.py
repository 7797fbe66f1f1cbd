"""The pipeline's configuration: one YAML file. Validation errors name the file and the line."""

from bayou.ingest.config.configuration import Configuration, Topic
from bayou.ingest.config.load import load_configuration
from bayou.ingest.config.model import PipelineConfig
from bayou.ingest.config.notices import Notice, without_delta_spark
from bayou.ingest.config.topic import TopicConfig

__all__ = [
    "Configuration",
    "Notice",
    "PipelineConfig",
    "Topic",
    "TopicConfig",
    "load_configuration",
    "without_delta_spark",
]
