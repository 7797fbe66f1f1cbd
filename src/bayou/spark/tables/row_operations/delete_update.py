"""DELETE and UPDATE of `DeltaTable`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bayou.engines import from_description
from bayou.kernel.operations.delete import begin_delete, commit_delete
from bayou.kernel.operations.row_change_outcome import RowChanges
from bayou.kernel.operations.row_operation import RowOperation
from bayou.kernel.operations.row_search import Candidate
from bayou.kernel.operations.row_work import RowWork
from bayou.kernel.operations.update import begin_update, commit_update
from bayou.kernel.predicates.model import Expression, Predicate
from bayou.kernel.predicates.renaming import with_paths
from bayou.kernel.predicates.sql import parse_expression, parse_predicate
from bayou.protocol.schema import StructType
from bayou.spark.tables.row_operations.executors import (
    number_of_tasks,
    run_shares,
    shares_by_size,
)
from bayou.spark.tables.row_operations.placement import stays_local
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
    """Find the rows and write what changes them, here or on executors."""
    with operation.candidates(target.engine) as found:
        candidates = list(found)
    work = operation.work
    if stays_local(target, (c.file.size for c in candidates if not c.certain or work.assigned)):
        return work.run(target.engine, candidates)
    spark = target.spark
    shares = shares_by_size(candidates, lambda c: c.file.size, number_of_tasks(spark))
    encoded = [[candidate.to_bytes() for candidate in share] for share in shares]
    sent, engine, count = work.to_bytes(), target.engine.description(), len(shares)

    def run(number: int, share: list[bytes]) -> bytes:
        mine = RowWork.from_bytes(sent)
        mine = replace(mine, state=mine.state.for_writer(number, count))
        files = [Candidate.from_bytes(data) for data in share]
        return mine.run(from_description(engine), files).to_bytes()

    def discard(outcomes: list[bytes]) -> None:
        written = RowChanges.combined(map(RowChanges.from_bytes, outcomes))
        written.discard(target.engine, target.path)

    outcomes = run_shares(
        spark,
        encoded,
        run,
        table=target.path,
        description=f"Change rows of {target.path}",
        discard=discard,
    )
    return RowChanges.combined(map(RowChanges.from_bytes, outcomes))


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
