"""Kafka topics to Delta tables, exactly once.

`bayou.ingest.config.load_configuration` reads a YAML file and `run_pipeline` of
`bayou.ingest.pipeline` runs it. Importing this package starts nothing and imports neither Spark nor
pydantic.
"""
