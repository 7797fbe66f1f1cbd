from bayou.spark.session import disable, enable, start_session

__all__ = ["disable", "enable", "start_session"]
