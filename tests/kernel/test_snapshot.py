"""A version of a table: what it says of itself, and what is refused when it is opened."""

from __future__ import annotations

import json

import pytest

from bayou.errors import CorruptTableError, SchemaError, TablePropertyError, UnsupportedFeatureError
from bayou.kernel import Operation, Snapshot
from bayou.kernel.log.commit_times import version_at
from support.log_writer import (
    LogWriter,
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    txn,
)


def open_table(log: LogWriter) -> Snapshot:
    return Snapshot.load(log.engine, log.table)


def test_a_snapshot_says_what_the_log_says(log):
    properties = {"delta.appendOnly": "true", "mine": "x"}
    log.commit(
        protocol(1, 2),
        metadata({"day": "date", "id": "long"}, ["day"], properties, table_id="abc"),
        txn("app", 7),
    )
    log.checkpoint(
        0, [protocol(1, 2), metadata({"day": "date", "id": "long"}, ["day"], properties)]
    )
    log.commit(add("a"))
    found = open_table(log)
    assert (found.version, found.path) == (1, log.table)
    assert found.schema.names == ("day", "id")
    assert found.arrow_schema.names == ["day", "id"]
    assert found.partition_columns == ("day",)
    assert found.properties == properties
    assert found.table_properties.append_only
    assert found.protocol.min_writer_version == 2
    assert found.checkpoint_bytes > 0
    assert found.log_segment.version == 1


def test_the_tables_id_tells_it_from_one_put_in_its_place(log):
    log.commit(protocol(), metadata({"id": "long"}, table_id="abc"))
    assert open_table(log).table_id == "abc"


def test_properties_cannot_be_changed_through_a_snapshot(log):
    log.commit(protocol(), metadata({"id": "long"}))
    with pytest.raises(TypeError):
        open_table(log).properties["x"] = "y"


@pytest.mark.parametrize(
    ("action", "feature"),
    [
        (protocol(3, 7, (["quantumRows"], ["quantumRows"])), "quantumRows"),
        (protocol(3, 7, (["catalogManaged"], ["catalogManaged"])), "catalogManaged"),
        (protocol(4, 7), "reader version 4"),
    ],
)
def test_a_reader_feature_that_is_not_known_is_refused_by_name(log, action, feature):
    log.commit(action, metadata({"id": "long"}))
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        open_table(log)
    assert caught.value.features == (feature,)
    assert caught.value.table == log.table


def test_an_unknown_mode_of_column_mapping_is_refused(log):
    log.commit(protocol(2, 5), metadata({"id": "long"}, (), {"delta.columnMapping.mode": "index"}))
    with pytest.raises(TablePropertyError, match="'index'") as caught:
        open_table(log)
    assert caught.value.key == "delta.columnMapping.mode"


def test_a_table_that_could_map_columns_and_does_not_is_read(log):
    log.commit(protocol(2, 5), metadata({"id": "long"}, (), {"delta.columnMapping.mode": "none"}))
    assert open_table(log).version == 0


def test_unknown_writer_features_do_not_keep_a_table_from_being_read(log):
    log.commit(protocol(1, 7, ([], ["quantumIndexes"])), metadata({"id": "long"}))
    found = open_table(log)
    with pytest.raises(UnsupportedFeatureError, match="quantumIndexes"):
        found.build_update_table_transaction("test", Operation.WRITE).build(log.engine)


def test_a_feature_that_an_older_version_lacked_does_not_keep_that_from_being_read(log):
    log.commit(protocol(), metadata({"id": "long"}))
    log.commit(protocol(3, 7, (["quantumRows"], ["quantumRows"])))
    assert Snapshot.load(log.engine, log.table, 0).version == 0


def test_a_schema_that_cannot_be_read_is_refused(log):
    action = metadata({"id": "long"})
    log.commit(protocol(), {"metaData": {**action["metaData"], "schemaString": '{"type":"lon'}})
    with pytest.raises(SchemaError, match="schema in the log") as caught:
        open_table(log)
    assert caught.value.table == log.table


def test_a_type_that_is_not_known_is_refused(log):
    log.commit(protocol(), metadata({"id": "hyperlong"}))
    with pytest.raises(SchemaError, match="hyperlong"):
        open_table(log)


def test_data_files_that_are_not_parquet_are_refused(log):
    action = metadata({"id": "long"})
    log.commit(protocol(), {"metaData": {**action["metaData"], "format": {"provider": "orc"}}})
    with pytest.raises(UnsupportedFeatureError, match="'orc'"):
        open_table(log)


def test_a_snapshot_says_what_its_table_declares(log):
    declared = {
        "delta.constraints.positive": "id > 0",
    }
    head = metadata({"id": "long"}, configuration=declared)
    domain = {"domain": "delta.clustering", "removed": False}
    clustering = {**domain, "configuration": '{"clusteringColumns":[["id"]]}'}
    log.commit(protocol(), head, {"domainMetadata": clustering})
    found = open_table(log)
    assert found.check_constraints == {"positive": "id > 0"}
    assert found.clustering_columns == (("id",),)
    assert found.column_defaults == {}
    assert found.generation_expressions == {}
    assert found.identity_columns == {}
    assert found.column_invariants == {}
    log.commit({"domainMetadata": {**clustering, "removed": True}})
    assert open_table(log).clustering_columns == ()
    log.commit({"domainMetadata": {**clustering, "configuration": "{"}})
    with pytest.raises(CorruptTableError, match=r"delta\.clustering"):
        assert open_table(log).clustering_columns


@pytest.mark.parametrize("stands_in", ["commit", "null in a commit", "checkpoint"])
def test_a_table_without_a_schema_yet_says_so(log, stands_in):
    body = {k: v for k, v in metadata({})["metaData"].items() if k != "schemaString"}
    if stands_in == "null in a commit":
        body["schemaString"] = None
    log.commit(protocol(), {"metaData": body})
    if stands_in == "checkpoint":
        log.checkpoint(0, [protocol(), {"metaData": body}])
    with pytest.raises(SchemaError) as caught:
        open_table(log)
    assert str(caught.value) == (
        f"{log.table}: the table has no schema yet: its metaData action has no schemaString. "
        "Add columns first."
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "struct", "fields": 7}, "the fields of a struct must be a list, not 7"),
        ({"type": "struct", "fields": None}, "the fields of a struct must be a list, not None"),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": [1]}]},
            r"the metadata of field 'a' must be an object, not \[1\]",
        ),
        ({"type": "struct", "fields": [{"name": "a"}]}, "lacks the key 'type'"),
    ],
)
def test_a_schema_that_is_not_one_is_named_with_file_and_line(log, schema, message):
    body = {**metadata({})["metaData"], "schemaString": json.dumps(schema)}
    log.commit(protocol(), {"metaData": body})
    log.commit(add("a"))
    with pytest.raises(CorruptTableError, match=message) as caught:
        open_table(log)
    assert isinstance(caught.value, SchemaError)
    assert caught.value.file == log.path(f"{0:020d}.json")
    assert "Line 2 of" in str(caught.value)
    log.checkpoint(0, [protocol(), {"metaData": body}])
    with pytest.raises(CorruptTableError, match=message) as caught:
        open_table(log)
    assert caught.value.file == log.path(f"{0:020d}.checkpoint.parquet")


def nested(levels: int) -> str:
    kind = '"string"'
    for _ in range(levels):
        kind = f'{{"type":"array","elementType":{kind},"containsNull":true}}'
    return f'{{"type":"struct","fields":[{{"name":"a","type":{kind}}}]}}'


@pytest.mark.parametrize("levels", [100, 600, 20_000])
def test_a_schema_nested_too_deeply_is_an_error(log, levels):
    body = {**metadata({})["metaData"], "schemaString": nested(99)}
    assert log.commit(protocol(), {"metaData": body}) == 0
    assert len(open_table(log).schema) == 1
    log.commit({"metaData": {**body, "schemaString": nested(levels)}})
    with pytest.raises(CorruptTableError, match="nested"):
        open_table(log)


@pytest.mark.parametrize(
    "action",
    [
        {"unknown": "DEEP"},
        {"commitInfo": {"x": "DEEP"}},
        {"add": {"path": "DEEP"}},
        {"txn": {"appId": "a", "version": 1 << 70}},
        {"add": {**add("a")["add"], "size": 1 << 80}},
        {"add": {**add("a")["add"], "modificationTime": 1 << 63}},
        {"protocol": {"minReaderVersion": 1 << 31, "minWriterVersion": 2}},
    ],
    ids=lambda action: next(iter(action)),
)
def test_an_action_that_is_nested_too_deeply_or_out_of_range_is_named(log, action):
    log.commit(protocol(), metadata({"id": "long"}))
    line = json.dumps(action).replace('"DEEP"', "[" * 1_000_000 + "]" * 1_000_000)
    path = log.put(f"{1:020d}.json", f"{json.dumps(add('b'))}\n{line}\n".encode())
    with pytest.raises(CorruptTableError, match="line 2: ") as caught:
        open_table(log)
    assert caught.value.file == path


@pytest.mark.parametrize(
    ("fields", "partitions", "message"),
    [
        ([("a", "long"), ("a", "string")], [], "field 'a' is duplicated"),
        ([("a\0", "long")], [], "has a null character in its name"),
        ([("a", "long")], ["b"], "column 'b' isn't in the schema"),
        (
            [("a", {"type": "array", "elementType": "long", "containsNull": True})],
            ["a"],
            "column 'a' has type array<long>",
        ),
    ],
)
def test_columns_that_are_there_twice_or_cannot_partition_a_table_are_named(
    log, fields, partitions, message
):
    columns = [{"name": name, "type": kind, "nullable": True} for name, kind in fields]
    body = {
        **metadata({}, partitions)["metaData"],
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
    }
    log.commit(protocol(), {"metaData": body})
    with pytest.raises(CorruptTableError, match=message) as caught:
        open_table(log)
    assert caught.value.file == log.path(f"{0:020d}.json")


def test_an_identity_column_whose_step_is_no_number_is_named(log):
    marks = {"delta.identity.start": 1, "delta.identity.step": {"x": 1}}
    field = {"name": "a", "type": "long", "nullable": True, "metadata": marks}
    schema = json.dumps({"type": "struct", "fields": [field]})
    log.commit(protocol(), {"metaData": {**metadata({})["metaData"], "schemaString": schema}})
    with pytest.raises(CorruptTableError, match="the step of identity column 'a' isn't a number"):
        open_table(log)


def test_a_deletion_vector_beyond_the_range_of_the_protocol_is_named_with_its_line(log):
    vector = {**deletion_vector("v"), "sizeInBytes": 1 << 45}
    log.commit(protocol(), metadata({"id": "long"}), add("a", vector=vector))
    with pytest.raises(CorruptTableError, match="line 3: a deletion vector has a size"):
        open_table(log)


@pytest.mark.parametrize("key", ["Version", "Timestamp"])
def test_an_enablement_of_in_commit_timestamps_that_is_no_number_is_named(log, key):
    configuration = {
        "delta.enableInCommitTimestamps": "true",
        f"delta.inCommitTimestampEnablement{key}": "junk",
    }
    log.commit(
        commit_info(inCommitTimestamp=5), protocol(), metadata({"id": "long"}, (), configuration)
    )
    with pytest.raises(TablePropertyError, match="'junk', not an integer"):
        version_at(log.engine, open_table(log), 9)


def test_bounds_that_are_no_values_of_their_column_skip_no_file(log):
    bounds = {"numRecords": 1, "minValues": {"n": 5, "m": 1}, "maxValues": {"n": 1 << 40, "m": 9}}
    log.commit(protocol(), metadata({"n": "integer", "m": "integer"}), add("a", stats=bounds))
    scan = open_table(log).scan_builder().with_filter("n < m").build()
    with scan.scan_files(log.engine) as batches:
        assert sum(batch.num_selected for batch in batches) == 1
