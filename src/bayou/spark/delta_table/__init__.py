"""`DeltaTable`, a drop-in for `delta.tables.DeltaTable`, and its builders.

Start reading at `delta_table`.
"""

from bayou.spark.delta_table.delta_table import DeltaTable
from bayou.spark.delta_table.merge_builder import DeltaMergeBuilder
from bayou.spark.delta_table.optimize_builder import DeltaOptimizeBuilder, DeltaReorgBuilder
from bayou.spark.delta_table.table_builder import DeltaTableBuilder, IdentityGenerator

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaReorgBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
]
