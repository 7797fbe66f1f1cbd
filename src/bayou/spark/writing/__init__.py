from bayou.spark.writing.begun import BegunWrite, begin
from bayou.spark.writing.options import WriteOptions

__all__ = ["BegunWrite", "WriteOptions", "begin"]
