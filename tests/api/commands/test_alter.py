"""ALTER TABLE through the short API."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    ArgumentError,
    ConcurrentAppendError,
    ConstraintViolationError,
    IcebergCompatError,
    MetadataChangedError,
    PredicateError,
    SchemaError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.commands.alter.columns import NewColumn, add_columns
from bayou.kernel.commands.alter.constraints import add_constraint
from bayou.protocol.schema import LONG, StructField

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "s": [{"a": 1}, {"a": 2}, None],
        "l": [[{"x": 1}], [], None],
        "c": ["x", "y", None],
    }
)
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture
def path() -> str:
    path = f"memory://{uuid.uuid4().hex}/table"
    bayou.write(path, ROWS)
    return path


def schema(path: str) -> str:
    return str(bayou.table(path).snapshot().schema)


def last(path: str) -> dict:
    return bayou.table(path).history(1)[0]


def refused(path: str, kind: type[Exception], message: str, call) -> Exception:
    """The call raises and nothing changes."""
    before = bayou.table(path).snapshot().version
    with pytest.raises(kind, match=message) as caught:
        call(bayou.table(path).alter)
    assert bayou.table(path).snapshot().version == before
    return caught.value


def test_columns_are_added_at_every_depth_and_read_as_null(path):
    version = bayou.table(path).alter.add_columns(
        {"n": "bigint", "s.b": pa.string(), ("l", "element", "y"): LONG}
    )
    assert version == 1
    assert schema(path) == (
        "struct<id:integer,s:struct<a:long,b:string>,l:array<struct<x:long,y:long>>,c:string,n:long>"
    )
    assert bayou.table(path).to_arrow().to_pylist()[0] == {
        "id": 1,
        "s": {"a": 1, "b": None},
        "l": [{"x": 1, "y": None}],
        "c": "x",
        "n": None,
    }
    assert last(path)["operation"] == "ADD COLUMNS"


def test_a_column_is_added_at_its_place_with_a_comment(path):
    alter = bayou.table(path).alter
    alter.add_column("f", "float", first=True, comment="why")
    alter.add_column("s.z", "date", after="a")
    alter.add_column("g", "float", after="ID")
    assert bayou.table(path).snapshot().schema.names == ("f", "id", "g", "s", "l", "c")
    assert bayou.table(path).snapshot().schema.get("f").metadata == {"comment": "why"}
    assert last(path)["operationParameters"] == {
        "columns": '[{"column":{"name":"g","type":"float","nullable":true,"metadata":{}},'
        '"position":"AFTER ID"}]'
    }


@pytest.mark.parametrize(
    ("name", "kind", "error", "message"),
    [
        ("ID", "int", SchemaError, "already"),
        ("s.A", "int", SchemaError, "already"),
        ("c.x", "int", SchemaError, "only be added to a struct"),
        ("q.x", "int", SchemaError, "no column"),
        ("a b", "int", SchemaError, "column mapping"),
        ("x", "struct<a: int not null>", SchemaError, "NOT NULL"),
        ("x", "integers", ArgumentError, "isn't a type"),
        ("x,y", "int", ArgumentError, "isn't a column name"),
    ],
)
def test_a_column_that_cannot_be_is_refused(path, name, kind, error, message):
    refused(path, error, message, lambda alter: alter.add_column(name, kind))


def test_a_default_needs_its_feature_and_is_for_new_rows(path):
    error = refused(
        path,
        UnsupportedFeatureError,
        "add_feature",
        lambda alter: alter.add_column("d", "int", default="7"),
    )
    assert error.features == ("allowColumnDefaults",)
    alter = bayou.table(path).alter
    alter.add_feature("allowColumnDefaults")
    alter.add_column("d", "int", default="3 + 4")
    bayou.write(path, ROWS.slice(0, 1))
    assert sorted(map(str, bayou.table(path).to_arrow(["d"])["d"].to_pylist())) == [
        "7",
        "None",
        "None",
        "None",
    ]
    alter.set_default("d", "8")
    alter.drop_default("d")
    assert bayou.table(path).snapshot().schema.get("d").metadata == {}
    for text, message in (("id", "references column"), ("'x'", "is invalid"), ("(", "is invalid")):
        refused(path, SchemaError, message, lambda alter, t=text: alter.set_default("d", t))


def test_dropping_and_renaming_say_how_to_turn_mapping_on(path):
    for call in (lambda a: a.drop_column("c"), lambda a: a.rename_column("c", "d")):
        error = refused(path, UnsupportedFeatureError, "delta.columnMapping.mode", call)
        assert error.features == ("columnMapping",)


def test_columns_are_renamed_and_dropped_once_mapped(path):
    alter = bayou.table(path).alter
    alter.set_table_properties(MAPPED)
    alter.rename_column("c", "C 2")
    assert last(path)["operationParameters"] == {"oldColumnPath": "c", "newColumnPath": "C 2"}
    alter.rename_column("s.a", "b")
    alter.drop_column("id")
    alter.add_column("id", "string")
    rows = bayou.table(path).to_arrow().to_pylist()
    assert rows[0] == {"s": {"b": 1}, "l": [{"x": 1}], "C 2": "x", "id": None}
    bayou.write(path, pa.table({"C 2": ["new"], "id": ["i"]}))
    assert bayou.table(path).to_arrow(filter="id = 'i'").to_pylist() == [
        {"s": None, "l": None, "C 2": "new", "id": "i"}
    ]
    protocol = bayou.table(path).snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (2, 7)


def test_a_partition_column_can_be_renamed_not_dropped():
    path = f"memory://{uuid.uuid4().hex}/table"
    bayou.write(path, ROWS.select(["id", "c"]), partition_by=["c"], configuration=MAPPED)
    refused(path, SchemaError, "partitioned", lambda alter: alter.drop_column("c"))
    bayou.table(path).alter.rename_column("c", "d")
    assert bayou.table(path).snapshot().partition_columns == ("d",)
    assert bayou.table(path).to_arrow(filter="d = 'y'").num_rows == 1
    bayou.write(path, pa.table({"id": pa.array([9], pa.int32()), "d": ["y"]}))
    assert bayou.table(path).to_arrow(filter="d = 'y'").num_rows == 2


def test_a_column_that_something_uses_stays_as_it_is(path):
    alter = bayou.table(path).alter
    alter.set_table_properties({**MAPPED, "delta.enableTypeWidening": "true"})
    alter.add_constraint({"positive": "s.a > 0 OR s IS NULL"})
    alter.cluster_by("id")
    for column in ("s", "s.a"):
        refused(path, SchemaError, "positive", lambda a, c=column: a.drop_column(c))
        refused(path, SchemaError, "positive", lambda a, c=column: a.rename_column(c, "t"))
    refused(path, SchemaError, "clustered", lambda a: a.drop_column("id"))
    refused(path, SchemaError, "no column", lambda a: a.drop_column("nope"))
    refused(path, SchemaError, "already", lambda a: a.rename_column("c", "ID"))
    refused(path, SchemaError, "already", lambda a: a.rename_column("id", "id"))
    alter.rename_column("id", "ID")
    alter.rename_column("ID", "id")
    alter.rename_column("id", "key")
    assert bayou.table(path).snapshot().kernel.clustering_columns == (("key",),)


def test_statistics_follow_a_renamed_column(path):
    alter = bayou.table(path).alter
    alter.set_table_properties({**MAPPED, "delta.dataSkippingStatsColumns": "id, s.a,c"})
    alter.rename_column("s", "t u")
    alter.drop_column("c")
    properties = bayou.table(path).snapshot().properties
    assert properties["delta.dataSkippingStatsColumns"] == "id,`t u`.a"


def test_a_type_is_widened_and_files_stay(path):
    error = refused(
        path,
        UnsupportedFeatureError,
        "delta.enableTypeWidening",
        lambda alter: alter.change_type("id", "bigint"),
    )
    assert error.features == ("typeWidening",)
    alter = bayou.table(path).alter
    alter.set_table_properties({"delta.enableTypeWidening": "true"})
    alter.change_type("id", "bigint")
    field = bayou.table(path).snapshot().schema.get("id")
    assert field.metadata == {"delta.typeChanges": [{"toType": "long", "fromType": "integer"}]}
    assert last(path)["operationParameters"] == {
        "column": '{"name":"id","type":"long","nullable":true,"metadata":{}}'
    }
    bayou.write(path, ROWS.set_column(0, "id", pa.array([2**40] * 3)))
    found = bayou.table(path).to_arrow(["id"])["id"].to_pylist()
    assert sorted(found) == [1, 2, 3, 2**40, 2**40, 2**40]
    refused(path, SchemaError, "isn't a type widening", lambda a: a.change_type("id", "string"))
    refused(
        path, SchemaError, "isn't a type widening", lambda a: a.change_type("s", "struct<a: int>")
    )
    assert alter.change_type("id", "long") == bayou.table(path).snapshot().version


def test_a_type_inside_of_an_array_is_recorded_with_its_path():
    path = f"memory://{uuid.uuid4().hex}/table"
    rows = pa.table({"l": pa.array([[[1], None]], pa.list_(pa.list_(pa.int32())))})
    bayou.write(path, rows, configuration={"delta.enableTypeWidening": "true"})
    bayou.table(path).alter.change_type("l.element.element", "long")
    assert bayou.table(path).snapshot().schema.get("l").metadata["delta.typeChanges"] == [
        {"toType": "long", "fromType": "integer", "fieldPath": "element.element"}
    ]
    assert bayou.table(path).to_arrow().to_pylist() == [{"l": [[1], None]}]


def test_a_varchar_may_only_hold_more(path):
    alter = bayou.table(path).alter
    alter.add_column("v", "varchar(3)")
    alter.change_type("v", "varchar(5)")
    with pytest.raises(ConstraintViolationError, match="varchar"):
        bayou.write(path, pa.table({"v": ["abcdef"]}))
    refused(path, SchemaError, "longer", lambda a: a.change_type("v", "varchar(4)"))
    alter.change_type("v", "string")
    bayou.write(path, pa.table({"v": ["abcdef"]}))
    refused(path, SchemaError, "longer", lambda a: a.change_type("v", "varchar(4)"))


def test_not_null_is_set_where_all_rows_keep_it(path):
    error = refused(path, ConstraintViolationError, "1 of 3", lambda a: a.set_column_not_null("c"))
    assert error.constraint == "NOT NULL c"
    assert "The first affected row has id = " in error.message
    alter = bayou.table(path).alter
    alter.set_column_not_null("id")
    alter.set_column_not_null("s.a")
    with pytest.raises(SchemaError, match="'id'"):
        bayou.write(path, pa.table({"c": ["x"]}))
    with pytest.raises(ConstraintViolationError, match=r"'s\.a'"):
        bayou.write(
            path,
            pa.table({"id": pa.array([1], pa.int32()), "s": [{"a": None}]}).cast(
                pa.schema([("id", pa.int32()), ("s", pa.struct([("a", pa.int64())]))])
            ),
        )
    alter.drop_column_not_null("id")
    bayou.write(path, pa.table({"c": ["x"]}))
    refused(path, SchemaError, "array or map", lambda a: a.set_column_not_null("l.element"))


def test_a_constraint_is_added_where_all_rows_keep_it(path):
    error = refused(
        path, ConstraintViolationError, "id = 1", lambda a: a.add_constraint({"big": "id > 1"})
    )
    assert error.constraint == "CHECK constraint big"
    refused(
        path, ConstraintViolationError, "c = None", lambda a: a.add_constraint({"n": "c < 'z'"})
    )
    alter = bayou.table(path).alter
    for sql, message in (
        ("3", "isn't a boolean expression, it has type integer"),
        ("id + 1", "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"),
        ("nope > 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("id > 0 AND length(nope.x) > 1", "cannot resolve 'nope.x' in the CHECK constraint n"),
    ):
        refused(path, PredicateError, message, lambda a, sql=sql: a.add_constraint({"n": sql}))
    refused(path, PredicateError, "results of ln", lambda a: a.add_constraint({"n": "ln(id) < 9"}))
    alter.add_constraint({"Small": "id < 100"})
    assert bayou.table(path).snapshot().properties == {"delta.constraints.small": "id < 100"}
    assert last(path)["operationParameters"] == {"name": "Small", "expr": "id < 100"}
    with pytest.raises(ConstraintViolationError, match="small"):
        bayou.write(path, pa.table({"id": pa.array([100], pa.int32())}))
    refused(path, TablePropertyError, "already", lambda a: a.add_constraint({"SMALL": "id < 5"}))
    alter.drop_constraint("small")
    assert bayou.table(path).snapshot().properties == {}
    refused(path, TablePropertyError, "no constraint", lambda a: a.drop_constraint("small"))
    assert alter.drop_constraint("small", raise_if_not_exists=False) == last(path)["version"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("id + 1", "isn't a boolean expression"), ("nope > 1", "nope"), ("id >", "isn't valid SQL")],
)
def test_a_constraint_that_is_no_condition_is_refused(path, text, message):
    refused(path, PredicateError, message, lambda alter: alter.add_constraint({"x": text}))


def test_properties_are_set_and_unset(path):
    alter = bayou.table(path).alter
    alter.set_table_properties({"delta.APPENDONLY": "true", "owner": "me", "comment": "all of it"})
    snapshot = bayou.table(path).snapshot()
    assert snapshot.properties == {"delta.appendOnly": "true", "owner": "me"}
    assert snapshot.kernel.metadata.description == "all of it"
    refused(path, TablePropertyError, "nope", lambda a: a.unset_table_properties("owner", "nope"))
    alter.unset_table_properties("owner", "nope", "comment", raise_if_not_exists=False)
    assert bayou.table(path).snapshot().properties == {"delta.appendOnly": "true"}
    assert bayou.table(path).snapshot().kernel.metadata.description is None
    assert last(path)["operationParameters"] == {
        "properties": '["owner","nope","comment"]',
        "ifExists": True,
    }


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"delta.apendOnly": "true"}, TablePropertyError, "did you mean"),
        ({"delta.appendOnly": "yes"}, TablePropertyError, "true or false"),
        ({"delta.constraints.a": "id > 1"}, TablePropertyError, "add_constraint"),
        ({"delta.feature.clustering": "supported"}, TablePropertyError, "cluster_by"),
        ({"delta.columnMapping.mode": "id"}, TablePropertyError, "from 'none' to 'id'"),
        ({"delta.columnMapping.maxColumnId": "7"}, TablePropertyError, "writers"),
        ({"delta.enableIcebergCompatV2": "true"}, IcebergCompatError, "delta.columnMapping.mode"),
        ({"delta.feature.someday": "supported"}, UnsupportedFeatureError, "someday"),
    ],
)
def test_a_property_that_cannot_be_set_is_refused(path, properties, error, message):
    refused(path, error, message, lambda alter: alter.set_table_properties(properties))


@pytest.mark.parametrize(
    ("key", "feature"),
    [
        ("delta.enableChangeDataFeed", "changeDataFeed"),
        ("delta.enableDeletionVectors", "deletionVectors"),
        ("delta.enableInCommitTimestamps", "inCommitTimestamp"),
        ("delta.enableTypeWidening", "typeWidening"),
        ("delta.feature.vacuumProtocolCheck", "vacuumProtocolCheck"),
    ],
)
def test_a_property_brings_its_feature(path, key, feature):
    value = "supported" if ".feature." in key else "true"
    bayou.table(path).alter.set_table_properties({key: value})
    protocol = bayou.table(path).snapshot().protocol
    listed = protocol.writer_features
    assert (listed is None and protocol.min_writer_version == 4) or feature in listed
    assert (key in bayou.table(path).snapshot().properties) == (value == "true")
    bayou.write(path, ROWS)
    assert bayou.table(path).to_arrow().num_rows == 6


def test_in_commit_timestamps_say_from_when_they_count(path):
    version = bayou.table(path).alter.set_table_properties(
        {"delta.enableInCommitTimestamps": "true"}
    )
    properties = bayou.table(path).snapshot().properties
    assert properties["delta.inCommitTimestampEnablementVersion"] == str(version)
    stamp = properties["delta.inCommitTimestampEnablementTimestamp"]
    assert stamp == str(last(path)["inCommitTimestamp"])
    assert bayou.table(path).snapshot().timestamp == int(stamp)


def test_versions_of_the_protocol_are_raised(path):
    alter = bayou.table(path).alter
    alter.set_table_properties({"delta.minWriterVersion": "4"})
    protocol = bayou.table(path).snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 4)
    assert bayou.table(path).snapshot().properties == {}
    alter.upgrade_protocol(3, 7)
    protocol = bayou.table(path).snapshot().protocol
    assert protocol.writer_features == [
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
    ]
    refused(path, ArgumentError, "can't be downgraded", lambda a: a.upgrade_protocol(1, 2))
    refused(path, ArgumentError, "don.t exist", lambda a: a.upgrade_protocol(4, 7))


def test_features_are_added_by_name(path):
    version = bayou.table(path).alter.add_feature("clustering")
    assert {"clustering", "domainMetadata"} <= set(
        bayou.table(path).snapshot().protocol.writer_features
    )
    assert bayou.table(path).alter.add_feature("CLUSTERING") == version
    refused(path, UnsupportedFeatureError, "unknown table feature", lambda a: a.add_feature("fast"))
    refused(
        path,
        UnsupportedFeatureError,
        "write",
        lambda a: a.add_feature("coordinatedCommits-preview"),
    )


def test_a_table_is_clustered_and_no_longer(path):
    alter = bayou.table(path).alter
    assert alter.cluster_by() == 0
    alter.cluster_by("S.A", "id")
    assert bayou.table(path).snapshot().kernel.clustering_columns == (("s", "a"), ("id",))
    assert last(path)["operationParameters"] == {
        "oldClusteringColumns": "",
        "newClusteringColumns": "s.a,id",
    }
    bayou.write(path, ROWS)
    alter.cluster_by()
    assert bayou.table(path).snapshot().kernel.clustering_columns == ()
    assert "clustering" in bayou.table(path).snapshot().protocol.writer_features


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "doesn't exist"),
        (["id", "ID"], "twice"),
        (["l"], "minimum and maximum"),
        (["s"], "minimum and maximum"),
        (["id", "c", "s.a", "id", "c"], "the maximum is 4"),
    ],
)
def test_a_clustering_that_cannot_be_is_refused(path, columns, message):
    refused(path, SchemaError, message, lambda alter: alter.cluster_by(*columns))


def test_clustering_columns_keep_their_statistics(path):
    alter = bayou.table(path).alter
    alter.cluster_by("c")
    alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "0"})
    bayou.write(path, ROWS)
    newest = min(bayou.table(path).snapshot().files()["stats"].to_pylist(), key=len)
    assert newest == (
        '{"numRecords":3,"minValues":{"c":"x"},"maxValues":{"c":"y"},"nullCount":{"c":1}}'
    )
    refused(path, SchemaError, "statistics", lambda a: a.cluster_by("id"))


def test_columns_are_moved_and_described(path):
    alter = bayou.table(path).alter
    alter.move_column("c", first=True)
    alter.move_column("id", after="l")
    alter.set_comment("s.a", "inner")
    assert bayou.table(path).snapshot().schema.names == ("c", "s", "l", "id")
    assert last(path)["operationParameters"] == {
        "column": '{"name":"s.a","type":"long","nullable":true,"metadata":{"comment":"inner"}}'
    }
    alter.set_comment("s.a", None)
    assert bayou.table(path).to_arrow().column_names == ["c", "s", "l", "id"]
    refused(path, ArgumentError, "after", lambda a: a.move_column("c"))


def test_an_append_goes_behind_and_a_change_of_metadata_does_not(path):
    handle = bayou.table(path)
    engine = handle._engine
    stale = handle.snapshot().kernel
    new = [NewColumn(path=("n",), field=StructField(name="n", data_type=LONG))]
    bayou.write(path, ROWS)
    add_columns(engine, stale, new, engine_info="test/1")
    with pytest.raises(ConcurrentAppendError):
        add_constraint(engine, stale, "x", "id > 0", engine_info="test/1")
    with pytest.raises(MetadataChangedError):
        add_columns(engine, stale, new, engine_info="test/1")


def test_column_metadata_is_added_but_fixed_meanings_stay(path):
    bayou.table(path).alter.set_column_metadata("s.a", {"unit": "m", "range": [0, 9]})
    bayou.table(path).alter.set_column_metadata("S.A", {"unit": "km"})
    field = bayou.table(path).schema().get("s").data_type.get("a")
    assert field.metadata == {"unit": "km", "range": [0, 9]}
    fixed = {"delta.columnMapping.id": 7}
    refused(path, SchemaError, "reserves this key", lambda a: a.set_column_metadata("id", fixed))
    refused(path, SchemaError, "nope", lambda a: a.set_column_metadata("nope", {"a": 1}))
    refused(path, ArgumentError, "JSON", lambda a: a.set_column_metadata("id", {1: "a"}))
