"""UPDATE: new values of every kind of column, and what the table's rules say to them."""

from __future__ import annotations

import datetime as dt
import uuid
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bayou
from bayou.engines.memory import MemoryEngine
from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    EvaluationError,
    PredicateError,
    SchemaError,
)
from bayou.kernel import Operation, Table, col, lit
from bayou.kernel.expressions.evaluation import DefaultExpressionHandler
from bayou.protocol.schema import StructField, StructType

VECTORS = {"delta.enableDeletionVectors": "true"}
ROWS = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int32()),
        "s": [{"x": 1, "t": {"y": "a"}}, None, {"x": 3, "t": None}],
        "note": ["n0", "n1", None],
    }
)


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture(params=[{}, VECTORS], ids=["rewrite", "vectors"])
def properties(request) -> dict[str, str]:
    return request.param


@pytest.fixture
def table(tmp_path, properties) -> bayou.api.TableHandle:
    bayou.write(str(tmp_path), ROWS, configuration=properties)
    return bayou.table(str(tmp_path))


def rows(table) -> list[dict]:
    return table.to_arrow().sort_by("id").to_pylist()


def made(engine, path, fields, properties, data, partition_by=()):
    """A table of these fields, with rows."""
    table = Table.for_path(engine, path)
    builder = (
        table.create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
        .with_schema(StructType(tuple(fields)))
        .with_partition_columns(partition_by)
        .with_table_properties(properties)
    )
    builder.build(engine).commit(engine, [])
    bayou.write(path, data)
    return bayou.table(path, engine=engine)


def test_all_values_see_the_row_as_it_was(table):
    metrics = table.update({"id": "id + 10", "note": "concat('was ', id)"}, predicate="id > 0")
    assert metrics.num_updated_rows == 2
    assert [(r["id"], r["note"]) for r in rows(table)] == [(0, "n0"), (11, "was 1"), (12, "was 2")]


def test_columns_match_without_regard_to_case_and_values_may_be_expressions(table):
    table.update({"NOTE": lit("it's"), "Id": col("id") * 2}, predicate=col("note").is_null())
    assert rows(table)[2]["note"] == "it's"
    assert rows(table)[2]["id"] == 4


def test_fields_of_structs_are_set_by_their_path(table):
    table.update({"s.x": "id", "s.t.y": "note"})
    assert [r["s"] for r in rows(table)] == [
        {"x": 0, "t": {"y": "n0"}},
        {"x": 1, "t": {"y": "n1"}},
        {"x": 2, "t": {"y": None}},
    ]


def test_a_value_that_does_not_fit_its_column_is_an_error(table):
    with pytest.raises(EvaluationError):
        table.update({"id": "3000000000"})
    with pytest.raises(EvaluationError):
        table.update({"id": "note"})
    with pytest.raises(PredicateError):
        table.update({"s": "id"})
    assert rows(table) == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nope": "1"}, "no column 'nope'"),
        ({"s.nope": "1"}, r"No such struct field 'nope' in x, t"),
        ({"s": "NULL", "s.x": "1"}, "set the same column"),
        ({"note": "''", "NOTE": "''"}, "set the same column"),
    ],
)
def test_columns_that_cannot_be_set_are_named(table, values, message):
    with pytest.raises(SchemaError, match=message):
        table.update(values)


def test_arguments_are_checked(table):
    with pytest.raises(ArgumentError, match="at least one column"):
        table.update({})
    with pytest.raises(ArgumentError, match=r"lit\(5\)"):
        table.update({"id": 5})
    with pytest.raises(ArgumentError, match="dictionary"):
        table.update("id = 5")
    with pytest.raises(ArgumentError, match="predicate"):
        table.delete(5)


def test_the_history_has_the_metrics_of_delta_spark(table, properties):
    table.update({"note": "'x'"}, predicate="id < 2")
    table.update({"note": "'y'"})
    second, first = table.history(2)
    assert first["operationParameters"] == {"predicate": '["id < 2"]'}
    assert second["operationParameters"] == {"predicate": "[]"}
    metrics = first["operationMetrics"]
    assert set(metrics) == {
        "numAddedFiles",
        "numRemovedFiles",
        "numAddedChangeFiles",
        "numDeletionVectorsAdded",
        "numDeletionVectorsRemoved",
        "numDeletionVectorsUpdated",
        "numUpdatedRows",
        "numCopiedRows",
        "executionTimeMs",
        "scanTimeMs",
        "rewriteTimeMs",
        "numRemovedBytes",
        "numAddedBytes",
    }
    assert metrics["numUpdatedRows"] == "2"
    assert metrics["numCopiedRows"] == ("0" if properties else "1")
    assert metrics["numDeletionVectorsAdded"] == ("1" if properties else "0")


def test_no_row_no_commit(table):
    assert table.update({"note": "'x'"}, predicate="id > 5").version == 0


def test_partition_columns_change_and_rows_move(tmp_path, properties):
    path = str(tmp_path)
    bayou.write(path, ROWS.drop(["s"]), partition_by=["note"], configuration=properties)
    table = bayou.table(path)
    table.update({"note": "'n0'"}, predicate="id = 1")
    assert {r["id"]: r["note"] for r in rows(table)} == {0: "n0", 1: "n0", 2: None}
    assert table.snapshot().files(filter="note = 'n1'").num_rows == 0


def test_generated_columns_follow_what_they_are_made_of(engine, table_path, properties):
    generated = {"delta.generationExpression": "CAST(at AS DATE)"}
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    table = made(
        engine,
        table_path,
        [
            StructField(name="id", data_type="long"),
            StructField(name="at", data_type="timestamp"),
            StructField(name="day", data_type="date", metadata=generated),
        ],
        properties,
        pa.table({"id": [1, 2], "at": pa.array([moment, None], pa.timestamp("us", "UTC"))}),
        ["day"],
    )
    table.update({"at": "at + INTERVAL 1 DAY"})
    table.update({"id": "id + 1"})
    assert [(r["id"], r["day"]) for r in rows(table)] == [(2, dt.date(2024, 3, 1)), (3, None)]
    with pytest.raises(ConstraintViolationError, match="generated column day"):
        table.update({"day": "DATE'2000-01-01'"}, predicate="id = 2")


def test_rules_hold_for_new_versions(engine, table_path, properties):
    table = made(
        engine,
        table_path,
        [
            StructField(name="id", data_type="long", nullable=False),
            StructField(
                name="s",
                data_type="string",
                metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)", "CURRENT_DEFAULT": "'def'"},
            ),
        ],
        properties
        | {"delta.constraints.small": "id < 100", "delta.feature.allowColumnDefaults": "supported"},
        pa.table({"id": [1, 2], "s": ["a", "b"]}),
    )
    with pytest.raises(ConstraintViolationError, match="small"):
        table.update({"id": "id + 99"}, predicate="s = 'a'")
    with pytest.raises(ConstraintViolationError, match="is NOT NULL"):
        table.update({"id": "NULL"})
    with pytest.raises(ConstraintViolationError, match="varchar"):
        table.update({"s": "'long'"})
    table.update({"s": "default"}, predicate="id = 1")
    assert [r["s"] for r in rows(table)] == ["def", "b"]


def test_identity_columns_keep_their_values_and_cannot_be_set(engine, table_path, properties):
    identity = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
    }
    table = made(
        engine,
        table_path,
        [
            StructField(name="id", data_type="long", metadata=identity),
            StructField(name="s", data_type="string"),
        ],
        properties,
        pa.table({"s": ["a", "b", "c"]}),
    )
    table.update({"s": "upper(s)"}, predicate="s <> 'b'")
    table.delete("s = 'C'")
    assert [(r["id"], r["s"]) for r in rows(table)] == [(1, "A"), (2, "b")]
    with pytest.raises(SchemaError, match="IDENTITY_COLUMNS_UPDATE"):
        table.update({"id": "7"})
    bayou.write(table_path, pa.table({"s": ["d"]}))
    assert rows(table)[-1] == {"id": 4, "s": "d"}


def test_an_append_only_table_is_left_alone(tmp_path):
    bayou.write(str(tmp_path), ROWS, configuration={"delta.appendOnly": "true"})
    with pytest.raises(ConstraintViolationError, match="append-only"):
        bayou.table(str(tmp_path)).update({"note": "''"})


def test_columns_that_became_wider_are_written_as_they_are_now(tmp_path, properties):
    path = str(tmp_path)
    bayou.write(path, ROWS.select(["id"]), configuration=properties)
    bayou.write(path, pa.table({"id": pa.array([3], pa.int32()), "new": [1.5]}), merge_schema=True)
    bayou.table(path).update({"new": "id"}, predicate="id < 2")
    assert [(r["id"], r["new"]) for r in rows(bayou.table(path))] == [
        (0, 0.0),
        (1, 1.0),
        (2, None),
        (3, 1.5),
    ]


ALIKE = pa.table({"a.b": [1], "a": [{"b": 10}], "id": [7], "t.id": [70]})


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("a.b", {"a": {"b": 5}}),
        ("`a.b`", {"a.b": 5}),
        ("t.id", {"t.id": 5}),
        ("A.B", {"a": {"b": 5}}),
    ],
)
def test_a_name_with_a_dot_is_a_field_of_a_struct_if_there_is_one(tmp_path, name, changed):
    bayou.write(str(tmp_path), ALIKE)
    bayou.table(str(tmp_path)).update({name: "5"})
    assert rows(bayou.table(str(tmp_path))) == [{**ALIKE.to_pylist()[0], **changed}]


class SmallArrays(DefaultExpressionHandler):
    """Fails for more than two rows, as Arrow does for strings of more than 2 GiB."""

    def evaluator(self, schema, expression, output_type):
        inner = super().evaluator(schema, expression, output_type)

        def evaluate(batch):
            if batch.num_rows > 2:
                raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
            return inner.eval(batch)

        return SimpleNamespace(eval=evaluate)


class SmallArraysEngine(MemoryEngine):
    @property
    def expressions(self):
        return SmallArrays()


def test_values_that_are_too_large_for_one_array_are_computed_in_parts(properties):
    path = f"memory://{uuid.uuid4().hex}/t"
    tracked = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
    data = pa.table({"id": list(range(9)), "note": [None] * 8 + ["n"]})
    bayou.write(path, data, configuration={**properties, **tracked})
    columns = ["id", "_metadata.row_id"]
    before = bayou.table(path).to_arrow(columns).sort_by("id").to_pylist()
    table = bayou.table(path, engine=SmallArraysEngine())
    assert table.update({"note": "concat('was ', id)"}, predicate="id > 0").num_updated_rows == 8
    assert [row["note"] for row in rows(table)] == [None, *(f"was {n}" for n in range(1, 9))]
    assert bayou.table(path).to_arrow(columns).sort_by("id").to_pylist() == before
    kinds = table.changes(1).to_arrow()["_change_type"].to_pylist()
    assert sorted(kinds) == ["update_postimage"] * 8 + ["update_preimage"] * 8
