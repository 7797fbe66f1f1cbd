"""The short API: `table`, `write`, and the handles that `table` returns. Start with `table.py`."""

from bayou.api.changes import ChangesHandle
from bayou.api.duckdb_query import sql
from bayou.api.polars_scan import scan_polars
from bayou.api.table import SnapshotHandle, TableHandle, table
from bayou.api.variants import VariantType, variants_from_json, variants_to_json
from bayou.api.write import write

__all__ = [
    "ChangesHandle",
    "SnapshotHandle",
    "TableHandle",
    "VariantType",
    "scan_polars",
    "sql",
    "table",
    "variants_from_json",
    "variants_to_json",
    "write",
]
