"""DELETE, UPDATE and MERGE whose rows a plan of Spark finds."""

from contextlib import suppress

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.errors import CommitConflictError, MultipleMatchesError, PredicateError, SchemaError
from bayou.spark.commands import merge_by_spark
from bayou.spark.commands.rows_by_spark import FILE, _grouped
from bayou.spark.jvm.plans import analyzed_plan, is_deterministic, scala_items

pytestmark = pytest.mark.spark


@pytest.fixture(
    params=[
        pytest.param("true", id="vectors"),
        pytest.param("false", id="rewrites", marks=pytest.mark.slow),
    ]
)
def many(request, table, tmp_path):
    """A table of two partitions with awkward names and a deleted row."""
    made = table(
        {"id": [1, 2, 3], "v": ["a", "b", "c"], "p": ["x y", "x y", "x y"]},
        partition_by=["p"],
        enableDeletionVectors=request.param,
        enableChangeDataFeed="true",
        enableRowTracking="true",
    )
    more = pa.table({"id": [4, 5, 6], "v": ["d", "e", "f"], "p": ["50%", "50%", "50%"]})
    bayou.write(str(tmp_path / "t"), more, mode="append")
    made.delete("id = 6")
    return made


@pytest.fixture
def is_odd(spark):
    return F.udf(lambda number: number is not None and number % 2 == 1, "boolean")


def changes(spark, made):
    path = made.detail().first()["location"]
    version = made.history(1).first()["version"]
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    found = feed.option("startingVersion", str(version)).load(path)
    return dict(found.groupBy("_change_type").count().collect())


def test_functions_of_python_choose_rows_and_make_values(spark, many, rows, is_odd):
    many.delete(is_odd(F.col("id")) & (F.col("id") < 3))
    assert changes(spark, many) == {"delete": 1}
    shout = F.udf(lambda text: text + "!", "string")
    many.alias("t").update(is_odd(F.col("t.id")), {"v": shout(F.col("t.v")), "t.p": F.lit("new")})
    assert changes(spark, many) == {"update_preimage": 2, "update_postimage": 2}
    assert rows(many) == [
        (2, "b", "x y"),
        (3, "c!", "new"),
        (4, "d", "50%"),
        (5, "e!", "new"),
    ]
    assert many.history(1).first()["operationMetrics"]["numUpdatedRows"] == "2"


def test_a_table_may_have_a_column_named_metadata(spark, table, rows):
    changed = table({"id": [1, 2, 3], "_metadata": ["a", "b", "c"]})
    spark.range(2, 3).createOrReplaceTempView("chosen")
    changed.delete("id IN (SELECT id FROM chosen)")
    changed.update("id IN (SELECT id + 1 FROM chosen)", {"_metadata": "upper(_metadata)"})
    source = spark.sql("SELECT 3 AS id, 'd' AS _metadata UNION ALL SELECT 4, 'e'")
    condition = "t.id = s.id AND levenshtein(t._metadata, 'C') = 0"
    merge = changed.alias("t").merge(source.alias("s"), condition)
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(changed) == [(1, "a"), (3, "d"), (4, "e")]


def test_subqueries_choose_rows(spark, many, rows):
    spark.range(4, 6).createOrReplaceTempView("chosen")
    many.delete("id IN (SELECT id FROM chosen)")
    assert [r[0] for r in rows(many)] == [1, 2, 3]
    assert many.history(1).first()["operationParameters"]["predicate"] == (
        '["id IN (SELECT id FROM chosen)"]'
    )
    with pytest.raises(PredicateError, match="nothing"):
        many.delete("nothing IN (1)")


def test_a_merge_by_spark_runs_its_clauses_in_order(spark, many, rows, is_odd):
    source = spark.createDataFrame(
        [(1, "x", "x y"), (2, "y", "x y"), (5, "z", "q"), (9, "w", "q")],
        "id long, v string, p string",
    )
    outcome = (
        many.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedDelete(is_odd(F.col("s.id")) & (F.col("t.id") < 3))
        .whenMatchedUpdateAll("s.v = 'y'")
        .whenMatchedUpdate(set={"v": F.concat("t.v", "s.v")})
        .whenNotMatchedInsert(values={"id": "s.id", "v": "'new'"})
        .whenNotMatchedBySourceUpdate("t.id = 3", {"v": "'left'"})
        .whenNotMatchedBySourceDelete("t.id = 4")
        .execute()
    )
    assert rows(many) == [
        (2, "y", "x y"),
        (3, "left", "x y"),
        (5, "ez", "50%"),
        (9, "new", None),
    ]
    assert outcome.first().asDict() == {
        "num_affected_rows": 6,
        "num_updated_rows": 3,
        "num_deleted_rows": 2,
        "num_inserted_rows": 1,
    }
    assert changes(spark, many) == {
        "delete": 2,
        "update_preimage": 3,
        "update_postimage": 3,
        "insert": 1,
    }


@pytest.fixture
def large_source(spark):
    """Has every source of a merge count as large."""
    spark.conf.set("bayou.rowOperations.sourceBytes", "0")
    yield
    spark.conf.unset("bayou.rowOperations.sourceBytes")


def test_a_large_source_is_joined_by_spark(spark, table, rows, large_source):
    made = table({"id": [1, 2], "v": ["a", "b"]}, enableDeletionVectors="true")
    source = spark.createDataFrame([(2, "x", 1.5), (3, "y", 2.5)], "id long, v string, w double")
    merging = made.alias("t").merge(source, F.col("t.id") == source["id"]).withSchemaEvolution()
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(made) == [(1, "a", None), (2, "x", 1.5), (3, "y", 2.5)]
    only_new = spark.createDataFrame([(3, "no", 0.0), (4, "z", 3.5)], "id long, v string, w double")
    made.alias("t").merge(only_new.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert [r[0] for r in rows(made)] == [1, 2, 3, 4]
    assert made.history(1).first()["operationMetrics"]["numTargetFilesRemoved"] == "0"


def test_several_matches_are_refused_unless_all_go(spark, table, rows, large_source):
    made = table({"id": [1, 2]})
    source = spark.createDataFrame([(1,), (1,)], "id long")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    with pytest.raises(MultipleMatchesError, match="DELTA_MULTIPLE_SOURCE_ROW"):
        merging.whenMatchedUpdate("s.id > 5", {"id": "s.id"}).execute()
    merging.whenMatchedDelete().execute()
    assert rows(made) == [(2,)]


@pytest.mark.slow
def test_moments_are_read_in_the_sessions_time_zone(spark, table, rows):
    made = table({"id": [1, 2], "at": pa.array([0, 3_600_000_000], pa.timestamp("us", "UTC"))})
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        made.delete("at = '1970-01-01 01:00:00'")
        assert made.toDF().select("id").collect() == [(2,)]
        made.update("id = 2", {"at": "'1970-01-01 01:00:00'"})
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert made.toDF().where("at = TIMESTAMP '1970-01-01 00:00:00'").count() == 1


@pytest.mark.parametrize(
    "most",
    [
        pytest.param("1000000", id="small"),
        pytest.param("0", id="large", marks=pytest.mark.slow),
    ],
)
def test_the_keys_of_a_source_let_commits_elsewhere_pass(spark, many, tmp_path, rows, most):
    spark.conf.set("bayou.rowOperations.sourceBytes", most)
    path, mark = str(tmp_path / "t"), tmp_path / "mark"

    @F.udf("boolean")
    def is_there(number):
        with suppress(FileExistsError):  # only one of the tasks commits
            mark.mkdir()
            bayou.table(path).delete("p = '50%' AND id = 5")
        return number is not None

    source = spark.createDataFrame([(1, "x y"), (7, "x y")], "id long, p string")
    merging = many.alias("t").merge(source.alias("s"), "t.id = s.id AND t.p = s.p")
    merging = merging.whenMatchedUpdate(is_there(F.col("t.id")), {"v": "'by key'"})
    try:
        merging.whenNotMatchedInsert(values={"id": "s.id", "p": "s.p"}).execute()
    finally:
        spark.conf.unset("bayou.rowOperations.sourceBytes")
    assert many.history(2).toPandas()["operation"].tolist() == ["MERGE", "DELETE"]
    expected = [(1, "by key", "x y"), (2, "b", "x y"), (3, "c", "x y"), (4, "d", "50%")]
    assert rows(many) == [*expected, (7, None, "x y")]
    assert many.history(1).first()["operationMetrics"]["numSourceRows"] == "2"
    mark.rmdir()
    many.delete(is_there(F.col("id")) & (F.col("p") == "x y") & (F.col("id") > 6))
    assert rows(many) == expected


def test_what_may_match_anywhere_conflicts_with_every_change(spark, many, tmp_path):
    path, mark = str(tmp_path / "t"), tmp_path / "mark"

    @F.udf("boolean")
    def is_there(number):
        with suppress(FileExistsError):  # only one of the tasks commits
            mark.mkdir()
            bayou.table(path).delete("p = '50%' AND id = 5")
        return number is not None

    with pytest.raises(CommitConflictError):
        many.update(is_there(F.col("id")), {"v": "'all'"})


@pytest.mark.slow
def test_structs_are_put_in_by_the_names_of_their_fields(spark, table, rows, large_source):
    made = table({"id": [1, 2], "s": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]})
    source = spark.sql(
        "SELECT id, named_struct('b', concat('n', id), 'A', id * 10) s FROM range(2, 4)"
    )
    merging = made.alias("t").merge(source.alias("u"), "t.id = u.id")
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(made) == [(1, (1, "x")), (2, (20, "n2")), (3, (30, "n3"))]
    is_one = F.udf(lambda number: number == 1, "boolean")
    made.update(is_one(F.col("id")), {"s": "named_struct('b', 'z', 'a', 9)"})
    assert rows(made)[0] == (1, (9, "z"))
    short = spark.sql("SELECT 2L id, named_struct('b', 'only') s")
    merging = made.alias("t").merge(short.alias("u"), "t.id = u.id").whenMatchedUpdateAll()
    with pytest.raises(SchemaError, match="lacks 'a'"):
        merging.execute()
    merging.withSchemaEvolution().execute()
    assert rows(made)[1] == (2, (20, "only"))


def test_a_field_of_a_struct_is_set_also_where_the_struct_is_null(spark, table, rows, large_source):
    made = table({"id": [1, 2, 3], "s": [{"a": 1, "b": "x"}, None, {"a": 3, "b": "z"}]})
    source = spark.sql("SELECT id, named_struct('d', 4.5D, 'c', id * 10) s FROM range(1, 3)")
    merging = made.alias("t").merge(source.alias("u"), "t.id = u.id").withSchemaEvolution()
    merging.whenMatchedUpdate(set={"s.c": "u.s.c", "t.s.d": "u.s.d", "s.b": "'set'"}).execute()
    assert made.toDF().schema["s"].dataType.names == ["a", "b", "d", "c"]
    assert rows(made) == [
        (1, (1, "set", 4.5, 10)),
        (2, (None, "set", 4.5, 20)),
        (3, (3, "z", None, None)),
    ]
    is_three = F.udf(lambda number: number == 3, "boolean")
    made.delete("id = 1")
    made.alias("t").update(is_three("id") | F.col("s").isNull(), {"t.s.C": "7", "s.b": "'up'"})
    assert rows(made)[1] == (3, (3, "up", None, 7))
    for paths in (["s.a", "S.A"], ["s", "s.a"]):
        with pytest.raises(SchemaError, match="set the same column"):
            made.update(is_three("id"), dict.fromkeys(paths, "NULL"))
    with pytest.raises(SchemaError, match="No such struct field 'z'"):
        made.update(is_three("id"), {"s.z": "1"})
    merging = made.alias("t").merge(source.alias("u"), "t.id = u.id")
    with pytest.raises(SchemaError, match="DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION"):
        merging.whenNotMatchedInsert(values={"id": "u.id", "s.a": "1"}).execute()


def test_the_default_of_a_column_is_inserted_and_updated(spark, table, rows, large_source):
    made = table({"id": [1]}, **{"feature.allowColumnDefaults": "supported"})
    path = made.detail().first()["location"]
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN v STRING")
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN v SET DEFAULT 'new'")
    source = spark.range(1, 3)
    merging = made.alias("t").merge(source.alias("u"), "t.id = u.id")
    merging = merging.whenMatchedUpdate(set={"v": "DEFAULT"})
    merging.whenNotMatchedInsert(values={"id": "u.id", "v": "default"}).execute()
    assert rows(made) == [(1, "new"), (2, "new")]
    merging = made.alias("t").merge(spark.range(5, 7).alias("u"), "t.id = u.id")
    merging.whenNotMatchedInsert(values={"v": "DEFAULT"}).execute()
    assert rows(made)[2:] == [(None, "new"), (None, "new")]


@pytest.mark.parametrize("query", ["groups", "windows", "elements"])
def test_the_source_of_a_merge_may_be_computed_from_several_rows(spark, table, rows, query):
    made = table({"id": [1], "v": ["a"]})
    source = spark.createDataFrame([(2, [20, 21]), (2, [20, 21])], "k long, numbers array<long>")
    if query == "groups":
        source = source.groupBy("k").agg(F.count("*").alias("n"))
    elif query == "windows":
        order = Window.partitionBy("k").orderBy("k")
        source = source.select("k", (F.row_number().over(order) + 1).alias("n"))
    else:
        source = source.limit(1).select("k", F.explode(F.array(F.lit(2))).alias("n"))
    shout = F.udf(lambda number: f"{number}!", "string")
    merging = made.alias("t").merge(source, "t.id = k")
    merging.whenNotMatchedInsert("n = 2", {"id": "k", "v": shout("n")}).execute()
    assert rows(made) == [(1, "a"), (2, "2!")]


@pytest.mark.slow
def test_new_rows_alone_come_by_an_anti_join(spark, table, rows, large_source):
    made = table({"id": [1, 1, 2], "v": ["a", "b", "c"]})
    source = spark.createDataFrame([(1, "x"), (3, "y"), (None, "z")], "id long, v string")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenNotMatchedInsert("s.v = 'y'", {"id": "s.id", "v": "upper(s.v)"})
    merging.whenNotMatchedInsert(values={"v": "s.v"}).execute()
    assert rows(made)[1:] == [(1, "b"), (2, "c"), (3, "Y"), (None, "z")]
    metrics = made.history(1).first()["operationMetrics"]
    assert (metrics["numSourceRows"], metrics["numTargetRowsInserted"]) == ("3", "2")
    assert metrics["numTargetFilesRemoved"] == "0"


@pytest.mark.slow
def test_keys_of_a_large_source_within_whose_bounds_others_change_rows_conflict(
    spark, many, tmp_path, large_source
):
    path, mark = str(tmp_path / "t"), tmp_path / "mark"

    @F.udf("boolean")
    def is_there(number):
        with suppress(FileExistsError):  # only one of the tasks commits
            mark.mkdir()
            bayou.table(path).update({"v": "'theirs'"}, predicate="id = 2")
        return number is not None

    source = spark.createDataFrame([(1, "x y"), (7, "x y")], "id long, p string")
    merging = many.alias("t").merge(source.alias("s"), "t.id = s.id AND t.p = s.p")
    merging = merging.whenMatchedUpdate(is_there(F.col("t.id")), {"v": "'ours'"})
    with pytest.raises(CommitConflictError):
        merging.whenNotMatchedInsert(values={"id": "s.id", "p": "s.p"}).execute()


def test_a_large_source_that_is_not_the_same_twice_is_computed_once(spark, table, large_source):
    made = table({"id": list(range(20)), "v": [-1.0] * 20})
    source = spark.range(10, 30, 1, 3).selectExpr("id", "rand() AS v", "map(id, id) AS m")
    assert not is_deterministic(source)
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenMatchedUpdate(set={"v": "s.v"})
    merging.whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()
    found = made.toDF().where("v >= 0").select("id").collect()
    assert sorted(row.id for row in found) == list(range(10, 30))


def test_a_micro_batch_is_only_known_to_be_deterministic_if_it_is_checkpointed(spark, tmp_path):
    path, found = str(tmp_path / "t"), []
    bayou.write(path, pa.table({"id": [1, 2]}))
    stream = spark.readStream.format("delta").load(path).selectExpr("id", "rand() AS v")

    def check(batch, _):
        found.append((is_deterministic(batch), is_deterministic(batch.localCheckpoint())))

    writer = stream.writeStream.foreachBatch(check).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert found == [(False, True)]
    assert is_deterministic(spark.read.format("delta").load(path))


@pytest.mark.parametrize(
    ("on", "condition"), [("t.id = s.id AND rand() < 2", None), ("t.id = s.id", "rand() < 2")]
)
def test_conditions_of_a_merge_that_may_hold_once_only_are_refused(spark, table, on, condition):
    made = table({"id": [1]})
    merging = made.alias("t").merge(spark.range(3).alias("s"), on).whenMatchedDelete(condition)
    with pytest.raises(PredicateError, match="DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"):
        merging.execute()
    assert made.history(1).first()["version"] == 0


def test_new_rows_go_where_they_went_before_whatever_their_order(spark, table, large_source):
    made = table({"id": [1]})
    source = spark.range(2, 40, 1, 4).selectExpr("id", "map('a', id) AS m")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging.whenNotMatchedInsert(values={"id": "s.id"}).execute()
    assert made.toDF().count() == 39
    only_maps = source.where("id > 38").select("m")
    merging = made.alias("t").merge(only_maps.alias("s"), "t.id = s.m['a'] + 1")
    merging.whenNotMatchedInsert(values={"id": "s.m['a'] + 1"}).execute()
    assert made.toDF().where("id = 40").count() == 1


def test_few_new_rows_make_one_file_a_partition(spark, table, tmp_path, large_source):
    made = table({"id": [1], "p": ["a"]}, partition_by=["p"])
    source = spark.range(10, 60, 1, 4).selectExpr("id", "cast(id % 3 AS string) AS p")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id AND t.p = s.p")
    merging.whenMatchedDelete().whenNotMatchedInsertAll().execute()
    metrics = made.history(1).first()["operationMetrics"]
    assert (metrics["numTargetFilesAdded"], metrics["numTargetRowsInserted"]) == ("3", "50")


def test_rows_of_a_file_come_together_and_new_rows_as_they_are_read():
    def batch(*files):
        return pa.RecordBatch.from_pydict({FILE: list(files)})

    given = iter([batch("a", "a"), batch("a", "b"), batch("~0", "~0"), batch("~0", "~1")])
    read = []
    groups = _grouped(read.append(found) or found for found in given)
    seen = [(name, [b.num_rows for b in held], len(read)) for name, held in groups]
    assert seen == [
        ("a", [2, 1], 2),
        ("b", [1], 3),
        ("~0", [2], 3),
        ("~0", [1], 4),
        ("~1", [1], 4),
    ]


@pytest.mark.parametrize("kind", ["rows", pytest.param("large", marks=pytest.mark.slow)])
def test_names_of_rows_without_a_match_are_those_of_their_side(spark, table, rows, kind):
    made = table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    source = spark.createDataFrame([(2, "x"), (9, "y"), (8, "z")], "id long, v string")
    merging = made.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenNotMatchedInsert("v <> 'z'", {"id": "id", "v": "upper(v)"})
    merging = merging.whenNotMatchedInsert(values={"id": F.col("id") * 10, "v": F.col("v")})
    merging = merging.whenNotMatchedBySourceDelete("id > 2")
    merging = merging.whenNotMatchedBySourceUpdate(set={"v": "concat(v, '!')"})
    spark.conf.set("bayou.rowOperations.sourceBytes", "0" if kind == "large" else "1000000")
    try:
        merging.execute()
        assert rows(made) == [(1, "a!"), (2, "b"), (80, "z"), (9, "Y")]
        with pytest.raises(PredicateError, match="(?i)ambiguous"):
            made.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(
                set={"v": "concat(v, 'x')"}
            ).execute()
    finally:
        spark.conf.unset("bayou.rowOperations.sourceBytes")


def test_random_partition_values_dont_choose_the_task_of_a_new_row(spark, table, rows, monkeypatch):
    made = table({"id": [1], "p": ["a"]}, partition_by=["p"])
    chosen = []
    original = merge_by_spark._Plan.rows

    def recorded(self, joined, parts):
        found = original(self, joined, parts)
        chosen.extend(
            column.deterministic() for column in scala_items(analyzed_plan(found).expressions())[:1]
        )
        return found

    monkeypatch.setattr(merge_by_spark._Plan, "rows", recorded)
    some = F.udf(lambda: "b", "string").asNondeterministic()
    merge = made.alias("t").merge(spark.range(2, 4).alias("s"), "t.id = s.id AND t.p = 'b'")
    merge.whenNotMatchedInsert(values={"id": "s.id", "p": some()}).execute()
    assert rows(made) == [(1, "a"), (2, "b"), (3, "b")]
    assert chosen == [True]
