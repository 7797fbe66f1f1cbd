"""Sources, start offsets and micro-batches of streaming queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bayou.spark.jvm.objects import (
    JavaObject,
    JvmError,
    class_name,
    java_class,
    scala_items,
    tested_with,
)

__all__ = [
    "MicroBatch",
    "current_micro_batch",
    "runs_micro_batch",
    "set_start_offset",
    "streaming_options",
]


class MicroBatch(NamedTuple):
    """Identifies a micro-batch of a streaming query.

    Attributes:
        query: id of the query.
        run: id of the query's run, which changes when the query is restarted.
        number: id of the micro-batch.
    """

    query: str
    run: str
    number: str


@tested_with("4.3")
def current_micro_batch(spark: Any) -> MicroBatch | None:
    """Return the micro-batch that the JVM's current thread plans or runs; None if there is none.

    The function of `foreachBatch` also runs in the thread of its micro-batch.
    """
    context = spark.sparkContext
    number = context.getLocalProperty("streaming.sql.batchId")
    if number is None:
        return None
    query = context.getLocalProperty("sql.streaming.queryId")
    run = context.getLocalProperty("spark.jobGroup.id")
    return MicroBatch(str(query), str(run), str(number))


@tested_with("4.3")
def runs_micro_batch(spark: Any) -> bool:
    """Whether the JVM's current thread runs the plan of a micro-batch.

    False for other plans, such as queries in the function of `foreachBatch`.
    """
    execution = spark.sparkContext.getLocalProperty("spark.sql.execution.id")
    if execution is None:
        return False
    executions = java_class(spark._jvm, "org.apache.spark.sql.execution.SQLExecution")
    query = executions.getQueryExecution(int(execution))
    return query is not None and class_name(query) == "IncrementalExecution"


@tested_with("4.2", "4.3")
def streaming_options(frame: Any, source: str, *names: str) -> Iterator[list[str | None]]:
    """Yield the values of some options for each `source` in a streaming DataFrame.

    Must be called before the query starts. The value of an unset option is None.

    Args:
        source: name of a data source, such as `delta`. Other sources are skipped.
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

    The source must have the option `option`, and no start offset yet. If several running queries
    have such a source, no offset is set. Queries that share a `load()` have the same options.

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
    """Return the source of a running query that has the value `value` for the option `name`.

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
