"""The API for programs without Spark: `table`, `write`, and the handles that `table` returns.

Start reading at `table`.
"""

from typing import TYPE_CHECKING

from bayou.api.snapshot import SnapshotHandle
from bayou.api.table import TableHandle, table
from bayou.lazy_import import lazy_getattr as _lazy_getattr

if TYPE_CHECKING:
    from bayou.api.changes import ChangesHandle
    from bayou.api.commands.alter import TableAlterer
    from bayou.api.commands.merge import TableMerger
    from bayou.api.commands.optimize import TableOptimizer
    from bayou.api.conditions import Condition
    from bayou.api.creation import create, exists
    from bayou.api.iceberg_metadata import IcebergMetadata
    from bayou.api.queries.duckdb_query import sql
    from bayou.api.queries.polars_scan import scan_polars
    from bayou.api.rows.variants import VariantType, variants_from_json, variants_to_json
    from bayou.api.writer import write

__all__ = [
    "ChangesHandle",
    "Condition",
    "IcebergMetadata",
    "SnapshotHandle",
    "TableAlterer",
    "TableHandle",
    "TableMerger",
    "TableOptimizer",
    "VariantType",
    "create",
    "exists",
    "scan_polars",
    "sql",
    "table",
    "variants_from_json",
    "variants_to_json",
    "write",
]

_MODULES = {
    "ChangesHandle": "changes",
    "Condition": "conditions",
    "IcebergMetadata": "iceberg_metadata",
    "TableAlterer": "commands.alter",
    "TableMerger": "commands.merge",
    "TableOptimizer": "commands.optimize",
    "VariantType": "rows.variants",
    "create": "creation",
    "exists": "creation",
    "scan_polars": "queries.polars_scan",
    "sql": "queries.duckdb_query",
    "variants_from_json": "rows.variants",
    "variants_to_json": "rows.variants",
    "write": "writer",
}

__getattr__ = _lazy_getattr(
    __name__, {name: f"bayou.api.{module}" for name, module in _MODULES.items()}
)
