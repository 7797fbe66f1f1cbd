from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import ConstraintViolationError
from bayou.kernel import Table
from bayou.kernel.commands.truncate import truncate


def run(path: str) -> int:
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    return truncate(engine, snapshot, engine_info="test")


def test_all_files_go_and_older_versions_keep_theirs(tmp_path):
    path = str(tmp_path / "t")
    for _ in range(2):
        bayou.write(path, pa.table({"id": [1, 2]}))
    assert run(path) == 2
    table = bayou.table(path)
    assert table.to_arrow().num_rows == 0
    assert table.to_arrow(version=1).num_rows == 4
    commit = table.history(1)[0]
    assert commit["operation"] == "TRUNCATE"
    assert commit["operationMetrics"]["numRemovedFiles"] == "2"


def test_an_append_only_table_is_not_truncated(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}), configuration={"delta.appendOnly": "true"})
    with pytest.raises(ConstraintViolationError):
        run(path)
