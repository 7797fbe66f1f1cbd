"""What a session's conf says, handed to data sources, which plan where no conf is seen."""

from __future__ import annotations

from typing import Any

from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.session.hadoop_storage import with_session_storage
from bayou.spark.session.settings import conf_as_options

__all__ = ["hand_over_settings"]


def hand_over_settings(request: ReadRequest) -> Any:
    """Set what the conf says as options of a read, unless the user has set them; declines."""
    found = conf_as_options(request.spark, request.options)
    for path in request.paths:
        found |= with_session_storage(request.spark, path, request.options)
    for name, value in found.items():
        if name not in request.options:
            request.reader.option(name, value)
    return NotImplemented
