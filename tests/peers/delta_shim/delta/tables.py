"""`delta.tables`."""

from bayou.spark import DeltaTable, IdentityGenerator
from bayou.spark.delta_table.merge_builder import DeltaMergeBuilder
from bayou.spark.delta_table.optimize_builder import DeltaOptimizeBuilder
from bayou.spark.delta_table.table_builder import DeltaTableBuilder

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
]
