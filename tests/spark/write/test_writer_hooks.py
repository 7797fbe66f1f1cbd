"""`df.write` after `enable`: what Spark refuses a Python source, and what it loses for one."""

import json
import threading
import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

import bayou
import bayou.spark
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    ArgumentError,
    BayouError,
    CommitConflictError,
    ConstraintViolationError,
    SchemaError,
    TableAlreadyExistsError,
)
from bayou.kernel import Table
from bayou.spark.write.self_reads import predicates_read

pytestmark = pytest.mark.spark


@pytest.fixture
def frame(spark):
    return spark.range(0, 6, 1, 2).selectExpr("id", "cast(id % 3 as string) p")


def write(frame, **options):
    return frame.write.format("delta").options(**options)


def rows(path):
    """What deltalake, an engine of its own, finds."""
    found = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((tuple(r.values()) for r in found), key=repr)


def unreferenced(path):
    there = {f.name for f in Path(path).rglob("*.parquet") if "_delta_log" not in str(f)}
    named = {
        json.loads(line)["add"]["path"].rsplit("/", 1)[-1]
        for log in Path(path, "_delta_log").glob("*.json")
        for line in log.read_text().splitlines()
        if "add" in json.loads(line)
    }
    return there - named


def test_the_default_mode_makes_a_table_and_refuses_one_that_is_there(frame, tmp_path):
    write(frame).partitionBy("p").save(str(tmp_path))
    assert deltalake.DeltaTable(str(tmp_path)).metadata().partition_columns == ["p"]
    with pytest.raises(TableAlreadyExistsError, match=str(tmp_path)):
        write(frame).save(str(tmp_path))
    write(frame).mode("ignore").save(str(tmp_path))
    assert len(rows(tmp_path)) == 6


def test_a_row_that_breaks_a_rule_is_shown_in_one_sentence_and_an_error_of_ours(spark, tmp_path):
    bayou.write(str(tmp_path), pa.table({"id": [1]}))
    bayou.table(str(tmp_path)).alter.add_constraint({"small": "id < 10"})
    with pytest.raises(ConstraintViolationError, match=r"small.*id = 99") as caught:
        write(spark.sql("SELECT 99L AS id")).mode("append").save(str(tmp_path))
    assert "\n" not in str(caught.value)
    assert unreferenced(tmp_path) == set()


def test_a_task_that_fails_leaves_nothing_of_those_beside_it(spark, tmp_path):
    path, mark = tmp_path / "t", tmp_path / "mark"
    bayou.write(str(path), pa.table({"id": [1]}))
    bayou.table(str(path)).alter.add_constraint({"small": "id < 10"})

    def late(batches):
        for batch in batches:
            if batch.column(0)[0].as_py() == 0:
                while not mark.exists():
                    time.sleep(0.01)  # a poll: Spark's Python workers cannot import `support`
                yield batch
            else:
                yield pa.RecordBatch.from_pydict({"id": [99]})
                mark.touch()

    frame = spark.range(0, 2, 1, 2).mapInArrow(late, "id long")
    with pytest.raises(ConstraintViolationError, match="small"):
        write(frame).mode("append").save(str(path))
    assert mark.exists()
    assert unreferenced(path) == set()
    assert not list(path.glob(".*.tmp"))


@pytest.mark.slow
def test_a_job_with_a_failed_task_does_not_run_all_its_other_tasks(spark, tmp_path):
    path = tmp_path / "t"
    bayou.write(str(path), pa.table({"id": [1]}))
    bayou.table(str(path)).alter.add_constraint({"small": "id < 10"})

    def endless(batches):
        for batch in batches:
            if batch.column(0)[0].as_py() == 0:
                yield pa.RecordBatch.from_pydict({"id": [99]})
                continue
            while True:
                time.sleep(0.01)  # deliberate: until the job is cancelled, and with it the task

    frame = spark.range(0, 6, 1, 6).mapInArrow(endless, "id long")
    with pytest.raises(ConstraintViolationError, match="small"):
        write(frame).mode("append").save(str(path))


def test_an_error_of_the_query_itself_is_sparks_own(spark, tmp_path):
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        write(spark.sql("SELECT 1 / (id - id) AS x FROM range(1)")).save(str(tmp_path))
    assert not (tmp_path / "_delta_log").exists()


def test_optimize_write_makes_one_file_a_partition(frame, tmp_path):
    many = frame.repartition(6)
    write(many, optimizeWrite="true").partitionBy("p").save(str(tmp_path))
    assert len(list(tmp_path.rglob("part-*.parquet"))) == 3
    write(many).mode("append").save(str(tmp_path))
    assert len(list(tmp_path.rglob("part-*.parquet"))) > 6
    assert len(rows(tmp_path)) == 12


def test_the_sessions_conf_holds_where_options_are_silent(spark, frame, tmp_path):
    session = spark.newSession()
    conf = {
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
        "spark.databricks.delta.commitInfo.userMetadata": "by conf",
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    }
    for key, value in conf.items():
        session.conf.set(key, value)
    write(session.sql("SELECT 1L AS id, 'a' AS p")).partitionBy("p").save(str(tmp_path))
    write(session.sql("SELECT 2L AS id, 'b' AS p, 1 AS z")).mode("overwrite").save(str(tmp_path))
    assert rows(tmp_path) == [(1, "a", None), (2, "b", 1)]
    table = bayou.table(str(tmp_path))
    assert table.snapshot().properties["delta.enableChangeDataFeed"] == "true"
    assert table.history(1)[0]["userMetadata"] == "by conf"
    write(session.sql("SELECT 3L AS id, 'c' AS p"), replaceWhere="true").mode("overwrite").save(
        str(tmp_path)
    )
    assert rows(tmp_path) == [(3, "c", None)]


def test_a_setting_disables_dynamic_overwrites_of_partitioned_tables(spark, tmp_path):
    session = spark.newSession()
    path, plain = str(tmp_path / "t"), str(tmp_path / "plain")
    rows_of_b = session.sql("SELECT 2L AS id, 'b' AS p")
    write(session.sql("SELECT 1L AS id, 'a' AS p")).partitionBy("p").save(path)
    session.conf.set("spark.databricks.delta.dynamicPartitionOverwrite.enabled", "false")
    dynamic = {"partitionOverwriteMode": "dynamic"}
    with pytest.raises(ArgumentError, match="DELTA_DYNAMIC_PARTITION_OVERWRITE_DISABLED"):
        write(rows_of_b, **dynamic).mode("overwrite").save(path)
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    for statement in ("OVERWRITE delta.`{}`", "OVERWRITE delta.`{}` PARTITION (p)"):
        with pytest.raises(ArgumentError, match=r"dynamicPartitionOverwrite.enabled is false"):
            session.sql(f"INSERT {statement.format(path)} SELECT 2L AS id, 'b' AS p")
    assert rows(path) == [(1, "a")]
    write(rows_of_b, replaceWhere="p = 'b'").mode("overwrite").save(path)
    assert rows(path) == [(1, "a"), (2, "b")]
    write(rows_of_b).mode("overwrite").save(plain)
    write(rows_of_b).mode("overwrite").save(plain)
    write(rows_of_b, partitionOverwriteMode="static").mode("overwrite").save(path)
    assert rows(path) == rows(plain) == [(2, "b")]


CONSTRAINT_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda s, path: (
            write(s.sql("SELECT 9L AS id, 'c' AS p"), replaceWhere="p = 'b'")
            .mode("overwrite")
            .save(path)
        ),
        lambda s, path: s.sql(f"INSERT INTO delta.`{path}` REPLACE WHERE p = 'b' SELECT 9L, 'c'"),
        lambda s, path: (
            s.sql("SELECT 9L AS id, 'c' AS p")
            .writeTo(f"delta.`{path}`")
            .overwrite(F.col("p") == "b")
        ),
    ],
    ids=["option", "statement", "writeTo"],
)
def test_a_setting_disables_the_check_of_rows_that_replace_others(spark, tmp_path, overwrite):
    session = spark.newSession()
    path = str(tmp_path / "t")
    write(session.sql("SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS v(id, p)")).save(path)
    with pytest.raises(BayouError, match="DELTA_REPLACE_WHERE_MISMATCH"):
        overwrite(session, path)
    session.conf.set(CONSTRAINT_CHECK, "sometimes")
    with pytest.raises(BayouError, match="DELTA_ILLEGAL_OPTION"):
        overwrite(session, path)
    assert rows(path) == [(1, "a"), (2, "b")]
    session.conf.set(CONSTRAINT_CHECK, "false")
    overwrite(session, path)
    assert rows(path) == [(1, "a"), (9, "c")]


def test_changes_are_recorded_without_the_check_of_rows_that_replace_others(spark, tmp_path):
    session = spark.newSession()
    path = str(tmp_path / "t")
    feed = {"delta.enableChangeDataFeed": "true"}
    write(session.sql("SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS v(id, p)"), **feed).save(path)
    session.conf.set(CONSTRAINT_CHECK, "false")
    new = session.sql("SELECT 9L AS id, 'c' AS p")
    write(new, replaceWhere="p = 'b'").mode("overwrite").save(path)
    changes = session.read.format("delta").option("readChangeFeed", "true")
    changed = changes.option("startingVersion", 1).load(path).collect()
    assert sorted(tuple(row)[:3] for row in changed) == [(2, "b", "delete"), (9, "c", "insert")]


@pytest.mark.parametrize(
    "condition",
    [
        "p IN (SELECT p FROM VALUES ('b') AS v(p))",
        "id = 1 AND NOT EXISTS ( select 1)",
        "id = (SELECT max(1))",
    ],
)
def test_a_subquery_selects_no_rows_to_replace(spark, tmp_path, condition):
    path = str(tmp_path / "t")
    new = spark.sql("SELECT 1L AS id, 'b' AS p")
    write(new).save(path)
    for overwrite in (
        lambda: write(new, replaceWhere=condition).mode("overwrite").save(path),
        lambda: spark.sql(f"INSERT INTO delta.`{path}` REPLACE WHERE {condition} SELECT 1L, 'b'"),
    ):
        with pytest.raises(AnalysisException) as raised:
            overwrite()
        assert raised.value.getCondition() == "DELTA_UNSUPPORTED_SUBQUERY"
        assert f"{path}: the condition of replaceWhere has a subquery: " in str(raised.value)
    assert bayou.table(path).version() == 0


def test_a_column_named_like_a_query_selects_rows_to_replace(spark, tmp_path):
    path = str(tmp_path / "t")
    new = spark.sql("SELECT 1L AS `select`, '(SELECT 1)' AS p")
    write(new).save(path)
    condition = "(`select` = 1 AND p = '(SELECT 1)')"
    write(new, replaceWhere=condition).mode("overwrite").save(path)
    assert rows(path) == [(1, "(SELECT 1)")]


@pytest.mark.parametrize("replaces", ["statement", "writeTo"])
def test_the_dynamic_mode_neither_limits_a_replaced_table_nor_goes_with_a_new_schema(
    spark, tmp_path, replaces
):
    session = spark.newSession()
    path = str(tmp_path / "t")
    write(session.sql("SELECT id, string(id) AS p FROM range(2)")).partitionBy("p").save(path)
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    query = "SELECT 'x' AS id, '1' AS p"
    new = write(session.sql(query), overwriteSchema="true").mode("overwrite").partitionBy("p")
    condition = "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"
    with pytest.raises(ArgumentError, match=condition):
        new.save(path)
    assert rows(path) == [(0, "0"), (1, "1")]
    if replaces == "statement":
        table = f"delta.`{path}`"
        session.sql(f"CREATE OR REPLACE TABLE {table} USING delta PARTITIONED BY (p) AS {query}")
    else:
        writer = session.sql(query).writeTo(f"delta.`{path}`").using("delta")
        writer.partitionedBy(F.col("p")).createOrReplace()
    assert rows(path) == [("x", "1")]


def test_generated_and_default_columns_are_filled_and_identity_values_are_each_ones_own(
    spark, tmp_path, tables_with_rules
):
    path = tables_with_rules
    for _ in range(2):
        write(spark.range(0, 8, 1, 4).selectExpr("id AS n")).mode("append").save(path)
    found = bayou.table(path).to_arrow().to_pylist()
    assert len({r["i"] for r in found}) == 16
    assert {r["d"] for r in found} == {7}
    assert all(r["double"] == r["n"] * 2 for r in found)


@pytest.fixture
def tables_with_rules(tmp_path):
    """A table with an identity, a generated and a default column."""
    from bayou.engines.arrow import ArrowEngine
    from bayou.kernel import Operation, Table
    from bayou.protocol.schema import LONG, StructField, StructType

    path = str(tmp_path / "rules")
    schema = StructType(
        (
            StructField(
                name="i",
                data_type=LONG,
                metadata={
                    "delta.identity.start": 1,
                    "delta.identity.step": 1,
                    "delta.identity.allowExplicitInsert": False,
                },
            ),
            StructField(name="n", data_type=LONG),
            StructField(
                name="double", data_type=LONG, metadata={"delta.generationExpression": "n * 2"}
            ),
            StructField(name="d", data_type=LONG, metadata={"CURRENT_DEFAULT": "7"}),
        )
    )
    engine = ArrowEngine()
    builder = Table.for_path(engine, path).create_transaction_builder(
        engine, "test", Operation.CREATE_TABLE
    )
    defaults = {"delta.feature.allowColumnDefaults": "supported"}
    builder.with_schema(schema).with_table_properties(defaults).build(engine).commit(engine, [])
    return path


def test_a_name_is_written_where_the_catalog_says(spark, frame, tmp_path):
    write(frame).option("path", str(tmp_path / "t")).saveAsTable("named")
    try:
        assert len(rows(tmp_path / "t")) == 6
        write(spark.sql("SELECT 7 AS id, 'x' AS p")).mode("append").saveAsTable("named")
        spark.sql("SELECT 8 AS any, 9 AS other").write.insertInto("named")
        assert rows(tmp_path / "t")[-2:] == [(7, "x"), (8, "9")]
        assert spark.table("named").count() == 8
        assert spark.read.option("versionAsOf", 0).table("default.named").count() == 6
        with pytest.raises(TableAlreadyExistsError, match="named"):
            write(frame).saveAsTable("named")
        elsewhere = write(frame).mode("overwrite").option("path", str(tmp_path / "other"))
        with pytest.raises(ArgumentError, match="the location of the existing table"):
            elsewhere.saveAsTable("named")
        with pytest.raises(SchemaError, match="by position"):
            spark.sql("SELECT 8 AS any").write.insertInto("named")
        spark.sql("SELECT 1 AS any, 'z' AS other").write.insertInto("named", overwrite=True)
        assert rows(tmp_path / "t") == [(1, "z")]
    finally:
        spark.sql("DROP TABLE named")


def test_a_name_without_a_path_is_put_into_the_warehouse(spark, frame):
    write(frame).saveAsTable("warehoused")
    try:
        write(frame).mode("append").saveAsTable("warehoused")
        write(frame).mode("overwrite").saveAsTable("warehoused")
        history = spark.sql("DESCRIBE HISTORY warehoused").collect()
        assert [(h.operation, h.operationParameters.get("isManaged")) for h in history] == [
            ("CREATE OR REPLACE TABLE AS SELECT", "true"),
            ("WRITE", None),
            ("CREATE TABLE AS SELECT", "true"),
        ]
        warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
        assert len(rows(f"{warehouse}/warehoused")) == 6
    finally:
        spark.sql("DROP TABLE warehoused")


def test_buckets_are_refused(frame, tmp_path):
    with pytest.raises(ArgumentError, match="buckets"):
        write(frame).bucketBy(2, "id").saveAsTable("bucketed")


def test_tables_of_other_formats_stay_sparks_business(frame, spark):
    frame.write.format("parquet").saveAsTable("plain")
    try:
        spark.sql("SELECT 7L AS id, 'x' AS p").write.insertInto("plain")
        assert spark.table("plain").count() == 7
    finally:
        spark.sql("DROP TABLE plain")


def test_without_enable_sparks_own_refusal_stands(spark, frame, tmp_path):
    session = spark.newSession()
    bayou.spark.disable(session)
    try:
        with pytest.raises(Exception, match="Append"):
            write(session.range(1)).save(str(tmp_path))
    finally:
        bayou.spark.enable(spark)


def test_appends_from_several_threads_all_land(spark, tmp_path):
    bayou.write(str(tmp_path), pa.table({"id": pa.array([], pa.int64())}))
    threads = [
        threading.Thread(
            target=lambda i=i: write(spark.range(i, i + 1)).mode("append").save(str(tmp_path))
        )
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(tmp_path) == [(0,), (1,), (2,), (3,)]
    assert unreferenced(tmp_path) == set()


def test_a_stream_makes_a_partitioned_table(spark, frame, tmp_path):
    source, path = str(tmp_path / "in"), str(tmp_path / "t")
    frame.write.json(source)
    stream = spark.readStream.schema("id long, p string").json(source).writeStream.format("delta")
    stream = stream.partitionBy("p").option("checkpointLocation", str(tmp_path / "c"))
    stream.trigger(availableNow=True).start(path).awaitTermination()
    assert deltalake.DeltaTable(path).metadata().partition_columns == ["p"]
    assert len(rows(path)) == 6


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_table_named_by_its_path_is_created_if_the_path_has_none(frame, tmp_path, mode):
    name = f"delta.`{tmp_path}/t`"
    write(frame).mode(mode).partitionBy("p").saveAsTable(name)
    assert len(rows(tmp_path / "t")) == 6
    write(frame).mode("ignore").saveAsTable(name)
    with pytest.raises(TableAlreadyExistsError, match="already exists"):
        write(frame).saveAsTable(name)
    write(frame).mode("append").saveAsTable(name)
    assert len(rows(tmp_path / "t")) == 12
    with pytest.raises(AnalysisException):
        frame.write.insertInto(f"delta.`{tmp_path}/missing`")
    assert not (tmp_path / "missing").exists()


@pytest.mark.slow
def test_a_stream_into_a_name_goes_to_its_location(spark, frame, tmp_path):
    source = str(tmp_path / "in")
    frame.write.json(source)
    stream = spark.readStream.schema("id long, p string").json(source).writeStream.format("delta")
    stream = stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(ArgumentError, match="saveAsTable"):
        stream.toTable("streamed")
    with pytest.raises(ArgumentError, match="'append' or 'complete'"):
        stream.start(str(tmp_path / "updated"), outputMode="update")
    stream.outputMode("append")
    with pytest.raises(ArgumentError, match=r"save\(path\)"):
        write(frame).save()
    write(frame.limit(0)).saveAsTable("streamed")
    try:
        stream.toTable("streamed").awaitTermination()
        warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
        assert len(rows(f"{warehouse}/streamed")) == 6
        copy = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).table("streamed")
        assert spark.readStream.table("streamed").schema == copy.schema
        copied = copy.writeStream.option("checkpointLocation", str(tmp_path / "d"))
        copied = copied.trigger(availableNow=True)
        copied.start(str(tmp_path / "copy"), "delta").awaitTermination()
        assert len(rows(str(tmp_path / "copy"))) == 6
    finally:
        spark.sql("DROP TABLE streamed")


def test_a_temporary_view_hides_the_table_of_its_name_from_queries_only(spark):
    spark.range(2).createOrReplaceTempView("hidden")
    try:
        for mode, number in (("error", 1), ("append", 2), ("ignore", 2), ("overwrite", 1)):
            write(spark.range(8, 9)).mode(mode).saveAsTable("hidden")
            assert spark.sql("SELECT count(*) FROM default.hidden").first()[0] == number
        spark.range(9, 10).write.format("delta").insertInto("hidden")
        location = spark.sql("DESCRIBE DETAIL default.hidden").first().location
        assert ids(spark, location) == [8, 9]
        for options in ({}, {"replaceWhere": "id = 8"}, {"replaceOn": "id = 8"}):
            with pytest.raises(AnalysisException, match="UNSUPPORTED_INSERT"):
                spark.range(7, 8).write.mode("overwrite").options(**options).insertInto("hidden")
        assert ids(spark, location) == [8, 9]
        spark.range(5, 6).writeTo("hidden").using("delta").createOrReplace()
        assert spark.sql("SELECT id FROM default.hidden").collect() == [(5,)]
        with pytest.raises(AnalysisException, match="VIEW_WRITE_NOT_ALLOWED"):
            spark.range(5, 6).writeTo("hidden").append()
        assert spark.sql("SELECT count(*) FROM hidden").first()[0] == 2
    finally:
        spark.catalog.dropTempView("hidden")
        spark.sql("DROP TABLE IF EXISTS default.hidden")


@pytest.mark.parametrize("kind", ["VIEW other AS SELECT 1L AS id", "TABLE other (id BIGINT)"])
def test_an_overwrite_does_not_replace_a_view_or_a_table_of_another_format(spark, kind):
    using = " USING parquet" if kind.startswith("TABLE") else ""
    spark.sql(f"CREATE {kind}{using}")
    try:
        with pytest.raises(ArgumentError, match="other: a view or a table of another format"):
            write(spark.range(1)).mode("overwrite").saveAsTable("other")
    finally:
        spark.sql(f"DROP {kind.split()[0]} other")


def test_an_overwrite_by_the_table_s_own_rows_removes_none_that_were_added_since(spark, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1, 2, 3]}))
    frame = spark.read.format("delta").load(path)
    bayou.write(path, pa.table({"id": [4]}), mode="append")
    fewer = frame.where("id < 3")
    with pytest.raises(CommitConflictError, match="read the table again"):
        fewer.write.format("delta").mode("overwrite").save(path)
    nested = spark.range(9).where(F.col("id").isin([1])).join(fewer, "id", "left_semi")
    with pytest.raises(CommitConflictError):
        nested.write.format("delta").mode("overwrite").option("replaceWhere", "id < 9").save(path)
    frame.createOrReplaceTempView("own_rows")
    below = spark.sql("SELECT id FROM range(3) WHERE id IN (SELECT id FROM own_rows)")
    with pytest.raises(CommitConflictError):
        below.write.format("delta").mode("overwrite").save(path)
    assert ids(spark, path) == [1, 2, 3, 4]
    with pytest.raises(CommitConflictError):
        fewer.write.format("delta").mode("append").save(path)
    older = spark.read.format("delta").option("versionAsOf", 0).load(path)
    older.write.format("delta").mode("overwrite").save(path)  # going back is meant
    assert ids(spark, path) == [1, 2, 3]
    again = spark.read.format("delta").load(path).where("id > 1")
    again.write.format("delta").mode("overwrite").save(path)
    assert ids(spark, path) == [2, 3]


def test_an_append_that_reads_its_table_is_not_blind_and_knows_the_partitions(spark, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    other = spark.createDataFrame([(1, "a"), (3, "c")], "id long, p string")
    other.createOrReplaceTempView("other")
    table = f"delta.`{path}`"
    for query, blind in (
        (f"SELECT * FROM other WHERE id NOT IN (SELECT id FROM {table})", False),
        ("SELECT * FROM other", True),
        (f"SELECT id + 9, p FROM {table} WHERE p = 'a' AND id < 9", False),
        (f"SELECT * FROM {table} VERSION AS OF 0", True),
    ):
        spark.sql(f"INSERT INTO {table} {query}")
        assert bayou.table(path).history(1)[0]["isBlindAppend"] is blind
    snapshot = Table.for_path(ArrowEngine(), path).latest_snapshot(ArrowEngine())
    frame = spark.read.format("delta").load(path)
    (whole,) = predicates_read(frame.select("id"), snapshot)
    assert whole is None
    joined = frame.where("p = 'a' AND id % 2 = 1").join(other.select("id"), "id")
    joined = joined.union(frame.where("p = 'b'"))
    filters = [str(f) for f in predicates_read(joined, snapshot)]
    assert ["'a'" in f for f in filters] == [True, False]
    assert "'b'" in filters[1]
    (cached,) = predicates_read(frame.where("p = 'a'").cache(), snapshot)
    assert cached is None


def test_an_overwrite_by_own_rows_of_the_data_source_knows_their_version(spark, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"_metadata": [1, 2, 3]}))  # a name that leaves it to the source
    frame = spark.read.format("delta").load(path)
    bayou.write(path, pa.table({"_metadata": [4]}), mode="append")
    with pytest.raises(CommitConflictError):
        frame.write.format("delta").mode("overwrite").save(path)
    assert bayou.table(path).to_arrow().num_rows == 4
    fresh = spark.read.format("delta").load(path)
    fresh.write.format("delta").mode("overwrite").save(path)
    assert bayou.table(path).to_arrow().num_rows == 4


def ids(spark, path):
    return sorted(row.id for row in spark.read.format("delta").load(path).collect())


def test_an_overwrite_by_own_rows_knows_reads_that_the_plan_does_not_show(spark, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1, 2, 3]}))
    reader = spark.read.format("delta").option("metadataColumn", "true")
    frame = reader.load(path).where("_metadata.row_index > 0").select("id")
    bayou.write(path, pa.table({"id": [4]}), mode="append")
    with pytest.raises(CommitConflictError):
        frame.write.format("delta").mode("overwrite").save(path)
    with pytest.raises(CommitConflictError):
        frame.distinct().write.format("delta").mode("overwrite").save(path)
    assert ids(spark, path) == [1, 2, 3, 4]
