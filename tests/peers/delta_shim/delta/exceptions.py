"""`delta.exceptions`."""

from bayou.spark.exceptions import *  # noqa: F403
