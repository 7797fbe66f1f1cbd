from bayou.spark.errors import short_message
from bayou.spark.session import disable, enable, start_session

__all__ = ["disable", "enable", "short_message", "start_session"]
