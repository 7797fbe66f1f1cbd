"""Writes in every mode: what is there afterwards, and what the history says of it."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    ArgumentError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    ConstraintViolationError,
    MetadataChangedError,
    PredicateError,
    SchemaError,
    TableAlreadyExistsError,
    TablePropertyError,
)
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.commands.write import (
    TableWrite,
    WriteMode,
    commit_write,
    plan_write,
)
from bayou.kernel.data_writer.task_writer import write_task_data
from bayou.kernel.expressions.model import Column, Comparison, Literal
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.schema import INTEGER, SHORT, StructField, StructType
from support.rivals import EngineWithRival

ENGINE = ArrowEngine()
ROWS = pa.table({"id": range(6), "p": ["a", "b", "c"] * 2})
OVERWRITE = WriteMode.OVERWRITE
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def partitioned(path) -> str:
    bayou.write(path, ROWS, partition_by=["p"])
    return path


def asked(path: str, rows: pa.Table, mode: WriteMode = WriteMode.APPEND, **options) -> TableWrite:
    schema = from_arrow_schema(rows.schema, table=path)
    return TableWrite(table=path, schema=schema, mode=mode, engine_info="test", **options)


def write(
    path: str, rows: pa.Table, mode: WriteMode = WriteMode.APPEND, *, between=None, **options
):
    """A write as a connector does it: everything pickles on its way to tasks and to the commit."""
    request = asked(path, rows, mode, **options)
    request, plan = pickle.loads(pickle.dumps((request, plan_write(ENGINE, request))))
    files = []
    if not plan.is_noop:
        state = TransactionState.from_bytes(plan.state)
        files = write_task_data(ENGINE, state, rows.to_batches())
    if between is not None:
        between()
    return commit_write(ENGINE, request, plan, files)


def found(path: str, column: str = "id") -> list[object]:
    return sorted(bayou.table(path).to_arrow()[column].to_pylist())


def last(path: str) -> dict:
    return bayou.table(path).history(1)[0]


def table(ids, p="a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids), pa.string())})


def unreferenced(path: str) -> set[str]:
    there = {f.name for f in Path(path).rglob("*.parquet") if "_delta_log" not in str(f)}
    lines = (
        json.loads(line)
        for log in Path(path, "_delta_log").glob("*.json")
        for line in log.read_text().splitlines()
    )
    named = {
        action[kind]["path"].rsplit("/", 1)[-1]
        for action in lines
        for kind in ("add", "cdc")
        if kind in action
    }
    return there - named


def test_a_new_table_gets_the_partition_columns_in_the_schemas_spelling(path):
    write(path, ROWS, WriteMode.ERROR, partition_by=("P",))
    snapshot = bayou.table(path).snapshot()
    assert snapshot.partition_columns == ("p",)
    assert last(path)["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": '["P"]'}


def test_error_refuses_a_table_that_is_there_before_anything_is_written(partitioned):
    with pytest.raises(TableAlreadyExistsError):
        write(partitioned, ROWS, WriteMode.ERROR)


def test_a_property_that_there_is_not_is_refused_also_where_there_is_a_table(partitioned):
    with pytest.raises(TablePropertyError, match=r"unknown table property 'delta\.appendonlly'"):
        write(partitioned, ROWS, properties={"delta.appendonlly": "true"})
    write(partitioned, ROWS, properties={"delta.appendOnly": "true"})
    assert "delta.appendOnly" not in bayou.table(partitioned).snapshot().properties


def test_ignore_leaves_a_table_that_is_there(partitioned):
    outcome = write(partitioned, table([9]), WriteMode.IGNORE)
    assert (outcome.version, found(partitioned)) == (0, [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("mode", [WriteMode.ERROR, WriteMode.IGNORE])
def test_a_table_made_meanwhile_counts_as_there(path, mode):
    def another():
        bayou.write(path, ROWS)

    if mode is WriteMode.ERROR:
        with pytest.raises(TableAlreadyExistsError):
            write(path, table([9]), mode, between=another)
    else:
        assert not write(path, table([9]), mode, between=another).files_committed
    assert found(path) == [0, 1, 2, 3, 4, 5]


def with_constraint(path: str) -> None:
    bayou.write(path, ROWS)
    bayou.table(path).delete()
    bayou.table(path).alter.add_constraint({"large": "id > 10"})


def with_not_null(path: str) -> None:
    required = pa.schema([pa.field(f.name, f.type, nullable=False) for f in ROWS.schema])
    bayou.write(path, ROWS.cast(required))


@pytest.mark.parametrize(
    ("another", "properties"),
    [
        (with_constraint, {}),
        (with_not_null, {}),
        (lambda path: bayou.write(path, ROWS), {"delta.columnMapping.mode": "name"}),
    ],
    ids=["constraint", "NOT NULL", "own files have other names"],
)
def test_files_written_by_other_rules_than_those_of_a_table_made_meanwhile_are_refused(
    path, another, properties
):
    with pytest.raises(MetadataChangedError, match="another writer created the table"):
        write(path, table([9]), between=lambda: another(path), properties=properties)
    assert 9 not in found(path)
    assert None not in found(path)


def test_comments_of_a_table_made_meanwhile_do_not_matter(path):
    def another() -> None:
        bayou.write(path, ROWS)
        bayou.table(path).alter.set_comment("id", "what it is")

    write(path, table([9]), between=another)
    assert found(path) == [0, 1, 2, 3, 4, 5, 9]


def test_other_partition_columns_than_the_tables_are_refused(partitioned):
    with pytest.raises(SchemaError, match=r"partitioned by \(p\), not by \(id\)"):
        write(partitioned, ROWS, partition_by=("id",))


def test_replace_where_on_partition_columns_removes_files_and_reads_none(partitioned):
    write(partitioned, table([7], "b"), OVERWRITE, replace_where="p = 'b'")
    assert found(partitioned) == [0, 2, 3, 5, 7]
    assert last(partitioned)["operationParameters"]["predicate"] == "p = 'b'"
    metrics = last(partitioned)["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"]) == ("2", "0")
    assert metrics["numOutputRows"] == "1"


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED, VECTORS | FEED], ids=str)
def test_replace_where_on_data_columns_keeps_the_rows_beside_them(path, properties):
    bayou.write(path, ROWS, configuration=properties)
    write(path, table([4, 8]), OVERWRITE, replace_where="id >= 4")
    assert found(path) == [0, 1, 2, 3, 4, 8]
    metrics = last(path)["operationMetrics"]
    told = {k: metrics[k] for k in ("numDeletedRows", "numCopiedRows", "numOutputRows")}
    assert told == {"numDeletedRows": "2", "numCopiedRows": "4", "numOutputRows": "6"}
    if FEED.keys() <= properties.keys():
        rows = bayou.table(path).changes(1).to_arrow().to_pylist()
        told = sorted((r["_change_type"], r["id"]) for r in rows)
        assert told == [("delete", 4), ("delete", 5), ("insert", 4), ("insert", 8)]


def test_a_condition_without_columns_checks_no_rows(path):
    bayou.write(path, table([1, 2]))
    write(path, table([3]), OVERWRITE, replace_where="1 = 2")
    assert found(path) == [1, 2, 3]
    write(path, table([4]), OVERWRITE, replace_where="1 = 1")
    assert found(path) == [4]


def test_a_row_that_the_condition_does_not_mean_is_refused_and_shown(partitioned):
    with pytest.raises(ConstraintViolationError, match=r"p = 'b'.*p = 'a'"):
        write(partitioned, table([7], "a"), OVERWRITE, replace_where="p = 'b'")
    assert unreferenced(partitioned) == set()


def test_a_condition_that_makes_no_sense_is_refused_before_anything_is_written(partitioned):
    with pytest.raises(PredicateError):
        write(partitioned, table([7]), OVERWRITE, replace_where="nosuch = 1")


def test_a_replace_where_loses_against_an_append_to_what_it_replaces(partitioned):
    def append():
        bayou.write(partitioned, table([10], "b"), mode="append")

    with pytest.raises(ConcurrentAppendError):
        write(
            partitioned,
            table([7], "b"),
            OVERWRITE,
            replace_where="p = 'b'",
            between=lambda: bayou.table(partitioned).update(
                {"id": "id + 100"}, predicate="p = 'b'"
            ),
        )
    write(partitioned, table([7], "c"), OVERWRITE, replace_where="p = 'c'", between=append)
    assert found(partitioned) == [0, 3, 7, 10, 101, 104]


def test_dynamic_overwrite_replaces_the_partitions_of_the_rows(partitioned):
    rows = pa.concat_tables([table([7], "b"), table([8], None), table([9], "new")])
    write(partitioned, rows, OVERWRITE, dynamic_partitions=True)
    assert found(partitioned) == [0, 2, 3, 5, 7, 8, 9]
    write(partitioned, table([10], None), OVERWRITE, dynamic_partitions=True)
    assert found(partitioned) == [0, 2, 3, 5, 7, 9, 10]
    assert last(partitioned)["operationParameters"]["isDynamicPartitionOverwrite"] is True


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_dynamic_overwrite_replaces_the_partition_of_nan(path, kind):
    rows = pa.table({"id": [1, 2], "p": pa.array([math.nan, 1.5], kind)})
    bayou.write(path, rows, partition_by=["p"])
    write(path, rows.slice(0, 1), OVERWRITE, dynamic_partitions=True)
    assert found(path) == [1, 2]


def test_dynamic_overwrite_replaces_a_char_partition_with_and_without_trailing_spaces(path):
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a  ", "b"]})
    bayou.create(path, {"id": "bigint", "p": "char(3)"}, partition_by=["p"])
    bayou.write(path, rows)
    write(
        path,
        pa.table({"id": [4], "p": ["a "]}),
        OVERWRITE,
        dynamic_partitions=True,
        between=lambda: bayou.write(path, table([5], "b")),
    )
    assert found(path) == [3, 4, 5]
    with pytest.raises(ConcurrentAppendError):
        write(
            path,
            table([6], "a"),
            OVERWRITE,
            dynamic_partitions=True,
            between=lambda: bayou.write(path, table([7], "a  ")),
        )
    assert found(path) == [3, 4, 5, 7]


def test_dynamic_overwrite_goes_with_appends_to_other_partitions(partitioned):
    write(
        partitioned,
        table([7], "b"),
        OVERWRITE,
        dynamic_partitions=True,
        between=lambda: bayou.table(partitioned).update({"id": "id + 100"}, predicate="p = 'c'"),
    )
    assert found(partitioned) == [0, 3, 7, 102, 105]


def test_dynamic_overwrite_of_an_unpartitioned_table_replaces_all(path):
    bayou.write(path, ROWS)
    write(path, table([7]), OVERWRITE, dynamic_partitions=True)
    assert found(path) == [7]


@pytest.mark.parametrize("widening", [False, True])
def test_schema_evolution_changes_bytes_and_shorts_to_the_wider_type_of_the_rows(path, widening):
    def numbers(kind: pa.DataType) -> pa.Table:
        values = pa.array([1], kind)
        return pa.table({"id": values, "s": pa.StructArray.from_arrays([values], ["x"])})

    configuration = {"delta.enableTypeWidening": str(widening).lower()}
    bayou.write(path, numbers(pa.int16()), configuration=configuration)
    write(path, numbers(pa.int8()))
    assert bayou.table(path).to_arrow().schema.field("id").type == pa.int16()
    with pytest.raises(SchemaError, match="DELTA_METADATA_MISMATCH"):
        write(path, numbers(pa.int32()))
    write(path, numbers(pa.int32()), merge_schema=True)
    write(path, numbers(pa.int8()))
    rows = bayou.table(path).to_arrow()
    assert rows.schema.field("id").type == pa.int32()
    assert rows.to_pylist() == [{"id": 1, "s": {"x": 1}}] * 4
    recorded = "delta.typeChanges" in bayou.table(path).snapshot().kernel.schema.to_json()
    assert recorded is widening


@pytest.mark.parametrize("feature", ["constraint", "generated column"])
def test_schema_evolution_keeps_the_type_of_a_column_that_an_expression_uses(path, feature):
    fields = [StructField(name="id", data_type=SHORT)]
    if feature == "generated column":
        metadata = {"delta.generationExpression": "id + 1"}
        fields.append(StructField(name="next", data_type=INTEGER, metadata=metadata))
    bayou.create(path, StructType(tuple(fields)))
    if feature == "constraint":
        bayou.table(path).alter.add_constraint({"positive": "id > 0"})
    condition = "GENERATED_COLUMNS" if feature == "generated column" else "CONSTRAINT"
    with pytest.raises(SchemaError, match=rf"\(DELTA_{condition}_DATA_TYPE_MISMATCH\)"):
        write(path, pa.table({"id": pa.array([1], pa.int32())}), merge_schema=True)
    assert bayou.table(path).count() == 0


def test_dynamic_overwrite_cannot_replace_the_schema(partitioned):
    rows = pa.table({"id": ["x"], "p": ["a"]})
    dynamic = {"overwrite_schema": True, "dynamic_partitions": True}
    condition = "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"
    with pytest.raises(ArgumentError, match=condition):
        write(partitioned, rows, OVERWRITE, partition_by=("p",), **dynamic)
    assert found(partitioned) == [0, 1, 2, 3, 4, 5]
    write(partitioned, rows, OVERWRITE, **dynamic)  # the table is no longer partitioned
    assert found(partitioned) == ["x"]


def test_dynamic_overwrite_with_replace_where_needs_a_table_without_partitions(path, tmp_path):
    dynamic = {"replace_where": "p = 'b'", "dynamic_partitions": True}
    bayou.write(path, ROWS)
    write(path, table([7], "b"), OVERWRITE, **dynamic)
    assert found(path) == [0, 2, 3, 5, 7]
    other = str(tmp_path / "partitioned")
    bayou.write(other, ROWS, partition_by=["p"])
    condition = "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE"
    with pytest.raises(ArgumentError, match=condition):
        write(other, table([7], "b"), OVERWRITE, **dynamic)
    assert found(other) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_overwrite_schema_gives_columns_types_and_partitioning_of_the_rows(path, mapping):
    properties = {} if mapping == "none" else {"delta.columnMapping.mode": mapping}
    bayou.write(path, ROWS, partition_by=["p"], configuration=properties)
    rows = pa.table({"id": ["x", "y"], "q": [1, 2]})
    write(path, rows, OVERWRITE, overwrite_schema=True, partition_by=("q",))
    snapshot = bayou.table(path).snapshot()
    assert snapshot.partition_columns == ("q",)
    assert bayou.table(path).to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


def test_columns_get_one_physical_name_from_the_plan_to_the_commit(path):
    mapped = {"delta.columnMapping.mode": "name"}
    write(path, ROWS, partition_by=("p",), properties=mapped)
    write(path, pa.table({"id": [7], "p": ["a"], "z": [1]}), merge_schema=True)
    assert found(path) == [0, 1, 2, 3, 4, 5, 7]
    assert bayou.table(path).to_arrow(filter="id = 7").to_pylist() == [{"id": 7, "p": "a", "z": 1}]


def test_overwrite_schema_with_the_same_schema_changes_no_metadata(partitioned):
    write(partitioned, ROWS, OVERWRITE, overwrite_schema=True, partition_by=("p",))
    text = Path(partitioned, "_delta_log", f"{1:020}.json").read_text()
    assert "metaData" not in text


def test_an_overwrite_without_it_keeps_the_schema(partitioned):
    with pytest.raises(SchemaError):
        write(partitioned, pa.table({"id": ["x"], "p": ["y"]}), OVERWRITE)


def test_rows_that_only_move_say_so(partitioned):
    write(partitioned, ROWS, OVERWRITE, data_change=False)
    text = Path(partitioned, "_delta_log", f"{1:020}.json").read_text()
    changes = [
        json.loads(line)[kind]["dataChange"]
        for line in text.splitlines()
        for kind in ("add", "remove")
        if kind in json.loads(line)
    ]
    assert changes == [False] * 6


def test_rows_cannot_only_move_into_a_new_table_or_by_a_data_column(path):
    with pytest.raises(ArgumentError, match="dataChange"):
        write(path, ROWS, data_change=False)
    bayou.write(path, ROWS)
    with pytest.raises(ArgumentError, match="dataChange"):
        write(path, table([5]), OVERWRITE, data_change=False, replace_where="id > 4")
    with pytest.raises(ArgumentError, match="DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET"):
        write(path, table([1]), OVERWRITE, data_change=False, replace_where="id > 4")  # no match


def test_files_hold_at_most_so_many_records(path):
    rows = pa.table({"id": range(2500)})
    write(path, rows, max_records_per_file=1000)
    assert sorted(
        json.loads(json.loads(line)["add"]["stats"])["numRecords"]
        for line in Path(path, "_delta_log", f"{0:020}.json").read_text().splitlines()
        if "add" in json.loads(line)
    ) == [500, 1000, 1000]


def test_another_codec_takes_the_place_of_the_tables(path):
    write(path, ROWS, compression="gzip")
    assert [f.suffixes[-2] for f in Path(path).glob("*.parquet")] == [".gz"]


def test_an_idempotent_write_lands_once_even_where_both_began_before(path):
    bayou.write(path, ROWS)
    application = ("job", 1)

    def the_same():
        write(path, table([7]), application=application)

    with pytest.raises(ConcurrentTransactionError):
        write(path, table([7]), application=application, between=the_same)
    assert found(path).count(7) == 1
    outcome = write(path, table([7]), application=application)
    assert (outcome.version, outcome.files_committed) == (1, False)


def test_an_append_to_a_table_that_got_another_schema_meanwhile_is_refused(path):
    bayou.write(path, ROWS)
    wider = pa.table({"id": [7], "p": ["a"], "z": [1]})
    with pytest.raises(MetadataChangedError):
        write(path, table([8]), between=lambda: write(path, wider, merge_schema=True))
    write(path, table([8]), between=lambda: write(path, table([9])))
    assert found(path) == [0, 1, 2, 3, 4, 5, 7, 8, 9]


def test_an_overwrite_of_nothing_by_nothing_makes_no_commit(path):
    bayou.write(path, ROWS.slice(0, 0))
    assert write(path, ROWS.slice(0, 0), OVERWRITE).version == 0
    assert bayou.table(path).snapshot().version == 0


def test_append_only_tables_are_not_overwritten(path):
    bayou.write(path, ROWS, configuration={"delta.appendOnly": "true"})
    with pytest.raises(ConstraintViolationError, match="append-only"):
        write(path, ROWS, OVERWRITE)


def test_clustering_columns_are_set_and_changed_by_an_overwrite(path):
    write(path, ROWS, cluster_by=("id",))
    assert bayou.table(path).snapshot().kernel.clustering_columns == (("id",),)
    write(path, ROWS, OVERWRITE, cluster_by=("p",))
    assert bayou.table(path).snapshot().kernel.clustering_columns == (("p",),)


@pytest.mark.parametrize("mode", WriteMode)
@pytest.mark.parametrize("planned", [False, True])
def test_a_table_made_after_the_last_look_meets_every_mode_as_one_made_before(path, mode, planned):
    def rival():
        bayou.write(path, pa.table({"id": [7], "p": ["x"]}))

    request = asked(path, ROWS, mode)
    engine = EngineWithRival(ENGINE, f"{path}/_delta_log", rival, looks=1)
    files = []
    try:
        plan = plan_write(ENGINE if planned else engine, request)
        if not plan.is_noop:
            state = TransactionState.from_bytes(plan.state)
            files = write_task_data(ENGINE, state, ROWS.to_batches())
        outcome = commit_write(engine, request, plan, files)
    except TableAlreadyExistsError:
        assert mode is WriteMode.ERROR
    else:
        assert outcome.files_committed is (bool(files) and mode is not WriteMode.IGNORE)
    expected = {WriteMode.APPEND: [*range(6), 7], OVERWRITE: [*range(6)]}
    assert found(path) == expected.get(mode, [7])


def test_rows_with_replace_where_are_not_added_to_a_table_that_was_created_meanwhile(path):
    def rival():
        bayou.write(path, ROWS)

    with pytest.raises(MetadataChangedError, match="replaceWhere"):
        write(path, table([7]), OVERWRITE, replace_where="id < 3", between=rival)
    assert found(path) == list(range(6))


@pytest.mark.parametrize("mode", [WriteMode.APPEND, OVERWRITE])
def test_files_for_a_table_that_was_recreated_meanwhile_are_not_added(path, mode):
    """The new table has the version of the old one, but not its columns, files or partitions."""
    bayou.write(path, ROWS)

    def recreate():
        shutil.rmtree(Path(path, "_delta_log"))
        bayou.write(path, ROWS, partition_by=["p"])

    with pytest.raises(MetadataChangedError, match="deleted and recreated"):
        write(path, ROWS, mode, between=recreate)
    assert found(path) == list(range(6))
    assert bayou.table(path).snapshot().version == 0


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_rows_that_depend_on_the_table_are_not_added_twice(path, level):
    """Two INSERTs of the rows that the table lacks: both read it before the other's commit."""
    bayou.write(path, ROWS, configuration={"delta.isolationLevel": level})
    rows = ROWS.slice(0, 1)

    def rival():
        write(path, rows, reads=(None,))

    with pytest.raises(ConcurrentAppendError):
        write(path, rows, reads=(None,), between=rival)
    assert len(found(path)) == 7
    assert last(path)["isBlindAppend"] is False


def test_rows_that_depend_on_one_partition_do_not_conflict_with_others(partitioned):
    reads = (Comparison("=", Column(("p",)), Literal("a")),)

    def append(p: str):
        return lambda: bayou.write(partitioned, pa.table({"id": [9], "p": [p]}))

    write(partitioned, ROWS.slice(0, 1), reads=reads, between=append("b"))
    with pytest.raises(ConcurrentAppendError):
        write(partitioned, ROWS.slice(0, 1), reads=reads, between=append("a"))
    with pytest.raises(ConcurrentDeleteReadError):
        write(
            partitioned,
            ROWS.slice(0, 1),
            reads=reads,
            between=lambda: bayou.table(partitioned).delete("p = 'a'"),
        )
