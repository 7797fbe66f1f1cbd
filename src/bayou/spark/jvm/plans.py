"""Properties of DataFrames, such as sizes and filters, from their analyzed or optimized plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from bayou.spark.jvm.expressions import CatalystFilter
from bayou.spark.jvm.objects import (
    JavaObject,
    class_name,
    java_class,
    scala_items,
    scala_seq,
    tested_with,
)

__all__ = [
    "analyzed_plan",
    "are_columns_deterministic",
    "common_qualifier",
    "counted_relation",
    "default_row_bytes",
    "first_relation_option",
    "frame_of",
    "has_metadata_columns",
    "is_deterministic",
    "is_sorted_by",
    "leaf_bytes",
    "leaf_classes",
    "observed_values",
    "physical_plan",
    "plan_alias",
    "plan_bytes",
    "reads_rdds",
    "reads_several_rows",
    "relation_filters",
    "relation_options",
    "unfiltered_relation",
    "with_qualifier",
]


@tested_with("4.2", "4.3")
def analyzed_plan(frame: Any) -> JavaObject:
    """A DataFrame's analyzed plan."""
    return frame._jdf.queryExecution().analyzed()


@tested_with("4.2", "4.3")
def plan_alias(frame: Any) -> str | None:
    """Return a DataFrame's alias; None if the DataFrame has no alias."""
    plan = analyzed_plan(frame)
    return str(plan.alias()) if class_name(plan) == "SubqueryAlias" else None


@tested_with("4.3")
def common_qualifier(frame: Any) -> str | None:
    """Return the qualifier of a DataFrame's columns, such as an alias or the name of a table.

    Columns without a qualifier are ignored. Returns None if there are several qualifiers or none.
    """
    columns = scala_items(analyzed_plan(frame).output())
    qualifiers = [list(scala_items(column.qualifier())) for column in columns]
    names = {str(parts[-1]) for parts in qualifiers if parts}
    return names.pop() if len(names) == 1 else None


@tested_with("4.3")
def is_deterministic(frame: Any) -> bool:
    """Whether a DataFrame's plan shows that the DataFrame has the same rows in each computation."""
    return bool(analyzed_plan(frame).deterministic()) and not reads_rdds(frame)


@tested_with("4.3")
def reads_rdds(frame: Any) -> bool:
    """Whether a DataFrame or its subqueries read RDDs whose rows may be computed again.

    A plan doesn't show how the rows of an RDD are computed. For example, the plan of a micro-batch
    in `foreachBatch` contains only an RDD. The rows of a checkpointed RDD are stored, so such an
    RDD is ignored.
    """
    plan = analyzed_plan(frame)
    parts = (plan, *scala_items(plan.subqueriesAll()))
    leaves = [leaf for part in parts for leaf in scala_items(part.collectLeaves())]
    rdds = [leaf.rdd() for leaf in leaves if class_name(leaf) == "LogicalRDD"]
    return any(not rdd.isCheckpointed() for rdd in rdds)


@tested_with("4.3")
def are_columns_deterministic(frame: Any) -> bool:
    """Whether the expressions of a DataFrame's last `select` are deterministic."""
    return all(e.deterministic() for e in scala_items(analyzed_plan(frame).expressions()))


@tested_with("4.3")
def is_sorted_by(frame: Any, *columns: Any) -> bool:
    """Whether the last operation of a DataFrame is a global sort by these columns, ascending."""
    plan = analyzed_plan(frame)
    while class_name(plan) == "SubqueryAlias":
        plan = plan.child()
    if class_name(plan) != "Sort" or not getattr(plan, "global")():
        return False
    order = list(scala_items(plan.order()))
    expected = list(scala_items(analyzed_plan(frame.orderBy(*columns)).order()))
    return len(order) >= len(expected) and all(
        own.semanticEquals(other) for own, other in zip(order, expected, strict=False)
    )


@tested_with("4.2", "4.3")
def has_metadata_columns(frame: Any) -> bool:
    """Whether a DataFrame has hidden metadata columns, such as `_metadata` of files."""
    return not analyzed_plan(frame).metadataOutput().isEmpty()


@tested_with("4.3")
def relation_options(frame: Any, name: str) -> Iterator[str]:
    """Yield the value of a read option for each relation that a DataFrame or its subqueries read.

    Relations without the option are omitted.

    Args:
        name: the option's name in lower case.
    """
    plan = analyzed_plan(frame)
    for part in (plan, *scala_items(plan.subqueriesAll())):
        for leaf in scala_items(part.collectLeaves()):
            value = _relation_option(leaf, name)
            if value is not None:
                yield value


@tested_with("4.3")
def first_relation_option(frame: Any, name: str) -> str | None:
    """Return the value of a read option for the first relation that a DataFrame reads.

    Returns None if the option isn't set.

    Args:
        name: the option's name in lower case.
    """
    return _relation_option(scala_items(analyzed_plan(frame).collectLeaves())[0], name)


@tested_with("4.3")
def unfiltered_relation(frame: Any, name: str) -> str | None:
    """Return the value of a read option for the relation that has exactly a DataFrame's rows.

    Returns None if there is no such relation, because the DataFrame filters, joins, repeats or
    limits rows. Also returns None if the DataFrame is cached, or if the option isn't set.

    Args:
        name: the option's name in lower case.
    """
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        return None
    return _only_relation(analyzed_plan(frame), name)


@tested_with("4.3")
def reads_several_rows(frame: Any) -> bool:
    """Whether the last `select` of a DataFrame uses an aggregate, window or generator function."""
    plan = analyzed_plan(frame)
    while class_name(plan) == "Project":
        plan = plan.child()
    return class_name(plan) in ("Aggregate", "Generate", "Window")


@tested_with("4.3")
def counted_relation(frame: Any, name: str) -> str | None:
    """Return the value of a read option for the relation whose rows a DataFrame counts.

    Returns None if the DataFrame isn't the result of `SELECT count(*) FROM relation`, or if the
    option isn't set.

    Args:
        name: the option's name in lower case.
    """
    plan = analyzed_plan(frame)
    if class_name(plan) != "Aggregate" or not plan.groupingExpressions().isEmpty():
        return None
    columns = list(scala_items(plan.aggregateExpressions()))
    if len(columns) != 1 or class_name(columns[0]) != "Alias":
        return None
    aggregate = columns[0].child()
    if class_name(aggregate) != "AggregateExpression" or aggregate.isDistinct():
        return None
    function = aggregate.aggregateFunction()
    if aggregate.filter().isDefined() or class_name(function) != "Count":
        return None
    counted = list(scala_items(function.children()))
    if any(class_name(c) != "Literal" or c.nullable() for c in counted):
        return None
    return _only_relation(plan.child(), name)


def _only_relation(plan: JavaObject, name: str) -> str | None:
    while class_name(plan) in ("Project", "SubqueryAlias", "View"):
        plan = plan.child()
    return _relation_option(plan, name)


@tested_with("4.3")
def relation_filters(frame: Any, name: str) -> Iterator[tuple[str, list[CatalystFilter]]]:
    """Yield the value of a read option and the filters for each scan in the optimized plan.

    Scans without the option are omitted.

    Args:
        name: the option's name in lower case.
    """
    plan = _optimized(frame)
    for part in (plan, *scala_items(plan.subqueriesAll())):
        yield from _scan_filters(part, name, [])


def _scan_filters(
    node: JavaObject, name: str, conditions: list[JavaObject]
) -> Iterator[tuple[str, list[CatalystFilter]]]:
    """Yield the results of `relation_filters` for the scans at or below a node of the plan.

    Args:
        conditions: the conditions of the filter nodes directly above the node.
    """
    if class_name(node) == "Filter":
        yield from _scan_filters(node.child(), name, [*conditions, *_conjuncts(node.condition())])
        return
    children = scala_items(node.children())
    for child in children:
        yield from _scan_filters(child, name, [])
    if not children:
        value = _relation_option(node, name)
        if value is not None:
            yield value, CatalystFilter.all_of(conditions)


def _conjuncts(condition: JavaObject) -> list[JavaObject]:
    if class_name(condition) != "And":
        return [condition]
    return [*_conjuncts(condition.left()), *_conjuncts(condition.right())]


def _relation_option(leaf: JavaObject, name: str) -> str | None:
    """Return the value of a read option for the relation at a leaf of a plan; None if unset."""
    value = None
    match class_name(leaf):
        case "LogicalRelation" if class_name(leaf.relation()) == "HadoopFsRelation":
            option = leaf.relation().options().get(name)
            value = option.get() if option.isDefined() else None
        case "DataSourceV2Relation":
            value = leaf.options().get(name)
        case "DataSourceV2ScanRelation":
            value = leaf.relation().options().get(name)
    return None if value is None else str(value)


@tested_with("4.2", "4.3")
def plan_bytes(frame: Any) -> int:
    """Return Spark's estimate of the total size of a DataFrame's rows, in bytes."""
    return _bytes(_optimized(frame))


@tested_with("4.2", "4.3")
def leaf_bytes(frame: Any) -> list[int]:
    """Return Spark's estimates of the sizes of a DataFrame's inputs, in bytes.

    An unknown size is 2^63 - 1 or more.
    """
    return [_bytes(leaf) for leaf in scala_items(_optimized(frame).collectLeaves())]


@tested_with("4.2", "4.3")
def leaf_classes(frame: Any) -> frozenset[str]:
    """Return the class names of the relations that a DataFrame or its subqueries read.

    If a DataFrame is cached, `InMemoryRelation` replaces its relations.
    """
    plan = frame._jdf.queryExecution().withCachedData()
    parts = (plan, *scala_items(plan.subqueriesAll()))
    return frozenset(class_name(leaf) for p in parts for leaf in scala_items(p.collectLeaves()))


@tested_with("4.3")
def physical_plan(frame: Any) -> str:
    """The text of a DataFrame's physical plan; each operator begins a line."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


@tested_with("4.2", "4.3")
def default_row_bytes(frame: Any) -> int:
    """Return the size in bytes that Spark assumes for a row with a DataFrame's columns."""
    return int(frame._jdf.schema().defaultSize())


@tested_with("4.2", "4.3")
def observed_values(frame: Any, name: str) -> tuple[Any, ...] | None:
    """Return the values of an observation (`DataFrame.observe`).

    The result is None if the DataFrame hasn't been computed yet.

    Args:
        name: the observation's name.
    """
    observation = frame._jdf.queryExecution().observedMetrics().get(name)
    if observation.isEmpty():
        return None
    row = observation.get()
    return tuple(row.get(number) for number in range(row.size()))


@tested_with("4.3")
def with_qualifier(frame: Any, qualifier: Sequence[str]) -> DataFrame:
    """Return a DataFrame whose columns can be qualified by the name of a table.

    `DataFrame.alias` isn't used, because it would remove hidden columns such as `_metadata`.

    Args:
        qualifier: the parts of the table's name. With three parts `a`, `b` and `c`, the column `id`
            is also `c.id`, `b.c.id` and `a.b.c.id`.
    """
    plan = analyzed_plan(frame)
    parts = scala_seq(plan, list(qualifier))
    columns = [column.withQualifier(parts) for column in scala_items(plan.output())]
    project = java_class(plan, "org.apache.spark.sql.catalyst.plans.logical.Project")
    return frame_of(frame.sparkSession, project(scala_seq(plan, columns), plan))


@tested_with("4.3")
def frame_of(spark: Any, plan: JavaObject) -> DataFrame:
    """Return the DataFrame of a logical plan."""
    datasets = getattr(java_class(plan, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
    return DataFrame(datasets.ofRows(spark._jsparkSession, plan), spark)


def _optimized(frame: Any) -> JavaObject:
    return frame._jdf.queryExecution().optimizedPlan()


def _bytes(plan: JavaObject) -> int:
    return int(str(plan.stats().sizeInBytes()))
