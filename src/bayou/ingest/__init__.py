"""Kafka topics to Delta tables, exactly once.

`bayou.ingest.pipeline.run_pipeline` runs a configuration; importing this package starts nothing and
doesn't import Spark.
"""

from bayou.ingest.config import Configuration, load_configuration

__all__ = ["Configuration", "load_configuration"]
