"""DELETE and UPDATE of `DeltaTable`."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.kernel.operations.delete import begin_delete, commit_delete
from bayou.kernel.operations.row_change_outcome import RowChanges
from bayou.kernel.operations.row_operation import RowOperation
from bayou.kernel.operations.update import begin_update, commit_update
from bayou.kernel.predicates.model import Expression, Predicate
from bayou.kernel.predicates.renaming import with_paths
from bayou.kernel.predicates.sql import parse_expression, parse_predicate
from bayou.protocol.schema import StructType
from bayou.spark.tables.target import SPARK_ENGINE_INFO, TargetTable

__all__ = ["run_delete", "run_update"]


def run_delete(target: TargetTable, condition: str | None) -> None:
    """Delete the rows for which a condition is true, and commit; see `DeltaTable.delete`."""
    snapshot = target.snapshot()
    operation = begin_delete(
        target.engine,
        snapshot,
        _Names(target.alias, snapshot.schema).predicate(condition),
        shown=condition,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
    )
    commit_delete(target.engine, operation, _changes(target, operation))


def run_update(target: TargetTable, condition: str | None, values: Mapping[str, str]) -> None:
    """Give rows new values, and commit; see `DeltaTable.update`."""
    snapshot = target.snapshot()
    names = _Names(target.alias, snapshot.schema)
    operation = begin_update(
        target.engine,
        snapshot,
        {names.column(name): names.expression(value) for name, value in values.items()},
        names.predicate(condition),
        shown=condition,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
    )
    commit_update(target.engine, operation, _changes(target, operation))


def _changes(target: TargetTable, operation: RowOperation) -> RowChanges:
    return operation.run(target.engine)


class _Names:
    """From names that may have the table's alias before them to the table's own."""

    def __init__(self, alias: str | None, schema: StructType) -> None:
        self._alias = None if alias is None else alias.lower()
        self._schema = schema

    def predicate(self, text: str | None) -> Predicate | str | None:
        if text is None or self._alias is None:
            return text
        return with_paths(parse_predicate(text), self._own)

    def expression(self, text: str) -> Expression | str:
        if self._alias is None or text.strip().upper() == "DEFAULT":
            return text
        return with_paths(parse_expression(text), self._own)

    def column(self, name: str) -> str:
        prefix = f"{self._alias}."
        if self._alias is None or not name.lower().startswith(prefix):
            return name
        return name[len(prefix) :]

    def _own(self, path: tuple[str, ...]) -> tuple[str, ...]:
        if len(path) > 1 and path[0].lower() == self._alias and self._schema.get(path[1]):
            return path[1:]
        return path
