from bayou.spark.upkeep.optimize import Rearranging
from bayou.spark.upkeep.vacuum import vacuum_table

__all__ = ["Rearranging", "vacuum_table"]
