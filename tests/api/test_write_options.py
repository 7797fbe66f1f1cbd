"""`bayou.write`: replaced rows and partitions, commit metadata, idempotent writes, file options."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, ConstraintViolationError

ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]})


def ids(path) -> list[int]:
    return sorted(bayou.table(path).to_arrow(["id"]).column("id").to_pylist())


def test_partition_by_is_a_name_or_a_list(path):
    bayou.write(path, ROWS, partition_by="day")
    bayou.write(path, ROWS, partition_by=["day"])
    assert bayou.table(path).snapshot().partition_columns == ("day",)


def test_replace_where_replaces_the_rows_of_a_condition(path):
    bayou.write(path, ROWS)
    new = pa.table({"id": [20, 21], "day": ["a", "a"]})
    bayou.write(path, new, mode="overwrite", replace_where="day = 'a'")
    assert ids(path) == [3, 20, 21]
    with pytest.raises(ConstraintViolationError, match="day = 'a'"):
        bayou.write(path, ROWS, mode="overwrite", replace_where="day = 'a'")
    assert ids(path) == [3, 20, 21]


def test_replaced_rows_are_in_the_change_data_feed(path):
    bayou.write(path, ROWS, configuration={"delta.enableChangeDataFeed": "true"})
    new = pa.table({"id": [20], "day": ["a"]})
    bayou.write(path, new, mode="overwrite", replace_where="id < 3 OR id = 20")
    changes = bayou.table(path).changes(1).to_arrow(["id", "_change_type"]).to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in changes) == [
        ("delete", 1),
        ("delete", 2),
        ("insert", 20),
    ]


def test_a_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(path):
    bayou.write(path, ROWS, partition_by="day")
    new = pa.table({"id": [9], "day": ["b"]})
    bayou.write(path, new, mode="overwrite", partition_overwrite="dynamic")
    assert ids(path) == [1, 2, 9]


def test_overwrite_schema_replaces_schema_and_partition_columns(path):
    bayou.write(path, ROWS, partition_by="day")
    other = pa.table({"name": ["x"], "year": pa.array([2024], pa.int32())})
    bayou.write(path, other, mode="overwrite", overwrite_schema=True, partition_by="year")
    snapshot = bayou.table(path).snapshot()
    assert snapshot.schema.names == ("name", "year")
    assert snapshot.partition_columns == ("year",)
    assert bayou.table(path).to_arrow().to_pylist() == [{"name": "x", "year": 2024}]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"replace_where": "id = 1"}, "replace_where"),
        ({"overwrite_schema": True}, "overwrite_schema"),
        ({"partition_overwrite": "dynamic"}, "partition_overwrite"),
        ({"partition_overwrite": "some", "mode": "overwrite"}, "partition_overwrite"),
        (
            {"mode": "overwrite", "overwrite_schema": True, "replace_where": "id = 1"},
            "replace_where",
        ),
        ({"predicate": "id = 1"}, "predicate"),
        ({"predicate": 1, "mode": "overwrite"}, "predicate"),
        ({"predicate": "id = 1", "replace_where": "id = 1", "mode": "overwrite"}, "predicate"),
        ({"schema_mode": "overwrite"}, "schema_mode"),
        ({"schema_mode": "both"}, "schema_mode"),
        ({"schema_mode": "merge", "merge_schema": True}, "schema_mode"),
        ({"schema_mode": "merge", "overwrite_schema": True, "mode": "overwrite"}, "schema_mode"),
        ({"mode": "overwrite", "schema_mode": "overwrite", "predicate": "id = 1"}, "predicate"),
        ({"compression": "zip"}, "compression"),
        ({"target_file_size": 0}, "target_file_size"),
        ({"transaction": "app"}, "transaction"),
        ({"transaction": ("", 1)}, "transaction"),
        ({"transaction": ("app", "1")}, "transaction"),
        ({"commit_metadata": {"operation": "mine"}}, "commit_metadata"),
        ({"commit_metadata": {"n": float("nan")}}, "commit_metadata"),
        ({"commit_metadata": 5}, "commit_metadata"),
        ({"name": 5}, "name"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused_by_name(path, options, argument):
    with pytest.raises(ArgumentError) as refused:
        bayou.write(path, ROWS, **options)
    assert refused.value.argument == argument
    assert not bayou.exists(path)


def test_rows_are_written_through_a_handle(path):
    table = bayou.create(path, ROWS.schema, partition_by="day")
    assert bayou.write(table, ROWS) == 1
    assert bayou.write(table, ROWS.slice(0, 1), mode="overwrite", predicate="id < 3") == 2
    assert ids(path) == [1, 3]


@pytest.mark.parametrize(
    "options", [{"storage_options": {"AWS_REGION": "x"}}, {"location": "elsewhere"}]
)
def test_a_handle_has_its_own_storage_options_and_location(path, options):
    with pytest.raises(ArgumentError) as refused:
        bayou.write(bayou.table(path), ROWS, **options)
    assert refused.value.argument in options


def test_commit_metadata_is_in_the_history(path):
    bayou.write(path, ROWS, commit_metadata="nightly load")
    bayou.write(path, ROWS, commit_metadata={"job": "nightly", "attempt": {"number": 2}})
    bayou.table(path).delete("id = 1", commit_metadata={"job": "cleanup"})
    deleted, second, first = bayou.table(path).history()
    assert first["userMetadata"] == "nightly load"
    assert (second["job"], second["attempt"]) == ("nightly", {"number": 2})
    assert (deleted["operation"], deleted["job"]) == ("DELETE", "cleanup")


def test_a_repeated_transaction_writes_nothing(path):
    assert bayou.write(path, ROWS, transaction=("app", 1)) == 0
    assert bayou.write(path, ROWS, transaction=("app", 1)) == 0
    assert bayou.write(path, ROWS, transaction=("app", 2)) == 1
    assert bayou.table(path).count() == 6
    assert bayou.table(path).transaction_version("app") == 2
    assert bayou.table(path).transaction_version("other") is None


def test_name_and_description_are_in_the_metadata(path):
    bayou.write(path, ROWS, name="visits", description="One row for each visit")
    metadata = bayou.table(path).metadata()
    assert (metadata.name, metadata.description) == ("visits", "One row for each visit")
    bayou.write(path, ROWS, description="Two rows")
    metadata = bayou.table(path).metadata()
    assert (metadata.name, metadata.description) == ("visits", "Two rows")


def test_files_have_the_size_and_the_codec_of_the_write(tmp_path):
    path = str(tmp_path)
    rows = pa.table({"id": range(200_000)})
    bayou.write(path, rows, target_file_size=50_000, compression="snappy")
    files = bayou.table(path).file_uris()
    assert len(files) > 1
    assert all(name.endswith(".snappy.parquet") for name in files)
    bayou.write(path, rows)
    assert len(bayou.table(path).file_uris()) == len(files) + 1


def test_record_batches_are_written_from_lists_and_iterators(path):
    batches = ROWS.to_batches()
    bayou.write(path, batches)
    bayou.write(path, iter([*batches, *batches]))
    assert bayou.table(path).count() == 3 * ROWS.num_rows
    other = pa.record_batch({"other": [1]})
    for wrong, message in (
        ([], "there are no record batches"),
        ([{"id": 1}], "the items have the type dict"),
        ([*batches, other], ""),
    ):
        with pytest.raises(ArgumentError, match=rf"^data: {message}"):
            bayou.write(path, wrong)
    assert bayou.table(path).version() == 1
