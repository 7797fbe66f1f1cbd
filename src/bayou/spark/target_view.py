"""`TargetView`: the temporary view through which a statement changes a table.

Conditions and values are computed from the view's columns, and values are assigned to the table's
columns of the same names. All other columns keep their values, including columns that the view
omits. delta-spark assigns the values in the same way.

A view can show a column of the table under the name of another column, such as `SELECT a AS b, b AS
a`. For this view, delta-spark evaluates the condition of an UPDATE or DELETE with two sets of
columns: the table's columns determine which files are skipped, and the view's columns determine
which rows of the other files match. In delta-spark, the changed rows therefore depend on the
distribution of the rows over files. In Bayou, a row matches if the condition is true for both sets
of columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.errors import PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.table_features.column_mapping import column_mapping_mode, physical_name
from bayou.protocol.column_metadata import generation_expressions
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.jvm.views import ViewPlan

INTERNAL = "__bayou_"
"""Prefix of the columns that row operations add to the table's or view's columns."""

_TABLE = f"{INTERNAL}table_"
_VIEW = f"{INTERNAL}view_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """A temporary view whose columns differ from the columns of its table.

    Attributes:
        name: the name of the view in the statement.
        plan: what the view computes from the table's columns.
    """

    name: str
    plan: ViewPlan

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.plan.columns)

    @property
    def keeps_names(self) -> bool:
        """Whether each column of the view is the table's column of the same name."""
        return all(column.keeps_name for column in self.plan.columns)

    def hidden_columns(self, table_columns: Iterable[str]) -> dict[str, str]:
        """Return the table's columns that the view leaves out, renames or replaces.

        Each key is the name in the table, and the value is the name in the result of `rows`.

        Args:
            table_columns: the table's columns, including columns that are newer than the view.
        """
        shown = {column.name.lower() for column in self.plan.columns if column.keeps_name}
        return {name: f"{_TABLE}{name}" for name in table_columns if name.lower() not in shown}

    def rows(self, table_rows: Any, kept: Collection[str]) -> Any:
        """Return a DataFrame with the columns of the view, of `kept` and of `hidden_columns`.

        Args:
            table_rows: a DataFrame with the table's columns and the columns `kept`.
        """
        hidden = self.hidden_columns(name for name in table_rows.columns if name not in kept)
        copies = [F.col(quote_identifier(name)).alias(copy) for name, copy in hidden.items()]
        rows = self.plan.project(table_rows.select("*", *copies), [*kept, *hidden.values()])
        if rows is None:
            raise self._changed_table_error()
        return rows

    def refreshed(self, table_rows: Any) -> Any:
        """Compute the view's rows from `table_rows`.

        Returns None if the view can't be computed, because the table's columns or their types have
        changed.
        """
        return self.plan.project(table_rows)

    def check_table(self, table_rows: Any) -> None:
        """Raise `PredicateError` if the view can't be computed from the rows of the table."""
        if self.refreshed(table_rows) is None:
            raise self._changed_table_error()

    def check_columns(self, read: Snapshot | None, latest: Snapshot) -> None:
        """Raise `PredicateError` if a column name no longer means the column that the view reads.

        In a table with column mapping, a column can be dropped or renamed, and a new column can get
        its name. Names of struct fields are checked too, also in arrays and maps.

        Args:
            read: the version that the view reads; None if it is no longer available. In this case,
                an error is raised if the table has column mapping.
        """
        if read is None:
            if column_mapping_mode(latest.properties) != "none":
                raise self._error(
                    "the version of the table that the view reads is no longer available, so the "
                    "view's columns can't be compared with the table's columns "
                    "(DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS). Create the view again."
                )
            return
        other = _other_column(read.schema, latest.schema)
        if other is not None:
            raise self._changed_table_error(f". The name {other} now refers to another column")

    def _changed_table_error(self, difference: str = "") -> PredicateError:
        return self._error(
            "the table's columns or their types have changed since the view was created"
            f"{difference} (DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS). Create the view again."
        )

    def matching(self, rows: Any, condition: Any, alias: str) -> Any:
        """Return the rows that an UPDATE or DELETE changes; the module's docstring defines them.

        Args:
            rows: the result of the method `rows`, with the alias `alias`.
            condition: a Column.
        """
        rows = rows.where(condition)
        hidden_columns = self.hidden_columns(self.plan.table_columns)
        types = {name.lower(): data_type for name, data_type in self.plan.table_columns.items()}
        hidden = {name.lower(): copy for name, copy in hidden_columns.items()}
        renamed = {
            column.name: hidden[column.name.lower()]
            for column in self.plan.columns
            if column.source is not None
            and not column.keeps_name
            and types.get(column.name.lower()) == types[column.source.lower()]
        }
        if not renamed:
            return rows

        def select(frame: Any, sources: dict[str, str], *more: Any) -> Any:
            columns = [
                F.col(quote_identifier(sources.get(name, name))).alias(name) for name in names
            ]
            return frame.select(*columns, *more).alias(alias)

        names = rows.columns
        shown = {name: f"{_VIEW}{name}" for name in renamed}
        copies = [F.col(quote_identifier(name)).alias(copy) for name, copy in shown.items()]
        return select(select(rows, renamed, *copies).where(condition), shown)

    def check_assigned(self, columns: Iterable[str]) -> None:
        """Raise `PredicateError` if the view doesn't show a column that a statement assigns."""
        known = {name.lower() for name in self.columns}
        for column in columns:
            if column.lower() not in known:
                raise self._error(
                    f"the view has no column {column!r} to update "
                    "(UNRESOLVED_COLUMN.WITH_SUGGESTION). Its columns are "
                    f"{', '.join(self.columns)}."
                )

    def check_written(self, snapshot: Snapshot) -> None:
        """Raise `PredicateError` if rows of the view can't be written to the table."""
        for name in self.columns:
            if snapshot.schema.get(name) is None:
                raise self._error(
                    f"Can't resolve column {name} in root. The view has this column, but the table "
                    f"{snapshot.path} doesn't (DELTA_CANNOT_RESOLVE_COLUMN). Write the "
                    "table's name instead of the view's."
                )

    def check_generated(self, snapshot: Snapshot, operation: str) -> None:
        """Raise `PredicateError` if the table has generated columns."""
        if generation_expressions(snapshot.schema):
            raise self._error(
                f"{operation} command on a temp view referring to a Delta table that contains "
                "generated columns is not supported "
                "(DELTA_OPERATION_ON_TEMP_VIEW_WITH_GENERATED_COLS_NOT_SUPPORTED). Write "
                f"delta.`{snapshot.path}` instead of the view's name."
            )

    def check_merge(self, snapshot: Snapshot) -> None:
        """Raise `PredicateError` if a MERGE can't change the table through the view."""
        self.check_generated(snapshot, "MERGE INTO")
        names, known = set(snapshot.schema.names), set(self.columns)
        if len(self.columns) == len(names):
            added = self._columns_added_later(snapshot)
            if added:
                raise self._changed_table_error(
                    f". Latest schema has additional field(s): {', '.join(added)}"
                )
        else:
            missing = sorted(known - names)
            difference = (
                f"Latest schema is missing field(s): {', '.join(missing)}"
                if missing
                else f"Latest schema has additional field(s): {', '.join(sorted(names - known))}"
            )
            raise self._error(
                f"the view doesn't have the columns of the table {snapshot.path}. {difference} "
                "(DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS). Write the table's name instead of the "
                "view's."
            )
        self.check_written(snapshot)

    def _columns_added_later(self, snapshot: Snapshot) -> list[str]:
        """Return the columns of the table that are missing in the version that the view reads."""
        read = {name.lower() for name in self.plan.table_columns}
        return sorted(name for name in snapshot.schema.names if name.lower() not in read)

    def _error(self, problem: str) -> PredicateError:
        return PredicateError(f"{self.name}: {problem}", expression=self.name)


def _other_column(before: DataType, now: DataType) -> str | None:
    """Return the path of the first field whose physical name has changed; None if there is none.

    The fields of the two types are matched by name. If the physical names differ, the name now
    refers to another field. Fields that exist in only one of the two types are ignored.
    """
    match before, now:
        case StructType(), StructType():
            for field in before:
                same = now.get(field.name)
                if same is None:
                    continue
                if physical_name(field) != physical_name(same):
                    return field.name
                other = _other_column(field.data_type, same.data_type)
                if other is not None:
                    return f"{field.name}.{other}"
        case ArrayType(), ArrayType():
            other = _other_column(before.element_type, now.element_type)
            return None if other is None else f"element.{other}"
        case MapType(), MapType():
            parts = {"key": (before.key_type, now.key_type)}
            parts["value"] = (before.value_type, now.value_type)
            for part, (earlier, later) in parts.items():
                other = _other_column(earlier, later)
                if other is not None:
                    return f"{part}.{other}"
    return None
