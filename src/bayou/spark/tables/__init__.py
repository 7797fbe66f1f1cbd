from bayou.spark.tables.delta_table import DeltaTable
from bayou.spark.tables.merge_builder import DeltaMergeBuilder
from bayou.spark.tables.optimize_builder import DeltaOptimizeBuilder, DeltaReorgBuilder
from bayou.spark.tables.table_builder import DeltaTableBuilder, IdentityGenerator

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaReorgBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
]
