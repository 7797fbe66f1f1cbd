"""Iceberg metadata of a Delta table (`delta.universalFormat.enabledFormats = 'iceberg'`).

`conversion` converts commits; start there. `snapshot_writer` writes the manifests of a snapshot,
`manifest_writer` and `version_3` their files; the other modules map schemas, files and values. No
module imports pyiceberg or fastavro when it is imported: they belong to the extra `iceberg`.
"""

__all__: list[str] = []
