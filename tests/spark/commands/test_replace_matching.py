"""`REPLACE USING` and `REPLACE ON`: writes that replace the rows that match a written row."""

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import bayou
from bayou.errors import ArgumentError, SchemaError

pytestmark = pytest.mark.spark


@pytest.fixture
def students(spark, tmp_path):
    """A table of four students, one without a country."""
    path = str(tmp_path / "students")
    rows = [("Dylan", "US"), ("Doug", "UK"), ("Julia", "IT"), ("Adam", None)]
    frame = spark.createDataFrame(rows, "name string, country string")
    frame.coalesce(1).write.format("delta").save(path)
    return path


@pytest.fixture
def newcomers(spark):
    rows = [("Peter", "FR"), ("Jennie", "UK"), ("Jo", "UK"), ("Eva", None)]
    return spark.createDataFrame(rows, "name string, country string")


def names(path):
    return sorted(bayou.table(path).to_arrow()["name"].to_pylist())


def test_rows_with_an_equal_key_are_replaced_and_null_equals_nothing(spark, students, newcomers):
    writer = newcomers.write.format("delta").mode("overwrite").option("replaceUsing", "country")
    writer.save(students)
    assert names(students) == ["Adam", "Dylan", "Eva", "Jennie", "Jo", "Julia", "Peter"]
    (last,) = bayou.table(students).history(1)
    assert last["operation"] == "WRITE"
    assert last["operationParameters"]["mode"] == "Overwrite"
    assert last["operationParameters"]["replaceUsingCols"] == "(country)"
    assert last["operationMetrics"]["numDeletedRows"] == "1"
    assert last["operationMetrics"]["numOutputRows"] == "7"


def test_a_condition_selects_the_replaced_rows(spark, students, newcomers):
    writer = newcomers.alias("s").write.format("delta").mode("overwrite").option("targetAlias", "t")
    writer.option("replaceOn", "t.country <=> s.country").save(students)
    assert names(students) == ["Dylan", "Eva", "Jennie", "Jo", "Julia", "Peter"]
    (last,) = bayou.table(students).history(1)
    assert last["operationParameters"]["replaceOnCond"] == "t.country <=> s.country"


def test_without_new_rows_nothing_is_deleted(students, newcomers):
    none = newcomers.where("name = 'nobody'")
    none.write.format("delta").mode("overwrite").option("replaceUsing", "country").save(students)
    assert len(names(students)) == 4


def test_a_missing_table_is_created(tmp_path, newcomers):
    path = str(tmp_path / "new")
    newcomers.write.format("delta").mode("overwrite").option("replaceUsing", "name").save(path)
    assert len(names(path)) == 4


def test_statements_replace_rows_too(spark, students, newcomers):
    newcomers.createOrReplaceTempView("newcomers")
    spark.sql(f"INSERT INTO delta.`{students}` REPLACE USING (country) SELECT * FROM newcomers")
    assert names(students) == ["Adam", "Dylan", "Eva", "Jennie", "Jo", "Julia", "Peter"]
    spark.sql(
        f"INSERT INTO delta.`{students}` AS t REPLACE ON t.country <=> s.land "
        "SELECT 'Max' AS who, country AS land FROM newcomers AS s WHERE country IS NULL"
    )
    assert names(students) == ["Dylan", "Jennie", "Jo", "Julia", "Max", "Peter"]
    spark.sql(
        f"INSERT INTO delta.`{students}` BY NAME REPLACE USING (name) "
        "SELECT 'US' country, 'Jo' name"
    )
    rows = {r["name"]: r["country"] for r in bayou.table(students).to_arrow().to_pylist()}
    assert rows["Jo"] == "US"
    spark.sql(f"INSERT INTO delta.`{students}` REPLACE USING (name) VALUES ('Jo', 'DE')")
    rows = {r["name"]: r["country"] for r in bayou.table(students).to_arrow().to_pylist()}
    assert rows["Jo"] == "DE"


@pytest.mark.parametrize(
    ("options", "error", "condition"),
    [
        (
            {"replaceOn": "true", "replaceUsing": "name"},
            IllegalArgumentException,
            "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
        ),
        (
            {"replaceUsing": "name", "replaceWhere": "name = 'x'"},
            IllegalArgumentException,
            "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
        ),
        (
            {"replaceUsing": "name", "partitionOverwriteMode": "dynamic"},
            IllegalArgumentException,
            "DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING",
        ),
        ({"replaceUsing": "name,"}, IllegalArgumentException, "DELTA_ILLEGAL_OPTION"),
        ({"replaceUsing": "x"}, AnalysisException, "UNRESOLVED_INSERT_REPLACE_USING_COLUMN"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    students, newcomers, options, error, condition
):
    with pytest.raises(error) as caught:
        newcomers.write.format("delta").mode("overwrite").options(**options).save(students)
    assert caught.value.getCondition() == condition
    assert len(names(students)) == 4


def test_a_column_at_another_position_is_refused(spark, students):
    with pytest.raises(AnalysisException) as caught:
        spark.sql(
            f"INSERT INTO delta.`{students}` REPLACE USING (country) SELECT 'US' country, 'Jo' name"
        )
    assert caught.value.getCondition() == "INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS"


def test_append_mode_is_refused(students, newcomers):
    with pytest.raises(ValueError, match="overwrite"):
        newcomers.write.format("delta").mode("append").option("replaceUsing", "name").save(students)


def test_char_keys_are_compared_without_the_spaces_that_spark_pads(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, k CHAR(3)) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    spark.sql(f"INSERT INTO delta.`{path}` REPLACE USING (k) VALUES (4, 'a')")
    rows = spark.read.format("delta").load(path).where("id = 4").selectExpr("5 AS id", "k")
    rows.write.format("delta").mode("overwrite").option("replaceUsing", "k").save(path)
    found = bayou.table(path).to_arrow().sort_by("id").to_pydict()
    assert found["id"] == [2, 3, 5]


@pytest.mark.parametrize(
    ("columns", "condition"),
    [
        (["name", "country", "'x' AS lost"], "DELTA_METADATA_MISMATCH"),
        (["name"], "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        (["country", "name"], "INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS"),
    ],
)
def test_insert_into_refuses_columns_at_other_positions(students, newcomers, columns, condition):
    writer = newcomers.selectExpr(*columns).write.format("delta").mode("overwrite")
    with pytest.raises(AnalysisException) as caught:
        writer.option("replaceUsing", "name").insertInto(f"delta.`{students}`")
    assert caught.value.getCondition() == condition
    assert len(names(students)) == 4


def test_insert_into_matches_columns_by_position_and_may_add_some(students, newcomers):
    rows = newcomers.where("name = 'Jo'").selectExpr("name", "'DE' AS land", "1 AS grade")
    writer = rows.write.format("delta").mode("overwrite").option("mergeSchema", "true")
    writer.option("replaceUsing", "name").insertInto(f"delta.`{students}`")
    found = bayou.table(students).to_arrow(filter="name = 'Jo'").to_pylist()
    assert found == [{"name": "Jo", "country": "DE", "grade": 1}]


def test_insert_into_adds_no_column_with_the_name_of_a_column(spark, students, newcomers):
    rows = newcomers.selectExpr("name", "'DE' AS land", "country")
    writer = rows.write.format("delta").mode("overwrite").option("mergeSchema", "true")
    with pytest.raises(SchemaError, match="column 'country' is defined twice"):
        writer.option("replaceUsing", "name").insertInto(f"delta.`{students}`")
    assert len(names(students)) == 4


def test_a_table_can_have_the_name_of_the_default_alias(spark, tmp_path):
    spark.sql(f"CREATE TABLE Source (id INT) USING delta LOCATION '{tmp_path / 's'}'")
    try:
        rows = spark.sql("SELECT 1 AS id")
        for _ in range(2):
            writer = rows.write.format("delta").mode("overwrite").option("replaceUsing", "id")
            writer.saveAsTable("Source")
    finally:
        spark.sql("DROP TABLE Source")
    assert bayou.table(str(tmp_path / "s")).to_arrow()["id"].to_pylist() == [1]


def test_rows_of_a_table_at_another_location_are_not_replaced(spark, students, newcomers, tmp_path):
    spark.sql(f"CREATE TABLE placed_students USING delta LOCATION '{students}'")
    try:
        writer = newcomers.write.format("delta").mode("overwrite").option("replaceUsing", "name")
        with pytest.raises(ArgumentError, match="the location of the existing table"):
            writer.option("path", str(tmp_path / "other")).saveAsTable("placed_students")
    finally:
        spark.sql("DROP TABLE placed_students")
    assert len(names(students)) == 4
