"""Settings of a session's conf, handed to data sources, which plan where no conf is seen."""

from __future__ import annotations

from typing import Any

from bayou.spark.requests import ReadRequest
from bayou.spark.settings import conf_as_options

__all__ = ["hand_over_settings"]


def hand_over_settings(request: ReadRequest) -> Any:
    """Set what the conf says as options of a read, unless the user has set them; declines."""
    for name, value in conf_as_options(request.spark, request.options).items():
        request.reader.option(name, value)
    return NotImplemented
