"""The short API: `table`, `write`, and the handles that `table` returns. Start with `table.py`."""

from typing import TYPE_CHECKING

from bayou.api.snapshot import SnapshotHandle
from bayou.api.table import TableHandle, table
from bayou.lazy_import import lazy_getattr as _lazy_getattr

if TYPE_CHECKING:
    from bayou.api.alter import TableAlterer
    from bayou.api.changes import ChangesHandle
    from bayou.api.conditions import Condition
    from bayou.api.creation import create, exists
    from bayou.api.duckdb_query import sql
    from bayou.api.merge import TableMerger
    from bayou.api.optimize import TableOptimizer
    from bayou.api.polars_scan import scan_polars
    from bayou.api.variants import VariantType, variants_from_json, variants_to_json
    from bayou.api.writer import write

__all__ = [
    "ChangesHandle",
    "Condition",
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
    "TableAlterer": "alter",
    "TableMerger": "merge",
    "TableOptimizer": "optimize",
    "VariantType": "variants",
    "create": "creation",
    "exists": "creation",
    "scan_polars": "polars_scan",
    "sql": "duckdb_query",
    "variants_from_json": "variants",
    "variants_to_json": "variants",
    "write": "writer",
}

__getattr__ = _lazy_getattr(
    __name__, {name: f"bayou.api.{module}" for name, module in _MODULES.items()}
)
