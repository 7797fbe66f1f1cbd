"""Entries, manifests and manifest lists of Iceberg: classes, readers, writers and filters.

`entries` has the fields of Iceberg's spec. Start reading at `manifest_reader` and
`manifest_writer`. `entry_encoder` and `pyiceberg_writers` call and extend pyiceberg's writers.
`encoded_manifest` and `manifest_filter` find and remove files without decoding all entries.
"""

__all__: list[str] = []
