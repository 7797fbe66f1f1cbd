"""The driver's part of a write: begin it, ship its state to tasks, commit what they send back.

Spark pickles the writer after planning and commits in another process, so a transaction doesn't
live through a write. What does is `WritePlan`: the version that was read, from which the same
transaction is built again for the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bayou.engines import for_path, from_description
from bayou.errors import MetadataChangedError
from bayou.kernel import Operation, Snapshot, Table, Transaction, TransactionBuilder
from bayou.kernel.engine import Engine
from bayou.kernel.engine_description import EngineDescription
from bayou.protocol.actions import Action, AddFile
from bayou.protocol.schema import VOID, StructType
from bayou.spark.source.options import SourceOptions
from bayou.spark.types import same_type

__all__ = ["WritePlan", "WriteRequest", "commit", "plan"]

ENGINE_INFO = "bayou/0.1 (spark)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is to be written, whoever asks.

    Attributes:
        options: of the write.
        schema: of the rows.
        overwrite: whether all rows that are there go.
        operation: what the table's history will say.
    """

    options: SourceOptions
    schema: StructType
    overwrite: bool
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """A write that has begun; pickles.

    Attributes:
        path: the table's resolved path.
        engine: how to reach the store.
        read_version: the version that the write builds on, None where there was no table.
        state: the `TransactionState` for tasks.
        changes_schema: whether the commit is worth making even without rows.
        done: an idempotent write that the table already holds: tasks write nothing.
    """

    path: str
    engine: EngineDescription
    read_version: int | None
    state: bytes = field(repr=False)
    changes_schema: bool
    done: bool


def plan(request: WriteRequest) -> WritePlan:
    """Begin a write.

    Raises:
        SchemaError: the rows don't fit the table.
        UnsupportedFeatureError: the table can't be written by this version of the package.
    """
    engine = for_path(request.options.path, request.options.storage)
    table = Table.for_path(engine, request.options.path)
    snapshot = table.latest_snapshot(engine) if table.exists(engine) else None
    transaction = _build(engine, table, snapshot, request, request.options.application)
    state = transaction.transaction_state(engine)
    application = request.options.application
    known = None
    if snapshot is not None and application is not None:
        known = snapshot.transaction_version(application[0])
    return WritePlan(
        path=table.path,
        engine=engine.description(),
        read_version=None if snapshot is None else snapshot.version,
        state=state.to_bytes(),
        changes_schema=snapshot is None or state.schema != snapshot.schema,
        done=known is not None and application is not None and known >= application[1],
    )


def commit(
    request: WriteRequest,
    write: WritePlan,
    adds: Sequence[AddFile],
    application: tuple[str, int] | None,
) -> bool:
    """Commit what the tasks wrote, in one put-if-absent.

    An append of nothing makes no commit, unless it makes the table or adds columns to it.

    Args:
        request: as it was planned.
        write: the plan.
        adds: what the tasks wrote.
        application: identifies the write, so that it is committed once.

    Returns:
        Whether the files are part of the table now; False for a write that the table holds
        already. True where there was nothing to commit.

    Raises:
        CommitConflictError: another writer changed what this one built on.
    """
    if not adds and not request.overwrite and not write.changes_schema:
        return True
    engine = from_description(write.engine)
    table = Table.for_path(engine, write.path)
    snapshot = _read_again(engine, table, write, request)
    if snapshot is not None and application is not None:
        known = snapshot.transaction_version(application[0])
        if known is not None and known >= application[1]:
            return False
    transaction = _build(engine, table, snapshot, request, application)
    actions: list[Action] = []
    if request.overwrite and snapshot is not None:
        actions.extend(transaction.generate_remove_actions(engine))
    actions.extend(adds)
    result = transaction.commit(engine, actions)
    result.run_post_commit_hooks(engine)
    return not result.already_committed


def _build(
    engine: Engine,
    table: Table,
    snapshot: Snapshot | None,
    request: WriteRequest,
    application: tuple[str, int] | None,
) -> Transaction:
    options = request.options
    if snapshot is None:
        builder: TransactionBuilder = table.create_transaction_builder(
            engine, engine_info=ENGINE_INFO, operation=request.operation
        )
        builder = builder.with_schema(request.schema)
        if options.properties:
            builder = builder.with_table_properties(options.properties)
    else:
        builder = snapshot.build_update_table_transaction(ENGINE_INFO, request.operation)
        builder = builder.with_schema(_without_untyped(request.schema, snapshot.schema))
        if options.merge_schema:
            builder = builder.with_schema_evolution(True)
    if application is not None:
        builder = builder.with_transaction_id(*application)
    if options.user_metadata is not None:
        builder = builder.with_user_metadata(options.user_metadata)
    partitions = () if snapshot is None else snapshot.partition_columns
    parameters = _operation_parameters(request, partitions, application)
    return builder.with_operation_parameters(parameters).build(engine)


def _operation_parameters(
    request: WriteRequest, partitions: Sequence[str], application: tuple[str, int] | None
) -> dict[str, object]:
    """What the history says of the write, as delta-spark's does."""
    if request.operation is not Operation.STREAMING_UPDATE:
        mode = "Overwrite" if request.overwrite else "Append"
        return {"mode": mode, "partitionBy": list(partitions)}
    parameters: dict[str, object] = {"outputMode": "Complete" if request.overwrite else "Append"}
    if application is not None:
        parameters |= {"queryId": application[0], "epochId": str(application[1])}
    return parameters


def _read_again(
    engine: Engine, table: Table, write: WritePlan, request: WriteRequest
) -> Snapshot | None:
    """The snapshot on which the commit builds: the one that was planned with.

    Where there was no table then and is one now, another writer was first; the tasks' files fit
    it only if it is what this write would have made.
    """
    if write.read_version is not None:
        return table.snapshot_as_of_version(engine, write.read_version)
    if not table.exists(engine):
        return None
    snapshot = table.latest_snapshot(engine)
    if snapshot.partition_columns or not same_type(snapshot.schema, request.schema):
        raise MetadataChangedError(
            f"{table.path} was created by another writer (version {snapshot.version}) while this "
            "write ran, with another schema or partitioning. Write again to append to it.",
            table=table.path,
            winning_version=snapshot.version,
        )
    return snapshot


def _without_untyped(data: StructType, table_schema: StructType) -> StructType:
    """The rows' schema, where columns of untyped nulls take the type that the table has."""
    fields = []
    for column in data:
        known = table_schema.get(column.name)
        if column.data_type == VOID and known is not None:
            fields.append(column.with_data_type(known.data_type))
        else:
            fields.append(column)
    return StructType(tuple(fields))
