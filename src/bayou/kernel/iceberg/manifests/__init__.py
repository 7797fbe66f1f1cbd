"""Manifests and manifest lists of Iceberg: entries, their encoding, reading, writing and removal.

`entries` has the fields of Iceberg's spec. Start with `manifest_reader` and `manifest_writer`.
`pyiceberg_writers` has pyiceberg's writers, which take encoded entries. `encoded_manifest` and
`manifest_filter` remove files without decoding the other entries.
"""

__all__: list[str] = []
