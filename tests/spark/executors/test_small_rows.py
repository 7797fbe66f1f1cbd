"""Jobs run without Spark's check of the batch sizes only if their rows are small."""

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import pandas_udf

import bayou
from bayou.spark import DeltaTable
from bayou.spark.executors import small_rows
from bayou.spark.executors.small_rows import LargeRowError, unmarked, with_small_rows

pytestmark = pytest.mark.spark

ROWS = 20_000
MAX_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SCHEMA = "rows bigint, names array<string>"


@pytest.fixture(autouse=True)
def no_known_tables(monkeypatch):
    monkeypatch.setattr(small_rows, "_tables_with_large_rows", set())


def sizes_of(batches):
    for batch in unmarked(batches):
        columns = [pa.array([batch.num_rows]), pa.array([batch.schema.names])]
        yield pa.RecordBatch.from_arrays(columns, ["rows", "names"])


def batches(frame):
    """The sizes of the batches that Python workers get, and the names of their columns."""

    def run(rows):
        return rows.collect(rows.map(sizes_of, SCHEMA))

    found = with_small_rows(frame, "/t", run)
    assert {tuple(row.names) for row in found} == {tuple(frame.columns)}
    assert sum(row.rows for row in found) == frame.count()
    return [row.rows for row in found]


def numbers(spark, rows=ROWS):
    return spark.range(0, rows, 1, 1)


def test_a_batch_has_only_as_many_rows_as_fit(spark):
    text = numbers(spark).withColumn("s", F.lit("x"))
    sizes = batches(text)
    assert max(sizes) * (16 << 10) <= 64 << 20
    assert 4_000 < max(sizes) < 4_200


def test_rows_of_numbers_need_no_mark_and_have_batches_of_the_usual_size(spark):
    assert batches(numbers(spark)) == [10_000, 10_000]


@pytest.mark.parametrize(("setting", "value"), [(MAX_ROWS, "5000"), (MAX_BYTES, "20000000")])
def test_limits_of_the_session_stay(spark, setting, value):
    spark.conf.set(setting, value)
    try:
        found = small_rows._small_rows(numbers(spark))
    finally:
        spark.conf.unset(setting)
    assert found is None
    assert small_rows._small_rows(numbers(spark)) is not None


@pytest.mark.parametrize(
    "column",
    ["array(id)", "map(id, 'x')", "named_struct('a', array(id))", "parse_json('1')"],
)
def test_the_limit_stays_if_the_size_of_a_type_is_unknown(spark, column):
    assert small_rows._small_rows(numbers(spark).selectExpr("id", f"{column} AS c")) is None


@pytest.mark.parametrize("columns", ["'x' AS a, 'y' AS A", "named_struct('a', 'x', 'A', 'y') AS c"])
def test_the_limit_stays_if_names_differ_in_case_only(spark, columns):
    assert small_rows._small_rows(spark.sql(f"SELECT {columns}")) is None


def test_the_limit_stays_for_many_columns(spark):
    frame = numbers(spark, 1).selectExpr(*(f"'x' AS c{n}" for n in range(101)))
    assert small_rows._small_rows(frame) is None


def test_values_of_small_rows_are_unchanged(spark):
    frame = spark.sql(
        "SELECT 1 AS `a.b`, CAST(NULL AS string) AS s, X'0102' AS b, "
        "named_struct('x', 'y', 'z', named_struct('d', 1.5)) AS n "
        "UNION ALL SELECT NULL, 'ü', NULL, NULL"
    ).coalesce(1)
    seen = small_rows._small_rows(frame)
    assert seen.batch_rows is not None
    assert seen.frame.drop("bayou-is-large-row").collect() == frame.collect()
    assert seen.frame.columns[:-1] == frame.columns


LARGE = {
    "a string": "repeat('x', 20000)",
    "binary": "CAST(repeat('x', 20000) AS binary)",
    "a struct": "named_struct('a', named_struct('b', repeat('x', 20000)))",
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE.keys())
def test_a_job_with_a_large_row_runs_again_with_the_limit(spark, value):
    frame = numbers(spark).selectExpr("id", f"IF(id = 15000, {value}, NULL) AS v")
    runs = []

    def run(rows):
        runs.append(rows.batch_rows is None)
        if rows.batch_rows is None:
            return rows.frame.filter("v IS NOT NULL").count()
        collected = rows.frame.filter("`bayou-is-large-row`").collect()
        assert [(row.id, row.v) for row in collected] == [(15000, None)]
        raise LargeRowError("large")

    assert with_small_rows(frame, "/t", run) == 1
    assert with_small_rows(frame, "/t", run) == 1
    assert runs == [False, True, True]  # the second time, the table is known


def test_a_task_gets_an_error_in_place_of_a_large_row():
    batch = pa.record_batch({"v": ["a", None], "bayou-is-large-row": [False, True]})
    with pytest.raises(LargeRowError):
        list(unmarked(iter([batch])))
    assert list(unmarked(iter([batch.slice(0, 1)]))) == [pa.record_batch({"v": ["a"]})]


def doubled(spark):
    @pandas_udf("bigint")
    def twice(values: pd.Series) -> pd.Series:
        return values * 2

    return numbers(spark).withColumn("s", F.lit("x")).withColumn("d", twice("id"))


def test_other_python_input_keeps_its_limit(spark):
    assert max(batches(doubled(spark))) == 10_000


def test_other_python_input_that_an_rdd_hides_keeps_its_limit(spark):
    assert max(batches(doubled(spark).localCheckpoint(eager=False))) == 10_000
    assert max(batches(doubled(spark).localCheckpoint())) < 5_000  # the input is stored


def test_a_micro_batch_keeps_the_limit(spark, tmp_path):
    path, found = str(tmp_path / "t"), []
    bayou.write(path, pa.table({"id": [1, 2]}))

    def check(batch, _):
        seen = small_rows._small_rows(batch)
        found.append(small_rows._can_run_unlimited(seen.map(sizes_of, SCHEMA)))

    stream = spark.readStream.format("delta").load(path)
    writer = stream.writeStream.foreachBatch(check).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert found == [False]


def test_observed_rows_are_sent_once(spark):
    observation = Observation("mine")
    frame = numbers(spark).withColumn("s", F.repeat(F.lit("x"), 20000))
    seen = small_rows._small_rows(frame.observe(observation, F.count("*").alias("n")))
    assert not small_rows._can_run_unlimited(seen.map(sizes_of, SCHEMA))
    plain = small_rows._small_rows(frame)
    assert small_rows._can_run_unlimited(plain.map(sizes_of, SCHEMA))


def test_a_session_keeps_its_local_properties(spark):
    context = spark.sparkContext
    context.setLocalProperty(MAX_ROWS, "77")
    try:
        assert max(batches(numbers(spark))) == 10_000
        assert context.getLocalProperty(MAX_ROWS) == "77"
    finally:
        context.setLocalProperty(MAX_ROWS, None)
    assert context.getLocalProperty(MAX_BYTES) is None


def test_a_write_with_a_large_row_leaves_only_the_files_of_its_commit(spark, tmp_path):
    path = str(tmp_path / "t")
    frame = spark.range(0, 5000, 1, 2).selectExpr(
        "id", "id % 2 AS p", "IF(id = 4000, repeat('x', 100000), 'y') AS v"
    )
    for mode in ("overwrite", "append"):
        frame.write.format("delta").partitionBy("p").mode(mode).save(path)
    rows = bayou.table(path).to_arrow().sort_by("id").to_pydict()
    assert rows["id"] == sorted([*range(5000)] * 2)
    assert sorted({len(v) for v in rows["v"]}) == [1, 100_000]
    assert bayou.table(path).snapshot().version == 1
    assert small_rows._tables_with_large_rows == {path}  # it was tried without the limit
    files = bayou.table(path).snapshot().files()
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == files.num_rows


def test_a_merge_with_a_large_row(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = spark.range(0, 3000, 1, 2).selectExpr("id", "'a' AS v")
    rows.write.format("delta").save(path)
    source = spark.range(1000, 4000).selectExpr(
        "id", "IF(id IN (1500, 3500), repeat('b', 100000), 'b') AS v"
    )
    # The driver can't evaluate the condition, so Spark's plan merges the rows.
    condition = "t.id = s.id AND levenshtein(t.v, t.v) = 0"
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), condition)
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert small_rows._tables_with_large_rows == {path}  # it was tried without the limit
    rows = bayou.table(path).to_arrow().sort_by("id").to_pydict()
    assert rows["id"] == [*range(4000)]
    assert [len(v) for v in rows["v"]].count(100_000) == 2
    assert [v[0] for v in rows["v"]] == ["a"] * 1000 + ["b"] * 3000
