"""Iceberg metadata of a Delta table (`delta.universalFormat.enabledFormats = 'iceberg'`).

`conversion` converts commits; start there. `manifests` and `version_3` contain the writers, the
other modules the mapping of schemas, files and snapshots. No module imports pyiceberg or fastavro
when it is imported: they belong to the extra `iceberg`.
"""

__all__: list[str] = []
