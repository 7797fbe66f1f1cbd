from bayou.spark.native.door import load

__all__ = ["load"]
