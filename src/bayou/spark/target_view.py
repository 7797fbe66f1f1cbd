"""`TargetView`: the temporary view through which a statement changes a table.

As in delta-spark, conditions and values are computed from the view's columns. The values are
assigned to the table's columns with the same names. All other columns of the table keep their
values, including columns that the view omits.

A view can swap the names of columns, for example with `SELECT a AS b, b AS a`. The condition of an
UPDATE or DELETE then has two meanings: `a` can be the column of the table or the column of the
view. In Bayou, a row matches if the condition is true with both meanings. delta-spark uses the
table's columns to skip files, and the view's columns to select rows in the other files. In
delta-spark, the changed rows therefore depend on how the rows are distributed over files.
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
"""Prefix of the names of columns that UPDATE, DELETE and MERGE add to a DataFrame internally."""

_TABLE = f"{INTERNAL}table_"
_VIEW = f"{INTERNAL}view_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """A temporary view whose columns differ from the columns of its table.

    Attributes:
        name: the name of the view in the statement.
        plan: how the view computes its columns from the table's columns.
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
        """Return the table's columns that the view omits, renames or replaces.

        Each key is the name of a column in the table. The value is the column's name in the result
        of `rows`.

        Args:
            table_columns: the names of the table's columns, including columns that were added
                after the view was created.
        """
        shown = {column.name.lower() for column in self.plan.columns if column.keeps_name}
        return {name: f"{_TABLE}{name}" for name in table_columns if name.lower() not in shown}

    def rows(self, table_rows: Any, kept: Collection[str]) -> Any:
        """Return the view's rows, with the columns in `kept` and the hidden columns added.

        The hidden columns are the table's columns that the view omits, renames or replaces; see
        `hidden_columns`.

        Args:
            table_rows: a DataFrame with the table's columns and the columns in `kept`.
            kept: the names of columns that an operation has added to the table's columns.
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
        """Raise `PredicateError` if a name refers to another column than when the view was created.

        In a table with column mapping, a column can be dropped or renamed, and a new column can get
        the old name. The names of nested fields are checked too.

        Args:
            read: the table version at which the view was created. None if the version is no longer
                available; the method then raises an error if the table has column mapping.
            latest: the latest version of the table.
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
        """Return the rows that an UPDATE or DELETE changes.

        If the view swaps the names of columns, the condition has two meanings, and must be true
        with both meanings; see the module's docstring.

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
        """Raise `PredicateError` if a statement assigns a column that the view doesn't have."""
        known = {name.lower() for name in self.columns}
        for column in columns:
            if column.lower() not in known:
                raise self._error(
                    f"the view has no column {column!r} to update "
                    "(UNRESOLVED_COLUMN.WITH_SUGGESTION). Its columns are "
                    f"{', '.join(self.columns)}."
                )

    def check_written(self, snapshot: Snapshot) -> None:
        """Raise `PredicateError` if the table lacks a column of the view."""
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
        """Raise `PredicateError` if a MERGE can't change the table through the view.

        The view must have exactly the names of the table's columns, and the table must have no
        generated columns.
        """
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
        """Return the columns that were added to the table after the view was created."""
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
