"""SYNC IDENTITY."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import bayou
from bayou.engines.memory import MemoryEngine
from bayou.errors import SchemaError
from bayou.kernel import Snapshot
from bayou.kernel.commands.alter.sync_identity import sync_identity
from bayou.protocol.column_metadata import identity_column
from support.log_writer import LogWriter, add, metadata, protocol


def identity(start: int = 10, step: int = 3, mark: int | None = None) -> dict[str, object]:
    rules: dict[str, object] = {
        "delta.identity.start": start,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": True,
    }
    if mark is not None:
        rules["delta.identity.highWaterMark"] = mark
    return rules


def table(tmp_path, rules: dict[str, object], *values: int | None) -> str:
    """A table with an identity column `id` and some rows."""
    path = str(tmp_path / "t")
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": rules},
        {"name": "x", "type": "long", "nullable": True, "metadata": {}},
    ]
    bayou.write(path, pa.table({"id": pa.array(values, pa.int64()), "x": [1] * len(values)}))
    log = f"{path}/_delta_log/{0:020d}.json"
    with open(log) as file:
        actions = [json.loads(line) for line in file]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 6}
    with open(log, "w") as file:
        file.writelines(json.dumps(action) + "\n" for action in actions)
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.crc").unlink(missing_ok=True)
    return path


def mark_of(path: str) -> int | None:
    found = identity_column(bayou.table(path).snapshot().schema.get("id"))
    return found.high_water_mark


@pytest.mark.parametrize(
    ("rules", "values", "mark"),
    [
        (identity(), (10, 11, None), 13),
        (identity(), (10, 16), 16),
        (identity(mark=40), (10, 16), 40),
        (identity(mark=13), (10, 50), 52),
        (identity(step=-3), (10, 5, -1), -2),
        (identity(), (9,), None),
        (identity(mark=4), (9,), 10),
        (identity(), (None,), None),
    ],
)
def test_the_mark_is_where_the_rows_end(tmp_path, rules, values, mark):
    path = table(tmp_path, rules, *values)
    before = bayou.table(path).snapshot().version
    version = bayou.table(path).alter.sync_identity("id")
    assert mark_of(path) == mark
    assert version == before + (mark != rules.get("delta.identity.highWaterMark"))
    if version > before:
        commit = bayou.table(path).history(1)[0]
        assert commit["operation"] == "CHANGE COLUMN"
    assert bayou.table(path).alter.sync_identity("ID") == version


def test_made_values_begin_behind_those_that_were_given(tmp_path):
    path = table(tmp_path, identity(start=1, step=1), 1, 7)
    bayou.table(path).alter.sync_identity("id")
    bayou.write(path, pa.table({"x": [2, 3]}))
    assert sorted(bayou.table(path).to_arrow()["id"].to_pylist()) == [1, 7, 8, 9]


def test_another_column_is_refused():
    log = LogWriter(MemoryEngine(), "memory://sync/t")
    log.commit(protocol(), metadata({"id": "long"}), add("a"))
    state = Snapshot.load(log.engine, log.table)
    with pytest.raises(SchemaError, match="DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"):
        sync_identity(log.engine, state, ("id",), engine_info="test/1")
