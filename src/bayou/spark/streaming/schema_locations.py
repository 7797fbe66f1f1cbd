"""Where streams keep the log of their schema: below the checkpoint of their query.

Elsewhere it would outlive the query, or serve two; delta-spark refuses it when a query starts,
whatever its sink, and so does an enabled session.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError

from bayou.spark.hooks.requests import StreamWriteRequest
from bayou.spark.streaming.errors import refusal

__all__ = ["check_schema_locations"]

_ANYWHERE = "spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


def check_schema_locations(request: StreamWriteRequest) -> Any:
    """Refuse `schemaTrackingLocation` outside of the checkpoint; declines.

    Raises:
        StreamingSourceError: DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT.
    """
    if request.connect:
        return NotImplemented
    conf = request.spark.conf
    for location, table in _schema_locations(request.df):
        if conf.get(_ANYWHERE, "false").lower() == "true":
            break
        given = {key.lower(): value for key, value in request.options.items()}
        checkpoint = given.get("checkpointlocation") or conf.get(_CHECKPOINTS, None)
        if checkpoint is None or not _plain(location).startswith(f"{_plain(checkpoint)}/"):
            raise refusal(
                "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT",
                f"The schemaTrackingLocation {location} of a stream of {table} isn't below the "
                f"query's checkpointLocation, {checkpoint or 'which it has none'}. Choose a folder "
                f"in it, such as {checkpoint or '<checkpointLocation>'}/schemas.",
                table=table,
            )
    return NotImplemented


def _schema_locations(frame: Any) -> Iterator[tuple[str, str]]:
    """Of a streaming DataFrame's sources that have one, with their tables."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001  # as elsewhere
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.nodeName() != "StreamingRelationV2":
            continue
        try:
            options = leaf.extraOptions()
        except Py4JError:  # another Spark calls them otherwise
            continue
        location = options.get("schemaTrackingLocation")
        if location is not None and leaf.sourceName() == "delta":
            yield str(location), str(options.get("path"))


def _plain(location: str) -> str:
    """A folder without what may be written in several ways."""
    path = posixpath.normpath(location.removeprefix("file:"))
    return re.sub("^/+", "/", path)
