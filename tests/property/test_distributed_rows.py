"""Row operations by four processes leave what they leave when one process does them."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import MultipleMatchesError
from bayou.kernel import Snapshot, Table
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.commands.row_changes.update import update
from support.examples import examples
from support.worker_processes import WorkerProcesses

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "n": pa.int32(), "t": pa.string()})
FEATURES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
    "tracking": {"delta.enableRowTracking": "true"},
    "mapping": {"delta.columnMapping.mode": "name"},
}
CONDITIONS = [None, "id % 3 = 1", "id < 7", "n > 4 OR t IS NULL", "p = 'a'", "p IS NULL"]
ASSIGNMENTS = [{"n": "n + 1"}, {"p": "'z'", "t": "CAST(id AS STRING)"}]
CLAUSES = [
    MergeClause(kind="MATCHED", action="update", condition="source.n > 5"),
    MergeClause(kind="MATCHED", action="update", assignments={"n": "target.n + source.n"}),
    MergeClause(kind="MATCHED", action="delete"),
    MergeClause(kind="NOT MATCHED", action="insert", condition="source.n IS NOT NULL"),
    MergeClause(kind="NOT MATCHED BY SOURCE", action="delete", condition="target.n > 8"),
    MergeClause(kind="NOT MATCHED BY SOURCE", action="update", assignments={"t": "'alone'"}),
]
EXAMPLES = examples(15)
OF_LAYOUT = ("_time", "bytes", "files", "vectors", "version")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerProcesses]:
    with WorkerProcesses(4) as processes:
        yield processes


@st.composite
def rows(draw: st.DrawFn, first: int, most: int = 8) -> list[Row]:
    return [
        {
            "id": first + i,
            "p": draw(st.sampled_from(["a", "b c", None])),
            "n": draw(st.none() | st.integers(0, 10)),
            "t": draw(st.none() | st.sampled_from(["x", "y"])),
        }
        for i in range(draw(st.integers(1, most)))
    ]


def snapshot(path: str) -> Snapshot:
    engine = ArrowEngine()
    return Table.for_path(engine, path).latest_snapshot(engine)


def contents(path: str) -> tuple[Any, ...]:
    """Rows with their ids, and changes of the last version, in no order."""
    table = bayou.table(path)
    found = snapshot(path)
    names = list(SCHEMA.names)
    tracked = found.properties.get("delta.enableRowTracking") == "true"
    told: Counter[str] = Counter()
    if found.properties.get("delta.enableChangeDataFeed") == "true":
        changes = table.changes(found.version).to_arrow().drop(["_commit_timestamp"])
        told = Counter(map(repr, changes.to_pylist()))
    rows = table.to_arrow(names).to_pylist()
    versions = []
    if tracked:
        versions = table.to_arrow(["id", "_metadata.row_commit_version"]).to_pylist()
        ids = table.to_arrow(["_metadata.row_id"])["_metadata.row_id"].to_pylist()
        assert len(set(ids)) == len(ids)
    return found.version, Counter(map(repr, rows)), Counter(map(repr, versions)), told


def counts(metrics: Any) -> Row:
    """What doesn't depend on how rows go to files."""
    return {
        name: value
        for name, value in asdict(metrics).items()
        if not any(part in name for part in OF_LAYOUT)
    }


def perform(
    path: str,
    kind: str,
    where: str | None,
    values: dict[str, str],
    source: list[Row],
    clauses: tuple[MergeClause, ...],
    workers: WorkerProcesses | None,
) -> Any:
    engine, table = ArrowEngine(), snapshot(path)
    if kind == "delete":
        if workers is None:
            return delete(engine, table, where, engine_info="test/1")
        return workers.delete(engine, table, where)
    if kind == "update":
        if workers is None:
            return update(engine, table, values, where, engine_info="test/1")
        return workers.update(engine, table, values, where)
    if kind == "merge":
        taken = MergeSource.read(SCHEMA, pa.Table.from_pylist(source, SCHEMA).to_batches())
        definition = MergeDefinition(on="target.id = source.id", clauses=clauses)
        if workers is None:
            return merge(engine, table, taken, definition, engine_info="test/1")
        return workers.merge(engine, table, taken, definition)
    if kind == "optimize":
        plan = plan_optimize(engine, table, "test/1")
    else:
        plan = plan_zorder(engine, table, "test/1", ["n", "id"])
    if workers is None:
        run_plan(engine, plan, "test/1")
    else:
        run_plan(engine, plan, "test/1", run_items=lambda items: workers.run_items(engine, items))
    return None


@pytest.mark.process
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_four_processes_do_what_one_does(workers: WorkerProcesses, data: st.DataObject) -> None:
    draw = data.draw
    properties: dict[str, str] = {}
    for name in draw(st.sets(st.sampled_from(sorted(FEATURES)))):
        properties |= FEATURES[name]
    partition_by = draw(st.sampled_from([[], ["p"]]))
    with tempfile.TemporaryDirectory() as folder:
        one, many = str(Path(folder) / "one"), str(Path(folder) / "many")
        first = 0
        for number in range(draw(st.integers(1, 5))):
            part = draw(rows(first))
            bayou.write(
                one,
                pa.Table.from_pylist(part, SCHEMA),
                partition_by=partition_by,
                configuration=None if number else properties,
            )
            first += len(part)
        for _ in range(draw(st.integers(1, 2))):
            kind = draw(st.sampled_from(["delete", "update", "merge", "optimize", "zorder"]))
            where = draw(st.sampled_from(CONDITIONS))
            values = draw(st.sampled_from(ASSIGNMENTS))
            source = draw(rows(draw(st.integers(0, first)), 12))
            source += draw(st.lists(st.sampled_from(source), max_size=1))
            chosen = draw(st.sets(st.sampled_from(range(len(CLAUSES))), min_size=1))
            clauses = tuple(CLAUSES[i] for i in sorted(chosen))
            if {1, 2} <= chosen:
                clauses = tuple(CLAUSES[i] for i in sorted(chosen - {1}))
            note(f"{kind} {where} {values} {source} {clauses} {properties} {partition_by}")
            shutil.copytree(one, many)
            operation = (kind, where, values, source, clauses)
            try:
                expected = perform(one, *operation, None)
            except MultipleMatchesError:
                with pytest.raises(MultipleMatchesError):
                    perform(many, *operation, workers)
            else:
                done = perform(many, *operation, workers)
                if expected is not None:
                    assert counts(done) == counts(expected)
            assert contents(many) == contents(one)
            shutil.rmtree(many)
