"""What a transaction may change, and what is refused before anything is written."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    ProtocolChangedError,
    SchemaError,
    TableNotFoundError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel import Operation, Table, TransactionBuilder
from bayou.kernel.engine import CommitSettings
from bayou.protocol.schema import LONG, STRING, TIMESTAMP_NTZ, DataType, StructField, StructType
from support.log_writer import LogWriter, metadata, protocol


def schema(**columns: DataType) -> StructType:
    return StructType(tuple(StructField(name=n, data_type=t) for n, t in columns.items()))


@pytest.fixture
def builder(engine, table_path) -> TransactionBuilder:
    table = Table.for_path(engine, table_path)
    return table.create_transaction_builder(engine, "test/1", Operation.WRITE)


def existing(log: LogWriter, configuration=None, **fields) -> TransactionBuilder:
    log.commit(
        fields.pop("protocol", protocol()),
        metadata({"id": "long", "day": "string"}, ["day"], configuration),
    )
    table = Table.for_path(log.engine, log.table)
    return table.create_transaction_builder(log.engine, "test/1", Operation.WRITE)


def test_a_new_table_has_the_least_protocol_that_its_schema_needs(engine, builder, table_path):
    builder.with_schema(schema(id=LONG)).build(engine).commit(engine, [])
    found = Table.for_path(engine, table_path).latest_snapshot(engine)
    assert (found.protocol.min_reader_version, found.protocol.min_writer_version) == (1, 2)
    assert found.protocol.writer_features is None


def test_timestamps_without_zone_need_their_feature(engine, builder, table_path):
    builder.with_schema(schema(at=TIMESTAMP_NTZ)).build(engine).commit(engine, [])
    found = Table.for_path(engine, table_path).latest_snapshot(engine)
    assert (found.protocol.min_reader_version, found.protocol.min_writer_version) == (3, 7)
    assert found.protocol.reader_features == ["timestampNtz"]


def test_without_a_table_a_schema_is_needed(engine, builder):
    with pytest.raises(TableNotFoundError):
        builder.build(engine)


def test_properties_are_checked_and_kept(engine, builder, table_path):
    properties = {"delta.checkpointInterval": "5", "mine": "x"}
    builder.with_schema(schema(id=LONG)).with_table_properties(properties).build(engine).commit(
        engine, []
    )
    assert Table.for_path(engine, table_path).latest_snapshot(engine).properties == properties


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.checkpointInterval", "often"),
        ("delta.checkpointIntervall", "5"),
        ("delta.appendOnly", "perhaps"),
    ],
)
def test_a_property_that_is_not_one_is_refused_with_its_key(engine, builder, key, value):
    with pytest.raises(TablePropertyError, match=key) as caught:
        builder.with_schema(schema(id=LONG)).with_table_properties({key: value}).build(engine)
    assert caught.value.key == key


def test_a_property_that_another_writer_set_to_nonsense_is_said_before_anything_is_written(log):
    with pytest.raises(TablePropertyError, match="checkpointInterval") as caught:
        existing(log, {"delta.checkpointInterval": "often"}).build(log.engine)
    assert caught.value.table == log.table


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "without columns"),
        ({"a": LONG, "A": LONG}, "is defined twice"),
        ({"a b": LONG}, "column mapping"),
        ({"a": StructType((StructField(name="x;y", data_type=LONG),))}, "a.x;y"),
        ({"": LONG}, "is empty"),
    ],
)
def test_a_schema_that_cannot_be_a_tables_is_refused(engine, builder, columns, message):
    with pytest.raises(SchemaError, match=message):
        builder.with_schema(schema(**columns)).build(engine)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "doesn't exist; the columns are id, s"),
        (["s"], "can't be a partition column"),
        (["id", "id"], "listed twice"),
    ],
)
def test_a_partitioning_that_cannot_be_is_refused(engine, builder, columns, message):
    fields = schema(id=LONG, s=schema(x=LONG))
    with pytest.raises(SchemaError, match=message):
        builder.with_schema(fields).with_partition_columns(columns).build(engine)


def test_a_data_file_needs_a_column_of_its_own(engine, builder):
    with pytest.raises(SchemaError, match="all columns are partition columns"):
        builder.with_schema(schema(id=LONG)).with_partition_columns(["id"]).build(engine)


def test_the_partitioning_of_an_existing_table_stays(log):
    builder = existing(log)
    assert builder.with_partition_columns(["day"]).build(log.engine).partition_columns == ("day",)
    with pytest.raises(SchemaError, match=r"partitioned by \(day\), not by \(id\)"):
        builder.with_partition_columns(["id"]).build(log.engine)


def test_a_snapshot_knows_the_partitioning(log):
    existing(log)
    snapshot = Table.for_path(log.engine, log.table).latest_snapshot(log.engine)
    update = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    assert update.build(log.engine).partition_columns == ("day",)
    with pytest.raises(ArgumentError, match="partition columns can't be set"):
        update.with_partition_columns(["day"])


def test_a_schema_that_fits_changes_nothing(log):
    transaction = existing(log).with_schema(schema(ID=LONG)).build(log.engine)
    assert not transaction.changes_metadata
    assert transaction.schema.names == ("id", "day")
    assert transaction.read_version == 0


def test_a_new_column_needs_schema_evolution(log):
    builder = existing(log).with_schema(schema(id=LONG, name=STRING))
    with pytest.raises(SchemaError, match="mergeSchema") as caught:
        builder.build(log.engine)
    assert caught.value.column == "name"
    transaction = builder.with_schema_evolution().build(log.engine)
    assert transaction.changes_metadata
    assert transaction.schema.names == ("id", "day", "name")


def test_a_new_column_has_no_default_of_the_table_from_which_its_rows_were_read(log):
    default = {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "7", "comment": "c"}
    new = StructField(name="new", data_type=LONG, metadata=default)
    builder = existing(log).with_schema(StructType((*schema(id=LONG, day=STRING), new)))
    builder.with_schema_evolution().build(log.engine).commit(log.engine, [])
    found = Table(log.table).latest_snapshot(log.engine)
    assert [field.metadata for field in found.schema] == [{}, {}, {"comment": "c"}]
    assert not found.protocol.writer_features


def test_a_column_whose_feature_the_table_lacks_brings_it(log):
    builder = existing(log).with_schema(schema(at=TIMESTAMP_NTZ)).with_schema_evolution()
    builder.build(log.engine).commit(log.engine, [])
    found = Table(log.table).latest_snapshot(log.engine).protocol
    assert (found.min_reader_version, found.min_writer_version) == (3, 7)
    assert found.reader_features == ["timestampNtz"]


@pytest.mark.parametrize(
    ("key", "feature", "versions"),
    [
        ("delta.enableChangeDataFeed", "changeDataFeed", (1, 7)),
        ("delta.enableDeletionVectors", "deletionVectors", (3, 7)),
        ("delta.enableInCommitTimestamps", "inCommitTimestamp", (1, 7)),
        ("delta.enableTypeWidening", "typeWidening", (3, 7)),
    ],
)
def test_a_property_whose_feature_the_table_lacks_brings_it(log, key, feature, versions):
    transaction = existing(log).with_table_properties({key: "true"}).build(log.engine)
    transaction.commit(log.engine, [])
    found = Table(log.table).latest_snapshot(log.engine).protocol
    assert (found.min_reader_version, found.min_writer_version) == versions
    assert feature in found.writer_features


def test_a_property_can_be_removed(log):
    builder = existing(log, {"delta.appendOnly": "true", "mine": "1"})
    transaction = builder.with_table_properties_removed(["delta.appendOnly", "none"])
    transaction.build(log.engine).commit(log.engine, [])
    assert dict(Table(log.table).latest_snapshot(log.engine).properties) == {"mine": "1"}


def test_features_and_versions_can_be_asked_for(log):
    existing(log).with_features(["v2Checkpoint"]).build(log.engine).commit(log.engine, [])
    found = Table(log.table).latest_snapshot(log.engine).protocol
    assert found.reader_features == ["v2Checkpoint"]
    with pytest.raises(UnsupportedFeatureError, match="someday"):
        existing(log).with_features(["someday"]).build(log.engine)
    with pytest.raises(ArgumentError, match=r"protocol versions \(4, 7\) don't exist"):
        existing(log).with_protocol_versions(4, 7)


def test_row_tracking_and_constraints_do_not_come_to_an_existing_table_by_property(log):
    with pytest.raises(UnsupportedFeatureError, match="alter.set_table_properties"):
        existing(log).with_table_properties({"delta.enableRowTracking": "true"}).build(log.engine)
    with pytest.raises(TablePropertyError, match="alter.add_constraint"):
        existing(log).with_table_properties({"delta.constraints.c": "id > 1"}).build(log.engine)
    satisfied = {"delta.constraints.c": "id > 1"}
    builder = existing(log, satisfied)
    builder.with_table_properties({"delta.constraints.C": "id > 1"}).build(log.engine)
    with pytest.raises(TablePropertyError, match="alter.add_constraint"):
        builder.with_table_properties({"delta.constraints.c": "id > 2"}).build(log.engine)


def test_domains_are_set_and_removed(log):
    def domains() -> dict[str, str]:
        return dict(Table(log.table).latest_snapshot(log.engine).domain_metadata)

    existing(log).with_domain_metadata("mine", "{}").build(log.engine).commit(log.engine, [])
    assert domains() == {"mine": "{}"}
    assert "domainMetadata" in (
        Table(log.table).latest_snapshot(log.engine).protocol.writer_features or []
    )
    start = Table(log.table).create_transaction_builder(log.engine, "test", Operation.WRITE)
    start.with_domain_metadata_removed("mine").build(log.engine).commit(log.engine, [])
    assert domains() == {}
    nothing = start.with_domain_metadata_removed("mine").build(log.engine)
    nothing.commit(log.engine, [])
    with pytest.raises(ArgumentError, match="which is reserved"):
        start.with_domain_metadata("delta.rowTracking", "{}")


def test_names_of_the_change_data_feed_are_reserved_where_it_is_on(engine, builder, log):
    feed = {"delta.enableChangeDataFeed": "true"}
    reserved = schema(id=LONG, _change_type=STRING)
    assert builder.with_schema(reserved).build(engine).schema == reserved
    with pytest.raises(SchemaError, match="feed reserves the column name") as caught:
        builder.with_schema(reserved).with_table_properties(feed).build(engine)
    assert caught.value.column == "_change_type"
    log.commit(protocol(1, 4), metadata({"id": "long"}, (), feed))
    added = Table(log.table).create_transaction_builder(log.engine, "test", Operation.WRITE)
    added = added.with_schema(schema(id=LONG, _commit_version=LONG)).with_schema_evolution()
    with pytest.raises(SchemaError, match="_commit_version"):
        added.build(log.engine)
    log.commit(metadata({"id": "long", "_commit_version": "long"}, (), feed))
    added.build(log.engine)


@pytest.mark.parametrize(
    ("action", "configuration", "feature"),
    [
        (protocol(1, 7, ([], ["someday"])), {}, "someday"),
        (protocol(1, 8), {}, "writer version 8"),
    ],
)
def test_a_table_that_needs_more_of_its_writers_is_refused_by_name(
    log, action, configuration, feature
):
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        existing(log, configuration, protocol=action).build(log.engine)
    assert caught.value.features == (feature,)


def test_a_feature_that_is_not_supported_makes_no_table(engine, builder):
    wanted = builder.with_schema(schema(id=LONG)).with_table_properties(
        {"delta.feature.someday": "supported"}
    )
    with pytest.raises(UnsupportedFeatureError, match="someday"):
        wanted.build(engine)


def test_arguments_that_make_no_sense_are_refused_at_once(builder):
    with pytest.raises(ArgumentError, match="application id"):
        builder.with_transaction_id("", 1)
    with pytest.raises(ArgumentError, match="-1"):
        builder.with_max_retries(-1)


def test_a_builder_is_not_changed_by_its_methods(engine, builder):
    builder.with_schema(schema(id=LONG))
    with pytest.raises(TableNotFoundError):
        builder.build(engine)


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_column_that_no_reader_could_have_is_never_written(
    engine, builder, table_path, mode, nested
):
    bad = schema(**{"a\0b": LONG})
    columns = schema(id=LONG, inside=bad) if nested else StructType((*schema(id=LONG), *bad))
    refused = builder.with_schema(columns).with_table_properties({"delta.columnMapping.mode": mode})
    with pytest.raises(SchemaError, match="null character"):
        refused.build(engine)
    assert not Table.for_path(engine, table_path).exists(engine)


def test_a_schema_that_readers_refuse_is_not_committed(engine, builder, table_path):
    marks = {"delta.identity.start": 1, "delta.identity.step": {"x": 1}}
    column = StructField(name="id", data_type=LONG, metadata=marks)
    with pytest.raises(SchemaError):
        builder.with_schema(StructType((column, *schema(a=STRING)))).build(engine)
    assert not Table.for_path(engine, table_path).exists(engine)


def test_a_transaction_that_makes_the_table_refuses_one_that_is_there(engine, builder):
    wanted = builder.with_schema(schema(id=LONG)).with_table_created()
    late = wanted.build(engine)
    wanted.build(engine).commit(engine, [])
    with pytest.raises(ProtocolChangedError, match=r"writer created the table .*\(version 0\)"):
        wanted.build(engine)
    with pytest.raises(ProtocolChangedError):
        late.commit(engine, [])


class _EngineWithDefaults:
    def __init__(self, engine, settings):
        self._engine = engine
        self.commit_settings = settings

    def __getattr__(self, name):
        return getattr(self._engine, name)


def test_an_engine_has_defaults_for_what_the_builder_does_not_set(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}), configuration={"delta.checkpointInterval": "1"})
    settings = CommitSettings(
        user_metadata={"job": 7},
        transaction_ids={"app": 3},
        compression="gzip",
        skipped_hooks=frozenset({"checkpoint"}),
    )
    engine = _EngineWithDefaults(for_path(path, {}), settings)
    handle = bayou.table(path, engine=engine)
    assert bayou.write(handle, pa.table({"id": [2]})) == 1
    assert bayou.write(handle, pa.table({"id": [2]}), commit_metadata="x") == 1
    assert handle.optimize.compact().version == 2
    assert [commit["job"] for commit in handle.history(2)] == [7, 7]
    assert handle.transaction_version("app") == 3
    assert len(list(tmp_path.rglob("*.gz.parquet"))) == 2
    assert not list(tmp_path.rglob("*.checkpoint.parquet"))
