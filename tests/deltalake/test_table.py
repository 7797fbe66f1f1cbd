"""`DeltaTable`: its version, the results of its methods, and what it refuses."""

import datetime as dt
import json

import pyarrow as pa
import pytest

import bayou
from bayou.deltalake import DeltaTable, Field, TableFeatures, write_deltalake
from bayou.deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)
from bayou.deltalake.properties import CommitProperties, PostCommitHookProperties, Transaction
from bayou.errors import (
    ArgumentError,
    CommitConflictError,
    ConstraintViolationError,
    CorruptTableError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

ROWS = pa.table({"id": [1, 2, 3], "p": [1, 1, 2], "s": ["a", "b", "c"]})


@pytest.fixture
def table(tmp_path):
    write_deltalake(tmp_path / "t", ROWS, partition_by="p")
    return DeltaTable(tmp_path / "t")


def ids(table):
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_a_table_stays_at_its_version_until_it_commits_or_is_updated(table):
    write_deltalake(table.table_uri, ROWS, mode="append")
    assert (table.version(), table.count()) == (0, 3)
    table.update_incremental()
    assert (table.version(), table.count()) == (1, 6)
    other = DeltaTable(table.table_uri)
    other.delete("id = 1")
    assert (other.version(), table.version()) == (2, 1)
    table.delete("id = 9")
    assert table.version() == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.delete("id = 1"),
        lambda t: t.update({"s": "'x'"}),
        lambda t: t.merge(ROWS, "target.id = source.id").when_matched_delete().execute(),
        lambda t: t.alter.add_columns(Field("n", "long")),
        lambda t: t.alter.set_table_name("orders"),
        lambda t: t.alter.add_constraint({"positive": "id > 0"}),
        lambda t: t.alter.add_column("n", "bigint"),
        lambda t: t.optimize.z_order(["id"]),
        lambda t: write_deltalake(t, ROWS, mode="append"),
    ],
)
def test_a_change_moves_the_table_to_the_new_version(table, change):
    change(table)
    assert table.version() == 1


def test_a_restore_and_a_vacuum_move_the_table_to_the_new_version(table):
    table.delete("id = 1")
    table.load_as_version(0)
    assert table.restore(0) == {"numRemovedFile": 1, "numRestoredFile": 1}
    assert (table.version(), ids(table)) == (2, [1, 2, 3])
    removed = table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert [path.partition("/")[0] for path in removed] == ["p=1"]
    assert table.version() == bayou.table(table.table_uri).version() == 4


def test_time_travel_ends_at_the_latest_version(table):
    table.delete("id = 1")
    table.load_as_version(dt.datetime(2999, 1, 1))
    assert table.version() == 1
    with pytest.raises(VersionNotFoundError):
        table.load_as_version("2001-01-01T00:00:00Z")
    with pytest.raises(TypeError, match="True isn't a version"):
        table.load_as_version(True)


def test_a_merge_is_a_mutable_builder_over_the_source_columns(table):
    source = pa.table({"id": [2, 9], "s": ["q", "r"]})
    merge = table.merge(source, "t.id = s.id", "s", "t")
    merge.when_matched_update_all(predicate="s.s <> 'none'")
    merge.when_not_matched_insert_all()
    metrics = merge.execute()
    assert metrics["num_target_rows_updated"] == metrics["num_target_rows_inserted"] == 1
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert rows[1] == {"id": 2, "p": 1, "s": "q"}
    assert rows[3] == {"id": 9, "p": None, "s": "r"}


def test_metrics_are_dictionaries_with_the_keys_of_deltalake(table):
    write_deltalake(table, ROWS, mode="append")
    assert set(table.delete("id = 1")) == {
        "num_added_files",
        "num_removed_files",
        "num_deleted_rows",
        "num_copied_rows",
        "execution_time_ms",
        "scan_time_ms",
        "rewrite_time_ms",
    }
    compacted = table.optimize.compact()
    assert json.loads(compacted["filesRemoved"])["totalFiles"] == compacted["numFilesRemoved"]
    assert compacted["preserveInsertionOrder"] is True


def test_partition_values_are_strings_or_typed(table):
    for value in ("1", 1):
        assert len(table.file_uris([("p", "=", value)])) == 1
        assert table.to_pyarrow_table(partitions=[("p", "=", value)]).num_rows == 2
    assert table.partitions(file_pruning_predicate="p = 2") == [{"p": "2"}]


def test_an_empty_string_is_a_null_partition(table):
    write_deltalake(table, pa.table({"id": [7], "p": pa.nulls(1, pa.int64())}), mode="append")
    for filters in ([("p", "=", "")], [[("p", "=", "")]]):
        assert len(table.file_uris(filters)) == 1
        assert table.to_pyarrow_table(partitions=filters)["id"].to_pylist() == [7]
    assert len(table.file_uris([("p", "!=", "")])) == 2


def test_a_merge_ignores_source_columns_that_the_table_lacks(table):
    source = ROWS.append_column("extra", [["x", "y", "z"]])
    merge = table.merge(source, "target.id = source.id", merge_schema=False)
    assert merge.when_matched_update_all().execute()["num_target_rows_updated"] == 3
    merge = table.merge(source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert [field.name for field in table.schema().fields] == ["id", "p", "s", "extra"]


def test_the_protocol_is_a_tuple(table):
    assert tuple(table.protocol()) == (1, 2, None, None)
    with pytest.raises(DeltaError, match="allow_protocol_versions_increase=True"):
        table.alter.add_feature(TableFeatures.DeletionVectors)
    features = [TableFeatures.DeletionVectors, TableFeatures.ChangeDataFeed]
    table.alter.add_feature(features, allow_protocol_versions_increase=True)
    reader, writer, writer_features, reader_features = table.protocol()
    assert (reader, writer, reader_features) == (3, 7, ["deletionVectors"])
    assert {"deletionVectors", "changeDataFeed"} <= set(writer_features)


def test_every_operation_records_custom_metadata(table):
    job = {"commit_properties": CommitProperties(custom_metadata={"job": 7})}
    write_deltalake(table, ROWS, mode="append", **job)
    table.delete("id = 1", **job)
    table.update({"s": "'x'"}, predicate="id = 2", **job)
    table.merge(ROWS, "target.id = source.id", **job).when_not_matched_insert_all().execute()
    table.optimize.compact(**job)
    table.restore(1, **job)
    table.vacuum(dry_run=False, **job)
    alter = table.alter
    alter.add_columns([Field("n", "long", metadata={"unit": "m"})], **job)
    alter.add_constraint({"positive": "id > 0"}, **job)
    alter.drop_constraint("positive", **job)
    alter.set_column_metadata("n", {"owner": "sales"}, **job)
    alter.set_table_properties({"delta.appendOnly": "false"}, **job)
    alter.set_table_name("orders", **job)
    alter.set_table_description("all orders", **job)
    alter.add_feature(TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True, **job)
    commits = table.history()
    assert [c.get("job") for c in commits] == [7] * (len(commits) - 1) + [None]
    assert table.schema().fields[3].metadata == {"unit": "m", "owner": "sales"}


def test_operations_with_several_commits_refuse_transactions(table):
    run = CommitProperties(app_transactions=[Transaction("app", 1), Transaction("other", 5)])
    table.delete("id = 1", commit_properties=run)
    assert (table.transaction_version("app"), table.transaction_version("other")) == (1, 5)
    for refused in (
        lambda: table.optimize.compact(commit_properties=run),
        lambda: table.vacuum(commit_properties=run),
        lambda: table.alter.set_table_name("orders", commit_properties=run),
    ):
        with pytest.raises(ArgumentError, match="app_transactions: "):
            refused()


def test_hooks_can_be_skipped_or_forced(tmp_path):
    path = tmp_path / "t"
    write_deltalake(path, ROWS, configuration={"delta.checkpointInterval": "1"})
    checkpoint = path / "_delta_log" / "00000000000000000001.checkpoint.parquet"
    without = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=True)
    write_deltalake(path, ROWS, mode="append", post_commithook_properties=without)
    assert not checkpoint.exists()
    table = DeltaTable(path)
    table.delete("id = 1", post_commithook_properties=PostCommitHookProperties())
    assert checkpoint.with_name("00000000000000000002.checkpoint.parquet").exists()


def test_what_bayou_cannot_do_is_one_error(table):
    calls = [
        lambda: table.repair(True),
        lambda: table.deletion_vectors(),
        lambda: table.create_write_transaction([], "append", ROWS.schema),
        lambda: table.vacuum(keep_versions=[1]),
        lambda: table.update({"s": "1"}, error_on_type_mismatch=False),
        lambda: table.merge(ROWS, "true", error_on_type_mismatch=False),
        lambda: table.to_pandas(filesystem=object()),
        lambda: table.to_pyarrow_dataset(parquet_read_options=object()),
        lambda: table.to_pyarrow_dataset(schema=ROWS.schema),
        lambda: table.to_pyarrow_dataset(as_large_types=True),
        lambda: table.delete("id = 1", commit_properties={"job": 1}),
    ]
    for call in calls:
        with pytest.raises(DeltaError) as caught:
            call()
        assert str(caught.value).count(". ") >= 1
    assert table.version() == 0


def test_errors_are_caught_by_the_names_of_deltalake(tmp_path):
    with pytest.raises(TableNotFoundError):
        DeltaTable(tmp_path / "missing")
    for kind in (UnsupportedFeatureError, CorruptTableError, ConstraintViolationError):
        assert issubclass(kind, DeltaProtocolError)
    assert issubclass(CommitConflictError, CommitFailedError)
    assert issubclass(bayou.errors.CommitFailedError, CommitFailedError)
    assert SchemaMismatchError is bayou.errors.SchemaError


def test_a_committed_operation_succeeds_although_the_new_version_cannot_be_read(
    table, caplog, monkeypatch
):
    def unreachable(hooked):
        raise StorageError("the store doesn't answer.", path=hooked.table_uri)

    monkeypatch.setattr(DeltaTable, "latest_table", unreachable)
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", unreachable)
    hooks = PostCommitHookProperties(cleanup_expired_logs=True)
    metrics = table.delete("id = 1", post_commithook_properties=hooks)
    monkeypatch.undo()
    assert metrics["num_deleted_rows"] == 1
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        (
            "the operation is committed, but expired log files can't be deleted: the store doesn't "
            "answer. A later commit deletes them."
        ),
        (
            "the operation is committed, but the new version can't be read: the store doesn't "
            "answer. The DeltaTable still shows the earlier version; call update_incremental."
        ),
    ]
    assert table.version() == 0
    table.update_incremental()
    assert ids(table) == [2, 3]
