"""Kafka topics to Delta tables, exactly once.

`bayou.ingest.config.load_configuration` reads a YAML file, `bayou.ingest.pipeline.run_pipeline` runs
it. Importing this package starts nothing and imports neither Spark nor pydantic.
"""
