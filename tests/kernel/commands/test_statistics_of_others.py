"""Files whose statistics count what others than delta-spark count, or count too few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.errors import CorruptTableError
from support.vectors import inline_vector

PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
ROWS = pa.table({"id": [0, 1, 2, 3, 4], "name": ["a", None, None, None, "b"]})


def with_add(path: Path, version: int, **fields: Any) -> None:
    """Change the one `add` of a commit, as another writer would have written it."""
    log = path / "_delta_log"
    (log / f"{version:020d}.crc").unlink(missing_ok=True)
    commit = log / f"{version:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"].update(fields)
    commit.write_text("\n".join(map(json.dumps, actions)))


@pytest.fixture
def counted(tmp_path) -> TableHandle:
    """Rows 0, 3 and 4 of five; numRecords is their number, as Trino's ANALYZE writes it."""
    path = tmp_path / "table"
    bayou.write(path, ROWS, configuration=PROPERTIES)
    table = bayou.table(path)
    table.delete("id IN (1, 2)")
    with_add(path, 1, stats='{"numRecords":3,"nullCount":{"id":0,"name":1}}')
    return table


def ids(table: TableHandle) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_rows_are_counted_in_the_file(counted):
    assert counted.snapshot().count() == 3


def test_a_delete_of_one_row_leaves_the_others(counted):
    counted.delete("id = 0")
    assert ids(counted) == [3, 4]
    counted.delete("id = 4")
    assert ids(counted) == [3]
    counted.delete("id = 3")
    assert ids(counted) == []


def test_an_update_of_all_rows_reaches_all(counted):
    counted.update({"id": "id + 10"})
    assert ids(counted) == [10, 13, 14]


def test_a_merge_leaves_rows_without_a_match(counted):
    merge = counted.merge(pa.table({"id": [0, 3]}), "target.id = source.id")
    merge.when_matched_delete().execute()
    assert ids(counted) == [4]


def test_row_ids_of_a_clone_are_given_out_once(counted, tmp_path):
    counted.clone(str(tmp_path / "clone"))
    clone = bayou.table(tmp_path / "clone")
    bayou.write(tmp_path / "clone", pa.table({"id": [7], "name": ["c"]}))
    found = clone.to_arrow(columns=["_metadata.row_id"]).column(0).to_pylist()
    assert len(set(found)) == len(found) == 4


def test_null_counts_of_all_rows_leave_out_no_file(tmp_path):
    path = tmp_path / "table"
    bayou.write(path, ROWS, configuration=PROPERTIES)
    table = bayou.table(path)
    table.delete("id IN (1, 2)")
    # As Trino writes it: what the file's footer says, and nothing about bounds.
    with_add(path, 1, stats='{"numRecords":5,"nullCount":{"id":0,"name":3}}')
    table.delete("id = 4")
    assert table.to_arrow(filter="name = 'a'")["id"].to_pylist() == [0]


def test_a_vector_that_deletes_rows_which_the_file_lacks_loses_no_other(tmp_path):
    path = tmp_path / "table"
    bayou.write(path, ROWS, configuration=PROPERTIES)
    table = bayou.table(path)
    table.delete("id = 0")
    with_add(path, 1, deletionVector=inline_vector([0, 9]))
    assert ids(table) == [1, 2, 3, 4]
    with pytest.raises(CorruptTableError, match="deletes row 9, but the file has 5 rows"):
        table.delete("id < 4")
    assert ids(table) == [1, 2, 3, 4]


@pytest.mark.parametrize("stated", [-1, 2, 9])
@pytest.mark.parametrize("properties", [{}, PROPERTIES, {"delta.enableChangeDataFeed": "true"}])
@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.delete("id < 2"), [2, 3, 4]),
        (lambda table: table.delete("name = 'a'"), [1, 2, 3, 4]),
        (lambda table: table.update({"id": "id + 10"}, predicate="id < 2"), [2, 3, 4, 10, 11]),
        (lambda table: table.update({"id": "id + 10"}), [10, 11, 12, 13, 14]),
        (lambda table: table.delete("id >= 0"), []),
        (
            lambda table: (
                table.merge(pa.table({"id": [0, 1]}), "target.id = source.id")
                .when_matched_delete()
                .execute()
            ),
            [2, 3, 4],
        ),
    ],
)
def test_a_file_with_a_wrong_number_of_rows_loses_no_other_row(
    tmp_path, stated, properties, change, left
):
    path = tmp_path / "table"
    bayou.write(path, ROWS, configuration=properties)
    bounds = '"minValues":{"id":0},"maxValues":{"id":4},"nullCount":{"id":0}'
    with_add(path, 0, stats=f'{{"numRecords":{stated},{bounds}}}')
    table = bayou.table(path)
    assert stated >= 0 or table.snapshot().count() == 5
    change(table)
    assert ids(table) == left
    if "delta.enableChangeDataFeed" in properties:
        kinds = table.changes(1).to_arrow()["_change_type"].to_pylist()
        assert len(kinds) - 2 * kinds.count("update_postimage") == 5 - len(left)
