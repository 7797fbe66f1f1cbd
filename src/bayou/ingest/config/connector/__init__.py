"""The section `connector` of the YAML file: Kafka, registry, storage, catalog, operations."""
