"""What happens to which row, whatever is looked at together."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import bayou
from bayou.engines.memory import MemoryEngine
from bayou.errors import MultipleMatchesError
from bayou.kernel import ScanBuilder, Table
from bayou.kernel.commands.merge.clauses import MergeClause
from bayou.kernel.commands.merge.decisions import Decisions
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.scan.scan_state import ROW_INDEX_COLUMN

UPDATE = MergeClause(kind="MATCHED", action="update", assignments={"v": "source.v"})
INSERT = MergeClause(kind="NOT MATCHED", action="insert")
ALONE = MergeClause(kind="NOT MATCHED BY SOURCE", action="delete", condition="target.v > 6")


@pytest.fixture
def path() -> str:
    path = f"memory://{uuid.uuid4().hex}/table"
    for first in (0, 4, 8):
        rows = pa.table({"id": range(first, first + 4), "v": range(first, first + 4)})
        bayou.write(path, rows)
    return path


def decide(
    path: str, source: pa.Table, *clauses: MergeClause, rows: int = 1 << 20
) -> tuple[list[list[tuple[int, int, int | None]]], list[int]]:
    """Position, clause and source row by file; the source rows without a match."""
    engine = MemoryEngine()
    table = Table.for_path(engine, path).latest_snapshot(engine)
    given = MergeSource.read(source.schema, source.to_batches())
    definition = MergeDefinition(on="target.id = source.id", clauses=clauses)
    plan = MergePlan.build(path, table.schema, given.schema, definition)
    joined = given.rows.rename_columns([f"source.{n}" for n in given.schema.names])
    matcher = Matcher(plan.condition, plan.names.schema, joined)
    columns = table.schema.select(list(plan.condition_columns))
    builder = ScanBuilder(table).with_read_schema(columns).with_metadata_columns([ROW_INDEX_COLUMN])
    scan = builder.build()
    decisions = Decisions(engine, plan, matcher, joined, scan.scan_state(engine), rows=rows)
    files = [f for batch in scan.scan_files(engine) for f in batch.rows()]
    files.sort(key=lambda file: file.modification_time)
    found = [
        list(
            zip(
                d.positions.to_pylist(),
                d.clauses.to_pylist(),
                d.sources.to_pylist(),
                strict=True,
            )
        )
        for d in decisions.of_files(files)
    ]
    return sorted(found), decisions.matched.unmatched().to_pylist()


@pytest.mark.parametrize("rows", [1, 3, 5, 100])
def test_rows_are_decided_the_same_however_many_are_looked_at_together(
    path: str, rows: int
) -> None:
    source = pa.table({"id": [1, 4, 6, 20], "v": [0, 0, 0, 0]})
    found, others = decide(path, source, UPDATE, INSERT, ALONE, rows=rows)
    assert found == [
        [(0, 0, 1), (2, 0, 2), (3, 1, None)],
        [(0, 1, None), (1, 1, None), (2, 1, None), (3, 1, None)],
        [(1, 0, 0)],
    ]
    assert others == [3]


def test_files_without_a_change_are_not_given(path: str) -> None:
    found, others = decide(path, pa.table({"id": [5], "v": [1]}), UPDATE)
    assert found == [[(1, 0, 0)]]
    assert others == []


def test_a_merge_that_only_inserts_decides_nothing_about_the_target(path: str) -> None:
    found, others = decide(path, pa.table({"id": [1, 1, 30], "v": [0, 0, 0]}), INSERT, rows=1)
    assert found == []
    assert others == [2]


def test_the_second_match_of_a_row_is_an_error_in_any_chunk(path: str) -> None:
    source = pa.table({"id": [9, 9], "v": [0, 1]})
    for rows in (1, 100):
        with pytest.raises(MultipleMatchesError, match="id = 9"):
            decide(path, source, UPDATE, rows=rows)
