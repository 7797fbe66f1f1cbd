"""Merges into tables with rules of their own."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines.memory import MemoryEngine
from bayou.errors import ConstraintViolationError
from bayou.kernel import Operation, Table, write_data
from bayou.kernel.commands.merge import join
from bayou.protocol.column_metadata import identity_column
from bayou.protocol.schema import LONG, STRING, StructField, StructType

GENERATED = {"delta.generationExpression": "n * 2"}
IDENTITY = {"delta.identity.start": 5, "delta.identity.step": 5}
BY_DEFAULT = {**IDENTITY, "delta.identity.allowExplicitInsert": True}


def made(rows: pa.Table, properties: dict[str, str], *fields: StructField) -> str:
    """A table with these columns and rows."""
    path = f"memory://{uuid.uuid4().hex}/table"
    engine = MemoryEngine()
    builder = Table.for_path(engine, path).create_transaction_builder(
        engine, "test", Operation.CREATE_TABLE
    )
    schema = StructType(fields)
    builder = builder.with_schema(schema).with_table_properties(properties)
    transaction = builder.build(engine)
    adds = write_data(engine, transaction.transaction_state(engine), rows.to_batches())
    transaction.commit(engine, adds)
    return path


def column(name: str, **metadata: Any) -> StructField:
    return StructField(name=name, data_type=LONG, metadata=metadata)


def rows(path: str) -> list[dict[str, Any]]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


@pytest.fixture(params=["false", "true"], ids=["rewritten", "vectors"])
def properties(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"delta.enableDeletionVectors": request.param}


def test_generated_columns_follow_what_they_are_made_of(properties: dict[str, str]) -> None:
    given = pa.table({"id": [1, 2], "n": [1, 2]})
    path = made(given, properties, column("id"), column("n"), column("g", **GENERATED))
    source = pa.table({"id": [2, 3], "n": [20, 30]})
    merge = bayou.table(path).merge(source, "target.id = source.id")
    merge = merge.when_matched_update({"n": "source.n"})
    merge.when_not_matched_insert({"id": "source.id", "n": "source.n"}).execute()
    assert [row["g"] for row in rows(path)] == [2, 40, 60]
    merge = bayou.table(path).merge(source, "target.id = source.id")
    with pytest.raises(ConstraintViolationError, match="generated column g"):
        merge.when_matched_update({"g": "source.n"}).execute()


def test_identity_columns_are_kept_and_given_out(properties: dict[str, str]) -> None:
    feed = {**properties, "delta.enableChangeDataFeed": "true"}
    given = pa.table({"id": [1, 2]})
    path = made(given, feed, column("id"), column("i", **IDENTITY))
    source = pa.table({"id": [2, 3, 4]})
    merge = bayou.table(path).merge(source, "target.id = source.id")
    merge = merge.when_matched_update({"id": "target.id + 100"})
    version = merge.when_not_matched_insert({"id": "source.id"}).execute().version
    found = {row["id"]: row["i"] for row in rows(path)}
    assert found == {1: 5, 102: 10, 3: 15, 4: 20}
    changes = bayou.table(path).changes(version).to_arrow().to_pylist()
    told = {row["id"]: row["i"] for row in changes if row["_change_type"] == "insert"}
    assert told == {3: 15, 4: 20}
    identity = identity_column(bayou.table(path).snapshot().schema.fields[1])
    assert identity is not None
    assert identity.high_water_mark == 20


def test_identity_values_may_be_brought_where_the_table_says_so() -> None:
    path = made(pa.table({"id": [1]}), {}, column("id"), column("i", **BY_DEFAULT))
    merge = bayou.table(path).merge(pa.table({"id": [9]}), "target.id = source.id")
    merge.when_not_matched_insert({"id": "id", "i": "source.id"}).execute()
    assert rows(path)[1] == {"id": 9, "i": 9}


def test_what_a_new_row_lacks_is_its_default() -> None:
    default = {"delta.feature.allowColumnDefaults": "supported"}
    path = made(
        pa.table({"id": [1], "d": [1]}), default, column("id"), column("d", CURRENT_DEFAULT="7")
    )
    merge = bayou.table(path).merge(pa.table({"id": [1, 2]}), "target.id = source.id")
    merge = merge.when_matched_update({"d": "DEFAULT"})
    merge.when_not_matched_insert({"id": "source.id"}).execute()
    assert [row["d"] for row in rows(path)] == [7, 7]


def test_new_fields_and_columns_come_into_mapped_tables(properties: dict[str, str]) -> None:
    mapped = {
        **properties,
        "delta.columnMapping.mode": "name",
        "delta.enableRowTracking": "true",
        "delta.enableChangeDataFeed": "true",
    }
    inner = StructType((StructField(name="x", data_type=LONG),))
    given = pa.table({"id": [1, 2], "s": [{"x": 1}, None]})
    path = made(given, mapped, column("id"), StructField(name="s", data_type=inner))
    source = pa.table({"id": [2, 3], "s": [{"y": "b"}, {"y": "c"}], "more": ["m", "n"]})
    merge = bayou.table(path).merge(source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(path) == [
        {"id": 1, "s": {"x": 1, "y": None}, "more": None},
        {"id": 2, "s": {"x": None, "y": "b"}, "more": "m"},
        {"id": 3, "s": {"x": None, "y": "c"}, "more": "n"},
    ]
    schema = bayou.table(path).snapshot().schema
    assert schema.names == ("id", "s", "more")
    assert schema.fields[2].data_type == STRING
    assert all("delta.columnMapping.id" in field.metadata for field in schema)


def test_a_schema_that_grows_is_committed_without_a_row(properties: dict[str, str]) -> None:
    path = made(pa.table({"id": [1]}), properties, column("id"))
    source = pa.table({"id": [5], "more": [1]})
    merge = bayou.table(path).merge(source, "target.id = source.id", merge_schema=True)
    metrics = merge.when_matched_update_all().execute()
    assert metrics.num_affected_rows == 0
    assert bayou.table(path).snapshot().schema.names == ("id", "more")


def test_nothing_written_stays_behind_a_merge_that_fails(properties: dict[str, str]) -> None:
    constraint = {**properties, "delta.constraints.low": "n < 100"}
    given = pa.table({"id": [1, 2], "n": [1, 2]})
    path = made(given, constraint, column("id"), column("n"))
    files = MemoryEngine().files
    before = {file.path for file in files.list_from(f"{path}/")}
    source = pa.table({"id": [1, 2, 3], "n": [5, 6, 500]})
    merge = bayou.table(path).merge(source, "target.id = source.id")
    with pytest.raises(ConstraintViolationError, match="low"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert {file.path for file in files.list_from(f"{path}/")} == before


@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "tracked"])
@pytest.mark.parametrize("feed", ["false", "true"], ids=["no feed", "feed"])
def test_rows_with_large_source_values_are_joined_in_slices(
    properties: dict[str, str], feed: str, tracked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "_MAX_JOINED_BYTES", 100)
    options = {**properties, "delta.enableChangeDataFeed": feed}
    if tracked:
        options["delta.enableRowTracking"] = "true"
    given = pa.table({"id": list(range(60)), "n": [i % 4 for i in range(60)], "s": ["old"] * 60})
    string = StructField(name="s", data_type=STRING)
    path = made(given, options, column("id"), column("n"), string)
    ids = ["id", "_metadata.row_id"] if tracked else ["id"]
    before = bayou.table(path).to_arrow(ids)
    source = pa.table({"n": [1, 2, 9, 9], "p": ["a" * 50, "b" * 20, "c" * 90, "d" * 90]})
    merge = bayou.table(path).merge(source, "target.n = source.n AND target.s <> source.p")
    merge = merge.when_matched_update({"s": "source.p"}, predicate="source.p < 'b'")
    merge = merge.when_matched_delete(predicate="length(source.p) = 20 AND target.id > 30")
    merge = merge.when_matched_update({"s": "concat(source.p, target.s)"})
    merge = merge.when_not_matched_by_source_update({"s": "'left'"}, predicate="target.n = 0")
    merge = merge.when_not_matched_insert(
        {"id": "100", "n": "9", "s": "source.p"}, predicate="source.p <> ''"
    )
    metrics = merge.execute()
    assert (metrics.num_target_rows_updated, metrics.num_target_rows_deleted) == (38, 7)
    changed = {0: "left", 1: "a" * 50, 2: "b" * 20 + "old", 3: "old"}
    expected = [
        {"id": i, "n": i % 4, "s": changed[i % 4]} for i in range(60) if i % 4 != 2 or i <= 30
    ]
    expected += [{"id": 100, "n": 9, "s": letter * 90} for letter in "cd"]
    assert rows(path) == sorted(expected, key=repr)
    after = bayou.table(path).to_arrow(ids, filter="id < 100")
    assert set(map(repr, after.to_pylist())) <= set(map(repr, before.to_pylist()))
