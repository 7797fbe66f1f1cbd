from bayou.spark.errors import short_message
from bayou.spark.replay import clear_cache
from bayou.spark.session import disable, enable, start_session
from bayou.spark.statements import sql

__all__ = ["clear_cache", "disable", "enable", "short_message", "sql", "start_session"]
