"""Merges by the short API."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    ConcurrentAppendError,
    ConstraintViolationError,
    EvaluationError,
    MultipleMatchesError,
    PredicateError,
    SchemaError,
)
from bayou.kernel import col, lit
from bayou.kernel.commands.merge import (
    MergeClause,
    MergeDefinition,
    MergeMetrics,
    MergeSource,
    merge,
)
from bayou.protocol.schema import LONG, VOID, StructField, StructType

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def made(path: str, properties: dict[str, str] | None = None, **columns: Any) -> str:
    columns = columns or {"id": [1, 2, 3], "v": ["a", "b", "c"]}
    bayou.write(path, pa.table(columns), configuration=properties)
    return path


def rows(path: str) -> list[dict[str, Any]]:
    return sorted(bayou.table(path).to_arrow().to_pylist(), key=repr)


def test_an_upsert_updates_what_matches_and_inserts_the_rest(path: str) -> None:
    made(path)
    source = pa.table({"id": [2, 9], "v": ["B", "new"]})
    merge = bayou.table(path).merge(source, "target.id = source.id")
    metrics = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(path) == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "B"},
        {"id": 3, "v": "c"},
        {"id": 9, "v": "new"},
    ]
    assert metrics.version == 1
    assert metrics.num_affected_rows == 2


@pytest.mark.parametrize("properties", [FEED, {**FEED, **VECTORS}])
@pytest.mark.parametrize("values", [[7, 8], [{"x": 7, "n": None}, None]], ids=["long", "struct"])
def test_a_merge_that_evolves_the_schema_gives_void_columns_a_type(
    path: str, properties: dict[str, str], values: list[Any]
) -> None:
    fields = [("id", LONG), ("v", VOID)]
    schema = StructType(tuple(StructField(name=n, data_type=t) for n, t in fields))
    bayou.create(path, schema, configuration=properties)
    bayou.write(path, pa.table({"id": [1, 2, 3]}))
    source = pa.table({"id": [2, 9], "v": values})

    def upsert(*, evolves: bool) -> None:
        merge = bayou.table(path).merge(source, "target.id = source.id", merge_schema=evolves)
        merge = merge.when_matched_update({"v": "source.v"})
        merge = merge.when_not_matched_insert({"id": "source.id", "v": "source.v"})
        merge.when_not_matched_by_source_delete("target.id = 3").execute()

    with pytest.raises(SchemaError, match="DATATYPE_MISMATCH"):
        upsert(evolves=False)
    upsert(evolves=True)
    assert rows(path) == [
        {"id": 1, "v": None},
        {"id": 2, "v": values[0]},
        {"id": 9, "v": values[1]},
    ]
    changes = bayou.table(path).changes(2).to_arrow().select(["id", "v", "_change_type"])
    found = sorted(changes.to_pylist(), key=lambda row: (row["id"], row["_change_type"]))
    assert found == [
        {"id": 2, "v": values[0], "_change_type": "update_postimage"},
        {"id": 2, "v": None, "_change_type": "update_preimage"},
        {"id": 3, "v": None, "_change_type": "delete"},
        {"id": 9, "v": values[1], "_change_type": "insert"},
    ]


@pytest.mark.parametrize("kind", ["polars", "duckdb", "reader", "batch"])
def test_the_source_is_anything_with_an_arrow_stream(path: str, kind: str) -> None:
    made(path)
    source = pa.table({"id": [2], "v": ["B"]})
    given: Any = {
        "polars": lambda: pl.from_arrow(source),
        "duckdb": lambda: duckdb.sql("SELECT 2::BIGINT AS id, 'B' AS v"),
        "reader": source.to_reader,
        "batch": lambda: source.to_batches()[0],
    }[kind]()
    merge = bayou.table(path).merge(given, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update({"v": "concat(t.v, s.v)"}).execute()
    assert rows(path)[1] == {"id": 2, "v": "bB"}


def test_conditions_and_values_may_be_expressions(path: str) -> None:
    made(path)
    merge = bayou.table(path).merge(
        pa.table({"id": [1, 2], "n": [1, 2]}), col("target", "id") == col("source", "id")
    )
    merge.when_matched_update({"v": lit("x")}, col("n") > 1).execute()
    assert [row["v"] for row in rows(path)] == ["a", "x", "c"]


def test_a_builder_can_be_gone_on_from_twice(path: str) -> None:
    made(path)
    base = bayou.table(path).merge(pa.table({"id": [1]}), "target.id = source.id")
    base.when_matched_update({"v": "'1'"}).execute()
    base.when_matched_delete().execute()
    assert [row["id"] for row in rows(path)] == [2, 3]


def test_the_history_tells_the_merge_as_delta_spark_does(path: str) -> None:
    made(path)
    merge = bayou.table(path).merge(
        pa.table({"id": [1, 2, 7]}), "target.id = source.id", commit_metadata="why"
    )
    merge = merge.when_matched_delete("source.id = 1").when_matched_update({"v": "'u'"})
    merge = merge.when_not_matched_insert({"id": "source.id"})
    merge.when_not_matched_by_source_update({"v": "'alone'"}, "target.id > 2").execute()
    (commit,) = bayou.table(path).history(1)
    assert commit["operation"] == "MERGE"
    assert commit["userMetadata"] == "why"
    parameters = {k: json.loads(v) for k, v in commit["operationParameters"].items()}
    assert parameters == {
        "predicate": ["target.id = source.id"],
        "matchedPredicates": [
            {"predicate": "source.id = 1", "actionType": "delete"},
            {"actionType": "update"},
        ],
        "notMatchedPredicates": [{"actionType": "insert"}],
        "notMatchedBySourcePredicates": [{"predicate": "target.id > 2", "actionType": "update"}],
    }
    counts = {k: int(v) for k, v in commit["operationMetrics"].items() if k.startswith("numT")}
    assert counts["numTargetRowsMatchedUpdated"] == 1
    assert counts["numTargetRowsNotMatchedBySourceUpdated"] == 1
    assert counts["numTargetRowsUpdated"] == 2
    assert counts["numTargetRowsDeleted"] == counts["numTargetRowsMatchedDeleted"] == 1
    assert counts["numTargetRowsInserted"] == 1
    assert counts["numTargetFilesRemoved"] == 1
    assert counts["numTargetFilesAdded"] >= 1


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED])
def test_a_merge_that_only_inserts_touches_no_file(path: str, properties: dict[str, str]) -> None:
    made(path, properties)
    before = bayou.table(path).snapshot().files()["path"].to_pylist()
    merge = bayou.table(path).merge(
        pa.table({"id": [1, 1, 5, 5], "v": ["x", "x", "y", "y"]}), "target.id = source.id"
    )
    metrics = merge.when_not_matched_insert_all().execute()
    assert metrics.num_target_rows_inserted == 2
    after = bayou.table(path).snapshot().files()["path"].to_pylist()
    assert set(before) < set(after)
    assert metrics.num_target_change_files_added == 0


def test_several_matches_of_one_row_are_an_error_and_nothing_changes(path: str) -> None:
    made(path)
    table = bayou.table(path)
    merge = table.merge(pa.table({"id": [1, 1], "v": ["x", "y"]}), "target.id = source.id")
    with pytest.raises(MultipleMatchesError, match="id = 1") as caught:
        merge.when_matched_update_all("source.v = 'x'").execute()
    assert "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in str(caught.value)
    assert table.snapshot().version == 0
    with pytest.raises(MultipleMatchesError):
        merge.when_matched_delete("source.v = 'x'").execute()
    assert merge.when_matched_delete().execute().num_target_rows_deleted == 1


def test_nothing_is_committed_where_nothing_changes(path: str) -> None:
    made(path)
    merge = bayou.table(path).merge(pa.table({"id": [8], "v": ["x"]}), "target.id = source.id")
    assert merge.when_matched_update_all().execute().version == 0
    empty = bayou.table(path).merge(
        pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())}),
        "target.id = source.id",
    )
    assert empty.when_matched_update_all().when_not_matched_insert_all().execute().version == 0


def test_schema_evolution_adds_columns_and_keeps_what_the_source_lacks(path: str) -> None:
    made(path, id=[1, 2], v=["a", "b"], w=[1, 2])
    source = pa.table({"id": [2, 3], "v": ["B", "C"], "day": [dt.date(2024, 1, 5)] * 2})
    merge = bayou.table(path).merge(source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(path) == [
        {"id": 1, "v": "a", "w": 1, "day": None},
        {"id": 2, "v": "B", "w": 2, "day": dt.date(2024, 1, 5)},
        {"id": 3, "v": "C", "w": None, "day": dt.date(2024, 1, 5)},
    ]


def test_values_are_cast_to_their_columns_and_overflow_is_an_error(path: str) -> None:
    made(path, id=[1, 2], n=pa.array([1, 2], pa.int8()))
    table = bayou.table(path)
    merge = table.merge(pa.table({"id": ["2"], "n": [100]}), "target.id = source.id")
    merge.when_matched_update_all().execute()
    assert rows(path)[1] == {"id": 2, "n": 100}
    merge = table.merge(pa.table({"id": [2], "n": [1000]}), "target.id = source.id")
    with pytest.raises(EvaluationError, match="DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"):
        merge.when_matched_update_all().execute()


def test_rows_that_break_a_rule_of_the_table_are_refused(path: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    bayou.write(path, pa.table({"id": [1], "v": ["a"]}, schema=schema))
    merge = bayou.table(path).merge(pa.table({"id": [1, 2]}), "target.id = source.id")
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        merge.when_matched_update({"id": "NULL"}).execute()
    with pytest.raises(ConstraintViolationError):
        merge.when_not_matched_insert({"v": "'x'"}).execute()
    assert bayou.table(path).snapshot().version == 0


def test_a_writer_in_another_partition_is_no_conflict(path: str) -> None:
    table = pa.table({"id": [1, 2], "p": ["a", "b"]})
    bayou.write(path, table, partition_by=["p"])
    source = pa.table({"id": [1], "p": ["a"], "n": [5]})

    snapshot = bayou.table(path).snapshot().kernel
    definition = MergeDefinition(
        on="target.id = source.id AND target.p = source.p",
        clauses=(MergeClause(kind="MATCHED", action="update", assignments={"id": "source.n"}),),
    )

    def merged() -> MergeMetrics:
        rows = MergeSource.read(source.schema, source.to_batches())
        return merge(for_path(path, {}), snapshot, rows, definition, engine_info="test")

    bayou.write(path, pa.table({"id": [7], "p": ["b"]}))
    assert merged().version == 2
    bayou.write(path, pa.table({"id": [8], "p": ["a"]}))
    with pytest.raises(ConcurrentAppendError):
        merged()


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_files_that_keys_cannot_be_in_are_not_touched(
    path: str, properties: dict[str, str]
) -> None:
    for first in (0, 10, 20):
        ids = list(range(first, first + 10))
        bayou.write(path, pa.table({"id": ids, "v": ids}), configuration=properties or None)
    merge = bayou.table(path).merge(pa.table({"id": [12], "v": [0]}), "target.id = source.id")
    metrics = merge.when_matched_update_all().execute()
    assert metrics.num_target_rows_copied == (0 if properties else 9)
    assert metrics.num_target_rows_updated == 1


def test_wrong_arguments_are_refused_in_a_sentence(path: str) -> None:
    made(path)
    table = bayou.table(path)
    source = pa.table({"id": [1], "v": ["x"]})
    with pytest.raises(ArgumentError, match="predicate: the value is None"):
        table.merge(source, None)  # type: ignore[arg-type]
    merge = table.merge(source, "target.id = source.id")
    with pytest.raises(ArgumentError, match="DELTA_MERGE_MISSING_WHEN"):
        merge.execute()
    with pytest.raises(ArgumentError, match="updates: column 'v' can't be set to 3"):
        merge.when_matched_update({"v": 3})  # type: ignore[dict-item]
    with pytest.raises(ArgumentError, match="source: the items have the type int"):
        table.merge([1], "true").when_matched_delete().execute()  # type: ignore[arg-type]
    with pytest.raises(PredicateError, match="AMBIGUOUS_REFERENCE"):
        table.merge(source, "id = 1").when_matched_delete().execute()
    twice = pa.table([[1], [2]], names=["a", "A"])
    with pytest.raises(SchemaError, match="duplicate column"):
        table.merge(twice, "true").when_matched_delete().execute()


@pytest.mark.parametrize(
    ("name", "changed"),
    [("a.b", {"a": {"b": 5}}), ("`a.b`", {"a.b": 5}), ("t.id", {"id": 5}), ("`t.id`", {"t.id": 5})],
)
def test_a_name_with_a_dot_is_first_of_all_a_path(tmp_path, name, changed):
    columns = {"a.b": [1], "a": [{"b": 10}], "id": [7], "t.id": [70]}
    bayou.write(str(tmp_path), pa.table(columns))
    merge = bayou.table(str(tmp_path)).merge(
        pa.table({"id": [7]}), "t.id = s.id", source_alias="s", target_alias="t"
    )
    merge.when_matched_update({name: "5"}).execute()
    expected = {key: values[0] for key, values in columns.items()} | changed
    assert bayou.table(str(tmp_path)).to_arrow().to_pylist() == [expected]
