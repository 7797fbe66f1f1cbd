"""Commit of an ALTER TABLE command, which changes metadata, protocol or domain metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.protocol.actions import Action, Metadata
from bayou.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterationMetrics:
    """Metrics of an ALTER TABLE command.

    Attributes:
        version: the table's version after the command, also if the command changed nothing.
    """

    version: int
    num_commits: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The commit of an ALTER TABLE command, based on one version of a table.

    Attributes:
        parameters: `operationParameters` of the commit.
        reads_rows: whether the commit depends on all rows, so that a concurrent append is a
            conflict.
        reads_paths: paths of files that the commit depends on. If another writer removes one of
            these files concurrently, this is a conflict.
    """

    engine: Engine
    state: TableState
    engine_info: str
    operation: Operation
    parameters: Mapping[str, object]
    reads_rows: bool = False
    reads_paths: frozenset[str] = frozenset()
    tags: Mapping[str, str] | None = None

    def check(self, change: Callable[[TransactionBuilder], TransactionBuilder]) -> None:
        """Validate the changes that `commit(change)` would commit."""
        change(self._builder()).build(self.engine)

    def commit(
        self,
        change: Callable[[TransactionBuilder], TransactionBuilder] = lambda builder: builder,
        actions: Iterable[Action] = (),
    ) -> AlterationMetrics:
        """Commit the changes, and run the post-commit hooks.

        Args:
            change: function that adds changes of metadata, protocol or domain metadata to the
                commit's transaction builder.
            actions: file actions to commit.
        """
        transaction = change(self._builder()).build(self.engine)
        if self.reads_rows:
            transaction.record_read()
        if self.reads_paths:
            transaction.record_files_read(self.reads_paths)
        result = transaction.commit(self.engine, actions, operation_metrics={}, tags=self.tags)
        result.run_post_commit_hooks(self.engine)
        return AlterationMetrics(version=result.version)

    def _builder(self) -> TransactionBuilder:
        return TransactionBuilder(
            table=self.state.path,
            read_state=self.state,
            engine_info=self.engine_info,
            operation=self.operation,
        ).with_operation_parameters(self.parameters)


def with_schema(state: TableState, schema: StructType, **changes: object) -> Metadata:
    """Return the table's metadata with a new schema.

    Args:
        changes: new values of fields of `Metadata`, by field name.
    """
    return msgspec.structs.replace(state.metadata, schema_string=schema.to_json(), **changes)


def as_json(value: object) -> str:
    """Encode a value as JSON text for `operationParameters`, whose values are strings."""
    return msgspec.json.encode(value).decode()
