"""`ViewPlan`: the plan that computes a temporary view from the columns of one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from bayou.spark.jvm.objects import (
    JavaObject,
    class_name,
    java_class,
    scala_items,
    scala_seq,
    tested_with,
)
from bayou.spark.jvm.plans import analyzed_plan, frame_of

__all__ = ["ViewColumn", "ViewPlan"]

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """A column of a view.

    Attributes:
        source: name of the table's column whose values the view's column shows unchanged. None for
            a computed column.
    """

    name: str
    source: str | None

    @property
    def keeps_name(self) -> bool:
        """Whether the column shows the table's column of the same name unchanged."""
        return self.source is not None and self.source.lower() == self.name.lower()


@tested_with("4.3")
class ViewPlan:
    """The operations of a view's plan that are applied to the rows of a table.

    Attributes:
        columns: the view's columns.
        table_columns: the types of the table's columns as SQL, by name.
        operations: names of Catalyst's plan classes, such as `Filter`, for all operations that
            aren't projections.
        is_deterministic: whether all computed columns are deterministic.
    """

    def __init__(self, view: DataFrame, table: DataFrame) -> None:
        """Determine the operations by comparing the plans of a view and of its table.

        Args:
            view: the rows of the view.
            table: the rows of the version of the table that the view reads.
        """
        self._session = view.sparkSession
        nodes = list(_left_spine(analyzed_plan(view)))
        read = list(_left_spine(analyzed_plan(table)))
        above, self._read = nodes[: -len(read)], nodes[-min(len(read), len(nodes))]
        same = [class_name(n) for n in nodes[-len(read) :]] == [class_name(n) for n in read]
        others = [n for n in above if class_name(n) not in ("Project", "SubqueryAlias", "View")]
        self.operations = [class_name(n) for n in others] if same else ["OtherRelation"]
        self._projections = [
            scala_items(n.projectList()) for n in above if class_name(n) == "Project"
        ]
        attributes = scala_items(self._read.output())
        self.table_columns = {str(a.name()): str(a.dataType().sql()) for a in attributes}
        items = [{_expression_id(item): item for item in p} for p in self._projections]
        sources = {_expression_id(a): str(a.name()) for a in attributes}
        self.columns = [
            ViewColumn(name=str(a.name()), source=_source(a, items, sources))
            for a in scala_items(nodes[0].output())
        ]
        self.is_deterministic = all(item.deterministic() for p in self._projections for item in p)

    @property
    def shows_whole_table(self) -> bool:
        """Whether the view has exactly the table's columns, unchanged and in the same order."""
        names = list(self.table_columns)
        return names == [column.name for column in self.columns] == self._sources

    @property
    def _sources(self) -> list[str | None]:
        return [column.source for column in self.columns]

    def project(self, rows: DataFrame, kept: Sequence[str] = ()) -> DataFrame | None:
        """Compute the view's columns from other rows of its table.

        Args:
            rows: a DataFrame with the table's columns.
            kept: names of further columns of `rows`. They follow the view's columns in the result.

        Returns:
            A DataFrame of the view's columns and `kept`. None if `rows` lacks a column of the table
            version that the view reads, or if such a column has another type in `rows`.
        """
        plan = analyzed_plan(rows)
        by_name = {str(a.name()).lower(): a for a in scala_items(plan.output())}
        alias = java_class(plan, f"{_EXPRESSIONS}.Alias")
        project = java_class(plan, f"{_PLANS}.Project")
        none = java_class(plan, "scala.Option").empty()
        inputs = []
        for attribute in scala_items(self._read.output()):
            value = by_name.get(str(attribute.name()).lower())
            if value is None or _type_of(value) != _type_of(attribute):
                return None
            renamed = alias(
                value,
                attribute.name(),
                attribute.exprId(),
                attribute.qualifier(),
                none,
                scala_seq(plan, []),
            )
            inputs.append(renamed)
        others = [by_name[name.lower()] for name in kept]
        for items in (inputs, *reversed(self._projections)):
            plan = project(scala_seq(plan, [*items, *others]), plan)
        return frame_of(self._session, plan)


def _source(
    attribute: JavaObject,
    projections: Sequence[Mapping[int, JavaObject]],
    sources: Mapping[int, str],
) -> str | None:
    """Return the table's column that a view's column shows unchanged; None for a computed column.

    Args:
        attribute: the view's column.
        projections: the projections between the view and the table, starting at the view. Each
            projection maps the expression ids of its columns to their expressions.
        sources: the names of the table's columns, by expression id.
    """
    shown = _expression_id(attribute)
    for items in projections:
        column = items.get(shown)
        while column is not None and _is_renaming(column):
            column = column.child()
        if column is None or class_name(column) != "AttributeReference":
            return None
        shown = _expression_id(column)
    return sources.get(shown)


def _type_of(attribute: JavaObject) -> Any:
    """Return a column's type as JSON values, without the properties in `_IGNORED`."""
    return json.loads(
        str(attribute.dataType().json()),
        object_hook=lambda item: {k: v for k, v in item.items() if k not in _IGNORED},
    )


_IGNORED = ("metadata", "containsNull", "valueContainsNull")
"""Properties of nested types that are ignored when a view is compared with its table."""


def _is_renaming(expression: JavaObject) -> bool:
    """Whether an expression is an alias, or a cast to the type that its value already has."""
    name = class_name(expression)
    return name == "Alias" or (
        name == "Cast" and expression.dataType().sql() == expression.child().dataType().sql()
    )


def _left_spine(plan: JavaObject) -> Iterator[JavaObject]:
    """Yield a plan, its first child, the first child of this child, and so on."""
    while True:
        yield plan
        children = scala_items(plan.children())
        if not children:
            return
        plan = children[0]


def _expression_id(expression: JavaObject) -> int:
    return int(expression.exprId().id())
