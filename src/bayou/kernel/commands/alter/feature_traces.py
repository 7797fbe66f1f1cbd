"""Rewriting of data files that use a table feature, so that the feature can be dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.checkpoint.state_files import (
    base_checkpoint,
    checkpoint_tombstones,
    tail_tombstones,
)
from bayou.kernel.commands.alter.alteration import Alteration, with_schema
from bayou.kernel.commands.optimize.optimize import rewrite_states
from bayou.kernel.commands.optimize.rewrite import RewriteTask, rewrite
from bayou.kernel.commands.optimize.rewrite_execution import RewritePlan, run_plan
from bayou.kernel.commands.vacuum.table_folder import TableFolder
from bayou.kernel.commands.version_files import live_files
from bayou.kernel.data_writer.data_writer import delete_data_files
from bayou.kernel.engine import Engine, FileSplit
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.transform import data_file_errors
from bayou.kernel.table_features.column_mapping import (
    physical_name,
    to_physical_schema,
    without_mapping,
)
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.commit_file_actions import num_records
from bayou.kernel.transaction.commit_table_actions import current_time_ms, to_remove
from bayou.kernel.transaction.schema_evolution import check_names
from bayou.protocol.actions import AddFile, RemoveFile
from bayou.protocol.file_names import data_file_path_to_uri
from bayou.protocol.properties import COLUMN_MAPPING_MODE
from bayou.protocol.schema import ArrayType, DataType, MapType, StructType

_REQUESTS = 16
_MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"


def purge_deletion_vectors(engine: Engine, state: TableState, engine_info: str) -> int:
    """Rewrite all files that have a deletion vector; return the number of commits."""
    files = [file for file in live_files(engine, state) if file.deletion_vector is not None]
    return _reorganize(engine, state, engine_info, files, {"predicate": "[]", "applyPurge": True})


def tombstone_deletion_vectors(engine: Engine, state: TableState, engine_info: str) -> int:
    """Commit `remove` actions whose paths are deletion vector files of older versions.

    After the feature is dropped, a writer that doesn't support deletion vectors may run VACUUM.
    Because of the `remove` actions, this VACUUM retains the deletion vector files for the retention
    period. Returns the number of commits.
    """
    cutoff = current_time_ms() - state.table_properties.deleted_file_retention_ms
    vector_paths: dict[str, None] = {}
    data_paths: set[str] = set()
    folder = TableFolder(engine, state.path)
    for tombstones in _tombstones(engine, state):
        times = pc.fill_null(pc.struct_field(tombstones, "deletionTimestamp"), 0)
        removes = tombstones.filter(pc.greater_equal(times, cutoff))
        vectors = pc.struct_field(removes, "deletionVector")
        data_paths.update(pc.struct_field(removes, "path").filter(pc.is_null(vectors)).to_pylist())
        for vector in vectors.drop_null().to_pylist():
            path = folder.vector_path(vector["storageType"], vector["pathOrInlineDv"])
            if path is not None:
                vector_paths[data_file_path_to_uri(path)] = None
    now = current_time_ms()
    actions = [
        RemoveFile(path=path, deletion_timestamp=now, data_change=False)
        for path in vector_paths
        if path not in data_paths
    ]
    if not actions:
        return 0
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.DELETION_VECTOR_TOMBSTONES,
        parameters={},
    )
    return alteration.commit(actions=actions).num_commits


def rewrite_widened_files(engine: Engine, state: TableState, engine_info: str) -> int:
    """Rewrite the files that have narrower column types than the table.

    Reads the footers of all files. Returns the number of commits.
    """
    schema = to_physical_schema(state.schema, state.column_mapping)
    files = list(live_files(engine, state))

    def is_narrower(file: ScanFile) -> bool:
        with data_file_errors(state.path, file.status.path):
            footer = engine.parquet.read_footer(file.status).schema
        return any(
            _differs(field.type, column.data_type)
            for field in footer
            if (column := schema.get(field.name)) is not None
        )

    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="bayou-footers") as pool:
        narrower = list(pool.map(is_narrower, files))
    to_rewrite = [file for file, is_old in zip(files, narrower, strict=True) if is_old]
    return _reorganize(engine, state, engine_info, to_rewrite, {"predicate": "[]"})


def drop_column_mapping(engine: Engine, state: TableState, engine_info: str) -> int:
    """Disable column mapping, and rewrite all files so that they use the logical column names.

    Returns the number of commits.
    """
    schema = without_mapping(state.schema)
    check_names(state.path, schema, mapped=False)
    configuration = {
        key: value
        for key, value in state.properties.items()
        if key not in (COLUMN_MAPPING_MODE.key, _MAX_COLUMN_ID)
    }
    builder = (
        TransactionBuilder(
            table=state.path,
            read_state=state,
            engine_info=engine_info,
            operation=Operation.REMOVE_COLUMN_MAPPING,
        )
        .with_metadata(with_schema(state, schema, configuration=configuration))
        .with_files_checked()
    )
    clustered = state.clustering_columns
    if clustered:
        builder = builder.with_clustering_columns(clustered)
    transaction = builder.build(engine)
    write_state = transaction.transaction_state(engine)
    _, scan_state = rewrite_states(engine, state, engine_info)
    names = {
        physical_name(state.schema.select([column]).fields[0]): column
        for column in state.partition_columns
    }
    transaction.record_read()
    added: list[AddFile] = []
    removed: list[AddFile] = []
    with discard_unless_committed(lambda: delete_data_files(engine, state.path, added)):
        for file in live_files(engine, state):
            item = RewriteTask(
                state=write_state, scan_state=scan_state, files=(file,), partition_names=names
            )
            added += rewrite(engine, item)
            removed.append(file.add)
        now = current_time_ms()
        result = transaction.commit(
            engine,
            [*added, *(to_remove(add, now, data_change=False) for add in removed)],
            operation_metrics=_rewrite_metrics(added, removed),
        )
    result.run_post_commit_hooks(engine)
    return 1


def _rewrite_metrics(added: list[AddFile], removed: list[AddFile]) -> Mapping[str, object]:
    return {
        "numRewrittenFiles": len(removed),
        "numOutputBytes": sum(add.size for add in added),
        "numRemovedBytes": sum(add.size for add in removed),
        "numCopiedRows": sum(num_records(add.stats) or 0 for add in added),
        "numOutputFiles": len(added),
    }


def _reorganize(
    engine: Engine,
    state: TableState,
    engine_info: str,
    files: list[ScanFile],
    parameters: Mapping[str, object],
) -> int:
    if not files:
        return 0
    write_state, scan_state = rewrite_states(engine, state, engine_info)
    plan = RewritePlan(
        state=state,
        operation=Operation.REORG,
        parameters=parameters,
        where=None,
        items=tuple(
            RewriteTask(state=write_state, scan_state=scan_state, files=(f,)) for f in files
        ),
        considered=len(files),
        partitions=len({tuple(f.partition_values.items()) for f in files}),
        started=current_time_ms(),
    )
    return run_plan(engine, plan, engine_info).num_batches


def _tombstones(engine: Engine, state: TableState) -> Iterator[Any]:
    checkpoint = base_checkpoint(engine, state)
    for file in () if checkpoint is None else checkpoint.files:
        split = FileSplit(path=file.path, size=file.size)
        yield from checkpoint_tombstones(engine, state.path, split, state.replay_state.seen_keys)
    yield from tail_tombstones(state, checkpoint)


def _differs(arrow_type: Any, data_type: DataType) -> bool:
    """Whether the type of a file's column, or of a field inside it, differs from the table's type.

    Args:
        arrow_type: type of the column in the file.
        data_type: type of the column in the table.
    """
    match data_type:
        case StructType() if pa.types.is_struct(arrow_type):
            return any(
                _differs(child.type, field.data_type)
                for child in arrow_type
                if (field := data_type.get(child.name)) is not None
            )
        case ArrayType() if pa.types.is_list(arrow_type):
            return _differs(arrow_type.value_type, data_type.element_type)
        case MapType() if pa.types.is_map(arrow_type):
            return _differs(arrow_type.key_type, data_type.key_type) or _differs(
                arrow_type.item_type, data_type.value_type
            )
        case StructType() | ArrayType() | MapType():
            return True
        case _:
            differs: bool = arrow_type != to_arrow_type(data_type)
            return differs
