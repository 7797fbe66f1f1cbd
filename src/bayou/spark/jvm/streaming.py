"""Sources and start offsets of streaming queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayou.spark.jvm.objects import (
    JavaObject,
    JvmError,
    java_class,
    scala_items,
    tested_with,
)

__all__ = ["set_start_offset", "streaming_options"]


@tested_with("4.2", "4.3")
def streaming_options(frame: Any, source: str, *names: str) -> Iterator[list[str | None]]:
    """For each source of one kind in a streaming DataFrame, yield the values of some options.

    Call this before the query starts. The value of an unset option is None.

    Args:
        source: name of the sources, such as `delta`. Other sources are skipped.
        names: names of the options.
    """
    for leaf in scala_items(frame._jdf.queryExecution().analyzed().collectLeaves()):
        if leaf.nodeName() != "StreamingRelationV2" or leaf.sourceName() != source:
            continue
        try:
            options = leaf.extraOptions()
        except JvmError:  # a Spark version without this method
            continue
        values = (options.get(name) for name in names)
        yield [None if value is None else str(value) for value in values]


@tested_with("4.2", "4.3")
def set_start_offset(spark: Any, option: tuple[str, str], offset: str) -> bool:
    """Set the start offset of a source in a running query; return whether it was set.

    A source matches if it has the option and no start offset yet. If several sources match, no
    offset is set. This happens if several queries share a `load()`, and therefore its options.

    Args:
        option: name and value of an option of the source.
        offset: JSON of the offset.
    """
    streams = []
    for query in spark._jsparkSession.sharedState().activeStreamingQueries().values():
        stream = _new_stream(query, *option)
        if stream is not None:
            streams.append((query.getLatestExecutionContext(), stream))
    if len(streams) != 1:
        return False
    ((context, stream),) = streams
    start = stream.deserializeOffset(offset)
    # Not `++`: it is overloaded in the JVM, and py4j may choose the wrong overload.
    offsets = context.startOffsets().updated(stream, start)
    progress = java_class(
        offsets, "org.apache.spark.sql.execution.streaming.runtime.StreamProgress"
    )
    getattr(context, "startOffsets_$eq")(progress(offsets))
    return True


def _new_stream(query: JavaObject, name: str, value: str) -> JavaObject | None:
    """In a running query, return the source whose option `name` has the value `value`.

    Returns None if no source has this option, or if the source already has a start offset.
    """
    try:
        leaves = scala_items(query.logicalPlan().collectLeaves())
    except JvmError:  # the query isn't planned yet, so it has no sources
        return None
    context = query.getLatestExecutionContext()
    for leaf in leaves:
        if leaf.nodeName() != "StreamingDataSourceV2ScanRelation":
            continue
        if leaf.relation().options().get(name) == value:
            stream = leaf.stream()
            return None if context.startOffsets().contains(stream) else stream
    return None
