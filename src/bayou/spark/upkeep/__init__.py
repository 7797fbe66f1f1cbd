from bayou.spark.upkeep.inventory import Inventory
from bayou.spark.upkeep.optimize import Rearranging
from bayou.spark.upkeep.vacuum import vacuum_table

__all__ = ["Inventory", "Rearranging", "vacuum_table"]
