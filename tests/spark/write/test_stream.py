import json
import shutil
import uuid
from pathlib import Path

import deltalake
import pytest
from pyspark.errors import StreamingQueryException

from bayou.errors import ArgumentError
from bayou.spark.data_source import DeltaDataSource
from bayou.spark.write.query_checkpoint import query_id

pytestmark = pytest.mark.spark


def feed(folder, name, ids):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text("".join(f'{{"id": {i}}}\n' for i in ids))


def run(spark, source, table, checkpoint, **options):
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(source))
    query = (
        stream.writeStream.format("delta")
        .options(checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start(str(table))
    )
    query.awaitTermination()
    return query


def run_frame(frame, table, checkpoint, **options):
    query = (
        frame.writeStream.format("delta")
        .options(checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start(str(table))
    )
    query.awaitTermination()


@pytest.mark.parametrize(
    ("created", "written", "expected"),
    [
        ("cast(id AS int)", "id", [1, 2]),
        ("id", "cast(id AS int)", [1, 2]),
        ("cast(id AS int)", "id + 0.5D", [1, 2]),
        ("cast(id AS decimal(6, 2))", "cast(id + 0.125 AS decimal(10, 4))", ["1.00", "2.13"]),
        ("cast(id AS double)", "cast(id AS int)", [1.0, 2.0]),
    ],
)
def test_numbers_are_cast_to_the_types_of_the_tables_columns(
    spark, tmp_path, created, written, expected
):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [2])
    spark.sql(f"SELECT {created} AS id FROM range(1, 2)").write.format("delta").save(str(table))
    stream = spark.readStream.schema("id long").json(str(source))
    run_frame(stream.selectExpr(f"{written} AS ID"), table, checkpoint)
    assert list(map(str, ids(table))) == list(map(str, expected))


def test_a_number_that_does_not_fit_the_tables_column_ends_the_stream(spark, tmp_path):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [2**31])
    spark.sql("SELECT cast(id AS int) AS id FROM range(1)").write.format("delta").save(str(table))
    stream = spark.readStream.schema("id long").json(str(source))
    with pytest.raises(StreamingQueryException, match="column 'id' of the stream: 2147483648"):
        run_frame(stream, table, checkpoint)
    assert ids(table) == [0]
    assert unreferenced(table) == set()
    with pytest.raises(StreamingQueryException, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        run_frame(stream.selectExpr("cast(id AS string) AS id"), table, tmp_path / "other")


def ids(table):
    found = deltalake.DeltaTable(str(table)).to_pyarrow_table().column("id").to_pylist()
    return sorted(found)


def txns(table):
    logs = sorted(Path(table, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [(a["txn"]["appId"], a["txn"]["version"]) for a in actions if "txn" in a]


def unreferenced(table):
    logs = sorted(Path(table, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    named = {a["add"]["path"] for a in actions if "add" in a}
    return {f.name for f in Path(table).glob("*.parquet")} - named


def test_each_micro_batch_is_one_commit_with_the_querys_id(spark, tmp_path):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [1, 2])
    feed(source, "b", [3])
    query = run(spark, source, table, checkpoint)
    assert ids(table) == [1, 2, 3]
    assert txns(table) == [(str(query.id), 0), (str(query.id), 1)]
    log = Path(table, "_delta_log", f"{0:020}.json").read_text()
    info = json.loads(log.splitlines()[0])["commitInfo"]
    assert info["operation"] == "STREAMING UPDATE"
    assert info["operationParameters"]["queryId"] == str(query.id)
    assert info["operationParameters"]["epochId"] == "0"


def test_a_restart_goes_on_and_doubles_nothing(spark, tmp_path):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [1, 2])
    run(spark, source, table, checkpoint)
    run(spark, source, table, checkpoint)
    feed(source, "b", [3])
    run(spark, source, table, checkpoint)
    assert ids(table) == [1, 2, 3]


def test_a_batch_that_runs_again_is_not_committed_again(spark, tmp_path):
    """A crash between our commit and Spark's entry in the checkpoint."""
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [1, 2])
    feed(source, "b", [3])
    run(spark, source, table, checkpoint)
    for entry in (checkpoint / "commits").glob("*1*"):
        entry.unlink()
    run(spark, source, table, checkpoint)
    assert ids(table) == [1, 2, 3]
    assert len(txns(table)) == 2
    assert unreferenced(table) == set()


def test_another_query_into_the_same_table_has_its_own_count(spark, tmp_path):
    source, table = tmp_path / "in", tmp_path / "t"
    feed(source, "a", [1])
    run(spark, source, table, tmp_path / "one")
    run(spark, source, table, tmp_path / "two")
    assert ids(table) == [1, 1]


def test_complete_mode_replaces_the_table_each_time(spark, tmp_path):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    for name, values in (("a", [1, 2]), ("b", [2])):
        feed(source, name, values)
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(source))
    query = (
        stream.groupBy("id")
        .count()
        .writeStream.format("delta")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(table))
    )
    query.awaitTermination()
    found = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert sorted((r["id"], r["count"]) for r in found) == [(1, 1), (2, 2)]


def test_a_new_column_is_added_with_merge_schema(spark, tmp_path):
    source, table = tmp_path / "in", tmp_path / "t"
    feed(source, "a", [1])
    spark.sql("SELECT 'x' AS name").write.format("delta").mode("append").save(str(table))
    run(spark, source, table, tmp_path / "checkpoint", mergeSchema="true")
    found = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert sorted(map(repr, found)) == [
        "{'name': 'x', 'id': None}",
        "{'name': None, 'id': 1}",
    ] or sorted(map(repr, found)) == ["{'name': None, 'id': 1}", "{'name': 'x', 'id': None}"]


def test_without_a_checkpoint_location_one_error_says_what_to_set(spark, tmp_path):
    schema = spark.range(0).schema
    with pytest.raises(ArgumentError, match="checkpointLocation") as caught:
        DeltaDataSource({"path": str(tmp_path)}).streamWriter(schema, overwrite=False)
    assert caught.value.argument == "checkpointLocation"


def test_the_querys_id_is_read_from_its_checkpoint(tmp_path):
    identifier = str(uuid.uuid4())
    (tmp_path / "metadata").write_text(json.dumps({"id": identifier}))
    options = {}
    assert query_id(str(tmp_path), options) == identifier
    assert query_id(f"file://{tmp_path}/", options) == identifier


@pytest.mark.parametrize("text", [None, "", "{}", "not json"])
def test_a_checkpoint_without_an_id_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "metadata").write_text(text)
    with pytest.raises(ArgumentError, match=f"{tmp_path}/metadata"):
        query_id(str(tmp_path), {})


def test_a_table_that_is_gone_is_made_again_by_the_next_batch(spark, tmp_path):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [1])
    run(spark, source, table, checkpoint)
    shutil.rmtree(table)
    feed(source, "b", [2])
    run(spark, source, table, checkpoint)
    assert ids(table) == [2]


@pytest.mark.parametrize("lost", [1, 2])
def test_an_older_copy_of_the_checkpoint_stops_the_query_and_loses_no_rows(spark, tmp_path, lost):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "0", [0])
    run(spark, source, table, checkpoint)
    shutil.copytree(checkpoint, tmp_path / "older")
    for number in range(1, lost + 1):
        feed(source, str(number), [number])
        run(spark, source, table, checkpoint)
        (source / f"{number}.json").unlink()  # the next batches have other rows
    feed(source, "later", [9])
    with pytest.raises(StreamingQueryException, match="the checkpoint is older than"):
        run(spark, source, table, tmp_path / "older")
    assert ids(table) == list(range(lost + 1))
    assert unreferenced(table) == set()


def test_the_transaction_of_batch_writes_skips_no_batch_of_a_stream(spark, tmp_path):
    """`txnAppId` may be in the session's conf, and the table may have it already."""
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    options = {"txnAppId": "job", "txnVersion": "5"}
    spark.range(1).write.format("delta").options(**options).save(str(table))
    feed(source, "a", [1, 2])
    run(spark, source, table, checkpoint, **options)
    assert ids(table) == [0, 1, 2]


@pytest.mark.parametrize("by_conf", [True, False])
def test_complete_mode_replaces_all_rows_whatever_overwrites_of_batches_replace(
    spark, tmp_path, by_conf
):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    conf, options = "spark.sql.sources.partitionOverwriteMode", {}
    if by_conf:
        spark.conf.set(conf, "dynamic")
    else:
        options["replaceWhere"] = "size = 'many'"
    try:
        for name in ("a", "b"):
            feed(source, name, [1])
            counts = spark.readStream.schema("id long").json(str(source)).groupBy("id").count()
            sized = counts.selectExpr("id", "count", "if(count > 1, 'many', 'one') AS size")
            writer = sized.writeStream.format("delta").outputMode("complete").partitionBy("size")
            writer = writer.options(checkpointLocation=str(checkpoint), **options)
            writer.trigger(availableNow=True).start(str(table)).awaitTermination()
    finally:
        spark.conf.unset(conf)
    found = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert found == [{"id": 1, "count": 2, "size": "many"}]


def test_a_stream_is_not_joined_with_the_table_that_the_query_writes(spark, tmp_path):
    source, table, checkpoint = (tmp_path / name for name in ("in", "t", "checkpoint"))
    feed(source, "a", [0, 1])
    spark.range(1).write.format("delta").save(str(table))
    rows = spark.readStream.schema("id long").json(str(source))
    known = spark.read.format("delta").load(str(table))
    missing = rows.join(known, "id", "left_anti")
    with pytest.raises(ArgumentError, match=f"{table}: .* its rows.* Use foreachBatch"):
        run_frame(missing, table, checkpoint)
    run_frame(missing, tmp_path / "other", tmp_path / "other checkpoint")
    assert ids(tmp_path / "other") == [1]
    first = spark.read.format("delta").option("versionAsOf", 0).load(str(table))
    run_frame(rows.join(first, "id", "left_anti"), table, checkpoint)
    assert ids(table) == [0, 1]
