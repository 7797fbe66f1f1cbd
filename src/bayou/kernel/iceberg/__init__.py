"""Iceberg metadata of a Delta table (`delta.universalFormat.enabledFormats = 'iceberg'`).

`delta_to_iceberg` converts commits; start there. `snapshot_writer` applies a commit to the
manifests of the previous snapshot. `manifests` reads and writes manifests and manifest lists. The
other modules map schemas, files and values. pyiceberg and fastavro (extra `iceberg`) are imported
in the functions that use them.
"""

__all__: list[str] = []
