"""Files are deleted only if their commit certainly did not happen."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    CommitConflictError,
    CommitFailedError,
    ProtocolChangedError,
    StorageError,
)
from bayou.kernel import Engine, Operation, Table, Transaction, write_data
from bayou.kernel.commands.alter.drop_feature import drop_feature
from bayou.kernel.commands.optimize.optimize import plan_optimize
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.row_changes.delete import begin_delete, commit_delete, delete
from bayou.kernel.commands.write import TableWrite, WriteMode, commit_write, plan_write
from bayou.kernel.transaction.commit import (
    discard_unless_committed,
    report_lost_commit,
    report_possible_commit,
)
from support.faults import Fault, FaultInjectingEngine

SOURCE = Path(bayou.__file__).parent
PUT = "write_json_file_atomically"
CONFLICT = CommitConflictError("another was first", table="t", winning_version=1)


@pytest.fixture
def engine() -> Engine:
    return ArrowEngine()


@pytest.fixture
def path(tmp_path: Path) -> str:
    found = str(tmp_path / "table")
    for i in range(4):
        bayou.write(found, pa.table({"id": [i], "v": [i]}))
    return found


def snapshot(engine: Engine, path: str):
    return Table.for_path(engine, path).latest_snapshot(engine)


def begin(engine: Engine, path: str) -> Transaction:
    builder = snapshot(engine, path).build_update_table_transaction("test/1", Operation.WRITE)
    return builder.build(engine)


ERRORS = [CONFLICT, KeyboardInterrupt(), ValueError("a defect")]


def deletes(error: BaseException, *, sent: Sequence[str] = (), refused: Sequence[str] = ()) -> bool:
    """Whether a block deletes its files that ends by an error after some commits."""
    deleted: list[int] = []

    def run() -> None:
        with discard_unless_committed(lambda: deleted.append(1)):
            for txn_id in sent:
                report_possible_commit(txn_id)
            for txn_id in refused:
                report_lost_commit(txn_id)
            raise error

    with pytest.raises(type(error)):
        run()
    return bool(deleted)


@pytest.mark.parametrize("error", ERRORS)
def test_a_block_without_a_commit_deletes_its_files_on_any_error(error):
    assert deletes(error)


@pytest.mark.parametrize("error", ERRORS)
def test_a_block_whose_commit_may_have_happened_deletes_nothing(error):
    assert not deletes(error, sent=["1", "2"], refused=["2"])


@pytest.mark.parametrize("error", ERRORS)
def test_a_block_whose_commits_were_refused_deletes_its_files(error):
    assert deletes(error, sent=["1"], refused=["1"])


def test_a_block_that_ends_well_deletes_nothing():
    deleted = []
    with discard_unless_committed(lambda: deleted.append(1)):
        pass
    assert not deleted


def test_the_commits_before_a_block_do_not_count_and_those_of_inner_blocks_do():
    report_possible_commit("before")
    deleted: list[str] = []

    def run() -> None:
        with discard_unless_committed(lambda: deleted.append("outer")):
            with discard_unless_committed(lambda: deleted.append("inner")):
                report_possible_commit("1")
            with discard_unless_committed(lambda: deleted.append("second")):
                raise CONFLICT

    with pytest.raises(CommitConflictError):
        run()
    assert deleted == ["second"]


def test_a_store_that_fails_to_delete_hides_no_error(caplog):
    def discard():
        raise StorageError("the store is away", path="t")

    with pytest.raises(CommitConflictError), discard_unless_committed(discard):
        raise CONFLICT
    assert "remain until VACUUM" in caplog.text


class _Interrupted(FaultInjectingEngine):
    """An engine whose put of a commit does its work and then is interrupted, as by Ctrl-C."""

    def __init__(self, engine: Engine, version: int, error: BaseException) -> None:
        super().__init__(engine)
        self._name = f"/{version:020d}.json"
        self._error = error
        self._put = self.json.write_json_file_atomically
        self.json.write_json_file_atomically = self._write  # type: ignore[method-assign]

    def _write(self, path: str, lines, *, overwrite: bool = False) -> bool:
        done = self._put(path, lines, overwrite=overwrite)
        if path.endswith(self._name):
            raise self._error
        return done


def append(engine: Engine, path: str) -> None:
    schema = snapshot(engine, path).schema
    write = TableWrite(table=path, schema=schema, mode=WriteMode.OVERWRITE, engine_info="test/1")
    plan = plan_write(engine, write)
    transaction = begin(engine, path)
    rows = [pa.record_batch({"id": [0, 1, 2, 3], "v": [0, 1, 2, 3]})]
    adds = write_data(engine, transaction.transaction_state(engine), rows)
    commit_write(engine, write, plan, adds)


def change_rows(engine: Engine, path: str) -> None:
    rows = pa.table({"id": [4, 4], "v": [4, 5]})
    bayou.write(path, rows)
    delete(engine, snapshot(engine, path), "v = 5", engine_info="test/1")


def drop_mapping(engine: Engine, path: str) -> None:
    bayou.table(path).alter.set_table_properties({"delta.columnMapping.mode": "name"})
    drop_feature(engine, snapshot(engine, path), "columnMapping", engine_info="test/1")


OPERATIONS: dict[str, tuple[Callable[[Engine, str], object], int]] = {
    "overwrite": (append, 4),
    "rows": (change_rows, 5),
    "optimize": (
        lambda e, p: run_plan(e, plan_optimize(e, snapshot(e, p), "test/1"), "test/1"),
        4,
    ),
    "drop column mapping": (drop_mapping, 5),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a defect")])
def test_an_operation_that_ends_behind_its_put_deletes_nothing_that_it_committed(
    engine, path, operation, error
):
    run, version = OPERATIONS[operation]
    with pytest.raises(type(error)):
        run(_Interrupted(engine, version, error), path)
    assert snapshot(engine, path).version >= version
    rows = bayou.table(path).to_arrow().sort_by("id")
    assert rows["id"].to_pylist()[:4] == [0, 1, 2, 3]


@pytest.mark.parametrize("property_name", ["delta.compatibility.symlinkFormatManifest.enabled"])
def test_a_property_that_only_hooks_read_and_that_cannot_be_read_fails_no_commit(
    engine, path, property_name, caplog
):
    log = Path(path, "_delta_log")
    first = log / f"{0:020d}.json"
    text = first.read_text().replace(
        '"configuration":{', f'"configuration":{{"{property_name}":"yes"'
    )
    first.write_text(text)
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    metrics = run_plan(engine, plan_optimize(engine, snapshot(engine, path), "test/1"), "test/1")
    assert metrics.version == 4
    assert "Correct the property" in caplog.text
    assert bayou.table(path).to_arrow().num_rows == 4


def test_a_store_that_gives_no_answer_leaves_the_files(engine, path):
    faulty = FaultInjectingEngine(engine, Fault(operation=PUT, times=99, after=True))
    faulty.inject(Fault(operation="read_files", path=f"{4:020d}.json", times=99))
    deleted = []
    with (
        pytest.raises(CommitFailedError),
        discard_unless_committed(lambda: deleted.append(1)),
    ):
        begin(engine, path).commit(faulty, [])
    assert not deleted


def test_a_commit_that_fails_before_it_is_sent_deletes_its_files(engine, path, tmp_path):
    faulty = FaultInjectingEngine(engine, Fault(operation="mkdirs", times=99))
    table = Table.for_path(faulty, str(tmp_path / "new"))
    builder = table.create_transaction_builder(faulty, "test/1", Operation.WRITE)
    transaction = builder.with_schema(snapshot(engine, path).schema).build(faulty)
    deleted = []
    with pytest.raises(StorageError), discard_unless_committed(lambda: deleted.append(1)):
        transaction.commit(faulty, [])
    assert deleted


def test_a_commit_that_lost_deletes_its_files(engine, path):
    late = begin(engine, path)
    bayou.table(path).alter.set_table_properties({"delta.enableRowTracking": "true"})
    deleted = []
    with pytest.raises(ProtocolChangedError), discard_unless_committed(lambda: deleted.append(1)):
        late.commit(engine, [])
    assert deleted


def test_no_code_but_the_helper_deletes_files_where_a_commit_failed():
    """A `try` around a commit has no handler and no `finally` that deletes what was written."""
    found = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Try) and _calls(node.body, _COMMITS):
                handlers = [s for h in node.handlers for s in h.body]
                if _calls([*handlers, *node.finalbody], _DELETES):
                    found.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert found == []


_COMMITS = ("commit",)
_DELETES = ("discard", "delete")


def _calls(body: list[ast.stmt], names: tuple[str, ...]) -> bool:
    called = [n.func for s in body for n in ast.walk(s) if isinstance(n, ast.Call)]
    found = [c.attr if isinstance(c, ast.Attribute) else getattr(c, "id", "") for c in called]
    return any(name.lstrip("_").startswith(names) for name in found)


def test_a_repeated_operation_succeeds_although_its_files_cannot_be_deleted(engine, path, caplog):
    bayou.write(path, pa.table({"id": [8, 9], "v": [8, 9]}), transaction=("app", 1))
    faulty = FaultInjectingEngine(engine, Fault(operation="delete_files"))
    operation = begin_delete(
        faulty,
        snapshot(faulty, path),
        "id = 8",
        engine_info="test/1",
        transaction_id=("app", 1),
    )
    assert commit_delete(faulty, operation, operation.run(faulty)).version == 4
    assert bayou.table(path).version() == 4
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"{path}: the table already contains this write. The files of the repeated write can't be "
        "deleted. They remain until VACUUM. Cause: "
    )
