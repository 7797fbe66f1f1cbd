import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import Row

from bayou.errors import BayouError, MetadataChangedError
from bayou.spark import disable, enable
from bayou.spark.data_source import DeltaDataSource

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def through_the_data_source(spark):
    """The session as it is without `enable`."""
    disable(spark)
    yield
    enable(spark)


def save(frame, path, mode="append", **options):
    frame.write.format("delta").mode(mode).options(**options).save(str(path))


def rows(path, version=None):
    """What deltalake, an engine of its own, finds."""
    table = deltalake.DeltaTable(str(path), version=version).to_pyarrow_table()
    return sorted(table.to_pylist(), key=repr)


def commits(path):
    logs = sorted(Path(path, "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]


def info(path, version=-1):
    return next(a["commitInfo"] for a in commits(path)[version] if "commitInfo" in a)


def unreferenced(path):
    files = {str(f.relative_to(path)) for f in Path(path).rglob("*.parquet")}
    named = {a["add"]["path"] for c in commits(path) for a in c if "add" in a}
    return {f for f in files if "_delta_log" not in f} - named


def test_an_append_makes_the_table_and_a_second_one_adds_to_it(spark, tmp_path):
    save(spark.range(3), tmp_path)
    save(spark.range(3, 5), tmp_path)
    assert rows(tmp_path) == [{"id": i} for i in range(5)]
    assert len(commits(tmp_path)) == 2
    assert info(tmp_path)["operation"] == "WRITE"
    assert info(tmp_path)["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert info(tmp_path)["isBlindAppend"] is True


def test_every_type_reaches_the_table_value_for_value(spark, tmp_path):
    frame = spark.sql(
        """
        SELECT 'ä€' AS string, 9007199254740993L AS long, -5 AS integer, 7S AS short, -8Y AS byte,
          CAST(1.5 AS FLOAT) AS float, CAST('Infinity' AS DOUBLE) AS double,
          CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18)) AS decimal,
          true AS boolean, X'00ff' AS binary, DATE'1969-12-31' AS date,
          TIMESTAMP'2024-01-05 10:20:30.123456' AS timestamp,
          TIMESTAMP_NTZ'2024-01-05 10:20:30.123456' AS timestamp_ntz,
          named_struct('a', array(1, NULL, 3), 'm', map('k', DATE'2024-01-05')) AS nested
        """
    )
    save(frame, tmp_path)
    (row,) = rows(tmp_path)
    assert row == {
        "string": "ä€",
        "long": 9007199254740993,
        "integer": -5,
        "short": 7,
        "byte": -8,
        "float": 1.5,
        "double": float("inf"),
        "decimal": Decimal("12345678901234567890.123456789012345678"),
        "boolean": True,
        "binary": b"\x00\xff",
        "date": dt.date(1969, 12, 31),
        "timestamp": dt.datetime(2024, 1, 5, 10, 20, 30, 123456, tzinfo=dt.UTC),
        "timestamp_ntz": dt.datetime(2024, 1, 5, 10, 20, 30, 123456),
        "nested": {"a": [1, None, 3], "m": [("k", dt.date(2024, 1, 5))]},
    }
    assert spark.read.format("delta").load(str(tmp_path)).collect() == frame.collect()


def test_timestamps_are_utc_whatever_the_sessions_time_zone_is(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    save(session.sql("SELECT TIMESTAMP'2024-01-05 10:00:00' AS t"), tmp_path)
    assert rows(tmp_path) == [{"t": dt.datetime(2024, 1, 5, 15, tzinfo=dt.UTC)}]


def test_an_overwrite_replaces_every_row_and_keeps_the_old_version(spark, tmp_path):
    save(spark.range(3), tmp_path)
    save(spark.range(3, 4), tmp_path, mode="overwrite")
    assert rows(tmp_path) == [{"id": 3}]
    assert len(rows(tmp_path, version=0)) == 3


def test_an_overwrite_by_nothing_empties_the_table(spark, tmp_path):
    save(spark.range(3), tmp_path)
    save(spark.range(0), tmp_path, mode="overwrite")
    assert rows(tmp_path) == []


def test_a_table_can_be_overwritten_by_what_is_read_from_it(spark, tmp_path):
    save(spark.range(10), tmp_path)
    frame = spark.read.format("delta").load(str(tmp_path)).where("id % 2 = 0")
    save(frame, tmp_path, mode="overwrite")
    assert [r["id"] for r in rows(tmp_path)] == [0, 2, 4, 6, 8]


def test_an_append_of_nothing_makes_no_commit(spark, tmp_path):
    save(spark.range(3), tmp_path)
    save(spark.range(0), tmp_path)
    assert len(commits(tmp_path)) == 1


def test_a_first_append_of_nothing_makes_an_empty_table(spark, tmp_path):
    save(spark.range(0), tmp_path)
    assert rows(tmp_path) == []
    assert deltalake.DeltaTable(str(tmp_path)).version() == 0


def test_rows_land_in_the_partitions_of_an_existing_table(spark, tmp_path):
    start = pa.table({"id": pa.array([0], pa.int64()), "day": [dt.date(2024, 1, 5)]})
    deltalake.write_deltalake(str(tmp_path), start, partition_by=["day"])
    frame = spark.createDataFrame(
        [
            Row(day=dt.date(2024, 1, 6), id=1),
            Row(day=None, id=2),
            Row(day=dt.date(2024, 1, 6), id=3),
        ]
    )
    save(frame.coalesce(1), tmp_path)
    assert {(r["id"], r["day"]) for r in rows(tmp_path)} == {
        (0, dt.date(2024, 1, 5)),
        (1, dt.date(2024, 1, 6)),
        (2, None),
        (3, dt.date(2024, 1, 6)),
    }
    adds = [a["add"] for a in commits(tmp_path)[-1] if "add" in a]
    assert {a["partitionValues"]["day"] for a in adds} == {"2024-01-06", None}
    assert all(json.loads(a["stats"])["numRecords"] for a in adds)


def test_columns_match_by_name_in_any_order_and_case(spark, tmp_path):
    save(spark.sql("SELECT 1 AS id, 'a' AS name"), tmp_path)
    save(spark.sql("SELECT 'b' AS NAME, 2 AS Id"), tmp_path)
    assert rows(tmp_path) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_columns_that_the_rows_lack_are_null(spark, tmp_path):
    save(spark.sql("SELECT 1 AS id, 'a' AS name"), tmp_path)
    save(spark.sql("SELECT 2 AS id"), tmp_path)
    assert rows(tmp_path) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_rows_without_columns_are_refused(spark, tmp_path):
    save(spark.range(1), tmp_path / "t")
    with pytest.raises(Exception, match="the rows to write have no columns"):
        save(spark.range(2).select(), tmp_path / "t")


def test_an_untyped_null_takes_the_type_of_the_table(spark, tmp_path):
    save(spark.sql("SELECT 1 AS id, 'a' AS name"), tmp_path)
    save(spark.sql("SELECT 2 AS id, NULL AS name"), tmp_path)
    assert rows(tmp_path)[1] == {"id": 2, "name": None}


@pytest.mark.parametrize(("have", "want"), [("1L", "1"), ("1", "1L"), ("'1'", "1"), ("1.5", "1D")])
def test_another_type_is_refused_and_not_cast(spark, tmp_path, have, want):
    save(spark.sql(f"SELECT {have} AS x"), tmp_path)
    with pytest.raises(Exception, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        save(spark.sql(f"SELECT {want} AS x"), tmp_path)
    assert len(commits(tmp_path)) == 1
    assert unreferenced(tmp_path) == set()


def test_a_new_column_needs_merge_schema(spark, tmp_path):
    save(spark.sql("SELECT 1 AS id"), tmp_path)
    wider = spark.sql("SELECT 2 AS id, 'x' AS extra, named_struct('a', 1) AS nested")
    with pytest.raises(Exception, match=r"(?s)extra.*mergeSchema"):
        save(wider, tmp_path)
    save(wider, tmp_path, mergeSchema="true")
    assert rows(tmp_path) == [
        {"id": 1, "extra": None, "nested": None},
        {"id": 2, "extra": "x", "nested": {"a": 1}},
    ]
    assert spark.read.format("delta").load(str(tmp_path)).columns == ["id", "extra", "nested"]


def test_merge_schema_without_a_new_column_changes_no_metadata(spark, tmp_path):
    save(spark.sql("SELECT 1 AS id, 'a' AS name"), tmp_path)
    save(spark.sql("SELECT 2 AS id"), tmp_path, mergeSchema="true")
    assert not any("metaData" in action for action in commits(tmp_path)[-1])


def test_a_job_that_fails_makes_no_commit(spark, tmp_path):
    save(spark.range(2), tmp_path)
    bad = spark.range(0, 1000, 1, 4).selectExpr("id DIV (id - 999) * 0 + id AS id")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        save(bad, tmp_path)
    assert len(commits(tmp_path)) == 1


def test_a_task_that_refuses_its_rows_deletes_what_it_has_written(spark, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1]}, schema=schema))
    rows_and_a_null = spark.range(0, 200_000, 1, 1).selectExpr("nullif(id, 199999L) AS id")
    with pytest.raises(Exception, match=r"'id' is NOT NULL") as caught:
        save(rows_and_a_null, tmp_path)
    assert "Traceback" not in str(caught.value)
    assert len(commits(tmp_path)) == 1
    assert unreferenced(tmp_path) == set()


def test_an_abort_deletes_the_files_of_the_tasks_that_succeeded(spark, tmp_path):
    save(spark.range(2), tmp_path)
    source = DeltaDataSource({"path": str(tmp_path)})
    writer = source.writer(spark.range(0).schema, overwrite=False)
    batch = pa.record_batch({"id": pa.array([1], pa.int64())})
    messages = [writer.write(iter([batch])), None]
    assert len(unreferenced(tmp_path)) == 1
    writer.abort(messages)
    assert unreferenced(tmp_path) == set()
    assert len(rows(tmp_path)) == 2


def test_an_idempotent_write_lands_once(spark, tmp_path):
    for _ in range(2):
        save(spark.range(3), tmp_path, txnAppId="job", txnVersion="1")
    save(spark.range(3), tmp_path, txnAppId="job", txnVersion="2")
    assert len(rows(tmp_path)) == 6
    assert len(commits(tmp_path)) == 2
    assert unreferenced(tmp_path) == set()


def test_user_metadata_and_properties_reach_the_log(spark, tmp_path):
    options = {"userMetadata": "why", "delta.appendOnly": "true"}
    save(spark.range(3), tmp_path, **options)
    assert info(tmp_path)["userMetadata"] == "why"
    assert deltalake.DeltaTable(str(tmp_path)).metadata().configuration == {
        "delta.appendOnly": "true"
    }


def test_an_unknown_property_is_refused_with_the_one_that_was_meant(spark, tmp_path):
    with pytest.raises(Exception, match=r"delta\.appendOnly"):
        save(spark.range(3), tmp_path, **{"delta.apendOnly": "true"})
    assert not (tmp_path / "_delta_log").exists()


def test_save_as_table_says_that_the_path_is_lost(spark):
    with pytest.raises(Exception, match="got no path"):
        spark.range(3).write.format("delta").mode("append").saveAsTable("lost")


def test_a_type_that_delta_lacks_is_named(spark, tmp_path):
    with pytest.raises(Exception, match=r"the type interval .* of column 'i'"):
        save(spark.sql("SELECT INTERVAL '1' DAY AS i"), tmp_path)


def test_an_overwrite_does_not_lose_what_another_writer_adds_meanwhile(spark, tmp_path):
    """The version that an overwrite replaces is the one it began with."""

    save(spark.range(3), tmp_path)
    source = DeltaDataSource({"path": str(tmp_path)})
    writer = source.writer(spark.range(0).schema, overwrite=True)
    message = writer.write(iter([pa.record_batch({"id": pa.array([7], pa.int64())})]))
    save(spark.range(3, 5), tmp_path)
    try:
        writer.commit([message])
    except BayouError:
        writer.abort([message])
    left = {r["id"] for r in rows(tmp_path)}
    assert left in ({7, 3, 4}, {0, 1, 2, 3, 4})
    assert unreferenced(tmp_path) == set()


def test_two_first_appends_at_once_both_land(spark, tmp_path):

    writers = [
        DeltaDataSource({"path": str(tmp_path)}).writer(spark.range(0).schema, overwrite=False)
        for _ in range(2)
    ]
    for i, writer in enumerate(writers):
        writer.commit([writer.write(iter([pa.record_batch({"id": pa.array([i], pa.int64())})]))])
    assert rows(tmp_path) == [{"id": 0}, {"id": 1}]


def test_a_first_append_is_refused_when_another_table_was_made_meanwhile(spark, tmp_path):

    writer = DeltaDataSource({"path": str(tmp_path)}).writer(spark.range(0).schema, overwrite=False)
    message = writer.write(iter([pa.record_batch({"id": pa.array([1], pa.int64())})]))
    save(spark.sql("SELECT 'x' AS id"), tmp_path)
    with pytest.raises(MetadataChangedError, match="another writer created the table"):
        writer.commit([message])
    writer.abort([message])
    assert unreferenced(tmp_path) == set()


def partitioned(path):
    start = pa.table({"id": pa.array([0, 1], pa.int64()), "p": ["a", "b"]})
    deltalake.write_deltalake(str(path), start, partition_by=["p"])


def test_replace_where_replaces_what_it_says_and_refuses_other_rows(spark, tmp_path):
    partitioned(tmp_path)
    save(spark.sql("SELECT 7L id, 'a' p"), tmp_path, "overwrite", replaceWhere="p = 'a'")
    assert rows(tmp_path) == [{"id": 1, "p": "b"}, {"id": 7, "p": "a"}]
    with pytest.raises(Exception, match=r"replaceWhere.* p = 'b'"):
        save(spark.sql("SELECT 7L id, 'b' p"), tmp_path, "overwrite", replaceWhere="p = 'a'")
    assert unreferenced(tmp_path) == set()


def test_dynamic_overwrite_replaces_the_partitions_of_the_rows(spark, tmp_path):
    partitioned(tmp_path)
    new = spark.sql("SELECT 7L id, 'b' p")
    save(new, tmp_path, "overwrite", partitionOverwriteMode="dynamic")
    assert rows(tmp_path) == [{"id": 0, "p": "a"}, {"id": 7, "p": "b"}]


def test_overwrite_schema_gives_the_table_the_columns_of_the_rows(spark, tmp_path):
    partitioned(tmp_path)
    save(spark.sql("SELECT 'x' other"), tmp_path, "overwrite", overwriteSchema="true")
    assert rows(tmp_path) == [{"other": "x"}]


def test_a_commit_whose_outcome_is_unknown_keeps_its_files(spark, tmp_path):
    """Spark calls `abort` after a commit that raised, with the messages of all tasks."""
    save(spark.range(2), tmp_path)
    writer = DeltaDataSource({"path": str(tmp_path)}).writer(spark.range(0).schema, overwrite=False)
    message = writer.write(iter([pa.record_batch({"id": pa.array([1], pa.int64())})]))
    writer.abort([message])
    assert len(unreferenced(tmp_path)) == 1


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame.where("id > 1"),
        lambda frame: frame.groupBy("id").count().select("id"),
        lambda frame: frame.sparkSession.range(9).join(frame, "id", "left_semi"),
    ],
)
def test_an_overwrite_by_the_table_s_own_rows_removes_none_that_were_added_since(
    spark, tmp_path, query
):
    save(spark.range(3), tmp_path)
    frame = query(spark.read.format("delta").load(str(tmp_path)))
    save(spark.range(3, 4), tmp_path)
    with pytest.raises(Exception, match=r"ConcurrentAppendError: .* read the table again"):
        save(frame, tmp_path, "overwrite")
    assert rows(tmp_path) == [{"id": i} for i in range(4)]
    assert not unreferenced(tmp_path)
    save(query(spark.read.format("delta").load(str(tmp_path))), tmp_path, "overwrite")
    assert {"id": 3} in rows(tmp_path)


def test_an_overwrite_by_own_rows_of_other_columns_is_refused(spark, tmp_path):
    save(spark.range(3), tmp_path)
    frame = spark.read.format("delta").load(str(tmp_path))
    save(spark.sql("SELECT 3L id, 'x' text"), tmp_path, mergeSchema="true")
    with pytest.raises(Exception, match=r"MetadataChangedError: .* Load the table again"):
        save(frame, tmp_path, "overwrite")
    assert len(rows(tmp_path)) == 4
    assert not unreferenced(tmp_path)


def test_an_overwrite_by_rows_of_a_version_that_was_asked_for_goes_back_to_it(spark, tmp_path):
    for start in (0, 2):
        save(spark.range(start, start + 2), tmp_path)
    reader = spark.read.format("delta")
    save(reader.load(f"{tmp_path}@v0"), tmp_path, "overwrite")
    assert rows(tmp_path) == [{"id": 0}, {"id": 1}]
    save(reader.option("versionAsOf", 1).load(str(tmp_path)), tmp_path, "overwrite")
    assert len(rows(tmp_path)) == 4


def test_an_overwrite_by_rows_of_another_table_replaces_what_was_added_since(spark, tmp_path):
    save(spark.range(3), tmp_path / "t")
    save(spark.range(5), tmp_path / "other")
    spark.read.format("delta").load(str(tmp_path / "t")).count()
    frame = spark.read.format("delta").load(str(tmp_path / "other"))
    save(spark.range(3, 4), tmp_path / "t")
    save(spark.range(5, 6), tmp_path / "other")
    save(frame, tmp_path / "t", "overwrite")
    assert len(rows(tmp_path / "t")) == 5
