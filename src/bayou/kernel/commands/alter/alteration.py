"""One alteration: a commit that changes metadata or protocol, and what it says of itself."""

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

__all__ = ["Alteration", "AlterationMetrics", "as_json", "with_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterationMetrics:
    """What an alteration did.

    Attributes:
        version: of the table now: the last commit's, or the one read where nothing was to be done.
        num_commits: how many it took.
    """

    version: int
    num_commits: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A commit to be made from one version of a table.

    Attributes:
        parameters: `operationParameters`.
        reads_rows: the outcome rests on all rows, so that a concurrent append is a conflict.
        tags: of `commitInfo`.
    """

    engine: Engine
    state: TableState
    engine_info: str
    operation: Operation
    parameters: Mapping[str, object]
    reads_rows: bool = False
    reads_paths: frozenset[str] = frozenset()
    tags: Mapping[str, str] | None = None

    def commit(
        self,
        change: Callable[[TransactionBuilder], TransactionBuilder] = lambda builder: builder,
        actions: Iterable[Action] = (),
    ) -> AlterationMetrics:
        """Commit, and do what the commit makes due.

        Args:
            change: what the transaction is to change besides files.
            actions: of files.

        Raises:
            CommitConflictError: another writer changed metadata, or rows that this rests on.
        """
        builder = TransactionBuilder(
            table=self.state.path,
            read_state=self.state,
            engine_info=self.engine_info,
            operation=self.operation,
        ).with_operation_parameters(self.parameters)
        transaction = change(builder).build(self.engine)
        if self.reads_rows:
            transaction.record_read()
        if self.reads_paths:
            transaction.record_files_read(self.reads_paths)
        result = transaction.commit(self.engine, actions, operation_metrics={}, tags=self.tags)
        result.run_post_commit_hooks(self.engine)
        return AlterationMetrics(version=result.version)


def with_schema(state: TableState, schema: StructType, **changes: object) -> Metadata:
    """The table's metadata with another schema, and other fields of it."""
    return msgspec.structs.replace(state.metadata, schema_string=schema.to_json(), **changes)


def as_json(value: object) -> str:
    """JSON text, as it stands inside of operation parameters."""
    return msgspec.json.encode(value).decode()
