"""What a session's settings make of a condition, and which conditions the kernel may take."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.errors import ArgumentError
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.protocol.schema import DATE, FLOAT, INTEGER, STRING, StructField, StructType
from bayou.spark.expressions.session_semantics import matches_session

pytestmark = pytest.mark.spark

SCHEMA = StructType(
    (
        StructField(name="i", data_type=INTEGER),
        StructField(name="f", data_type=FLOAT),
        StructField(name="s", data_type=STRING),
        StructField(name="day", data_type=DATE),
    )
)


@pytest.fixture
def lenient(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("i = 1 AND s = 'a' AND i IN (1, NULL)", True),
        ("t.i < 7 OR s LIKE 'a%_b' OR s LIKE 'a%'", True),
        ("day = DATE'2024-01-05' OR i <=> NULL", True),
        ("s = 1", False),
        ("s IN ('1', 7)", False),
        ("i IN ('1', '7')", False),
        ("f = 16777217", False),
        ("day = s", False),
        ("day = '2024-01-05'", False),
        ("i LIKE '1%'", False),
        ("NOT (i > 0 AND s > 5)", False),
        ("unknown = 1", False),
        ("isnan(f) OR NOT isnan(t.f)", True),
        ("isnan(s)", False),
        ("isnan(i)", False),
        ("isnan(f + 1)", False),
    ],
)
def test_without_ansi_mode_the_kernel_compares_values_of_one_kind_only(lenient, condition, same):
    assert matches_session(lenient, parse_predicate(condition), (SCHEMA,)) is same


def test_without_ansi_mode_rows_are_deleted_that_spark_finds(lenient, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(
        path,
        pa.table(
            {
                "id": [1, 2, 3],
                "f": pa.array([16777216.0, 1.0, 2.0], pa.float32()),
                "s": ["x", " 2 ", "3"],
            }
        ),
    )
    for condition in ("f = 16777217", "s = 2"):
        expected = lenient.read.format("delta").load(path).where(condition).count()
        assert (
            lenient.sql(f"DELETE FROM delta.`{path}` WHERE {condition}").first()[0] == expected == 1
        )
    assert bayou.table(path).to_arrow()["id"].to_pylist() == [3]


def test_values_of_a_collated_column_are_compared_by_spark(spark, tmp_path):
    path = str(tmp_path / "t")
    values = "VALUES (1, 'ab'), (2, 'AB'), (3, 'x') AS t(id, n)"
    rows = spark.sql(f"SELECT id, CAST(n AS STRING COLLATE UTF8_LCASE) n FROM {values}")
    rows.write.format("delta").save(path)
    table, same = f"delta.`{path}`", "CAST('aB' AS STRING COLLATE UTF8_LCASE)"
    assert spark.sql(f"UPDATE {table} SET id = id + 10 WHERE n = 'aB'").first()[0] == 2
    merged = spark.sql(
        f"MERGE INTO {table} t USING (SELECT 9 id, {same} n) s ON t.n = s.n "
        "WHEN MATCHED THEN UPDATE SET id = t.id + 10 WHEN NOT MATCHED THEN INSERT *"
    ).first()
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (2, 0)
    assert spark.sql(f"DELETE FROM {table} WHERE n = 'aB'").first()[0] == 2
    assert spark.read.format("delta").load(path).count() == 1


def test_values_of_a_char_column_are_compared_by_spark(spark, tmp_path):
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (id INT, n CHAR(5)) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'ab'), (2, 'ab   '), (3, 'x')")
    assert spark.sql(f"UPDATE {table} SET id = id + 10 WHERE n = 'ab'").first()[0] == 2
    assert spark.sql(f"DELETE FROM {table} WHERE n = 'ab'").first()[0] == 2


def test_rows_are_changed_that_spark_s_own_functions_find(spark, tmp_path):
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (id INT, v DOUBLE) USING delta")
    spark.sql(f"INSERT INTO {table} SELECT id, exp(CAST(id AS INT)) FROM range(40)")
    assert spark.sql(f"UPDATE {table} SET id = id WHERE exp(id) = v").first()[0] == 40
    merged = spark.sql(
        f"MERGE INTO {table} t USING (SELECT CAST(id AS INT) id FROM range(20)) s "
        "ON t.id = s.id AND t.v = exp(s.id) WHEN MATCHED THEN UPDATE SET v = ln(t.v)"
    ).first()
    assert merged.num_updated_rows == 20
    assert spark.sql(f"DELETE FROM {table} WHERE exp(id) = v AND id > 5").first()[0] == 20
    assert spark.sql(f"SELECT * FROM {table} WHERE v = ln(exp(id))").count() == 20


@pytest.mark.parametrize(
    ("setting", "value", "expression"),
    [
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "CAST(d / e AS STRING)"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "CAST(d * e AS STRING)"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", "date_format(ts, 'SSSSSS')"),
        ("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "true", "CAST(1E10 AS STRING)"),
        (
            "spark.sql.timestampType",
            "TIMESTAMP_NTZ",
            "CAST(CAST('2024-01-05 10:00:00+02:00' AS TIMESTAMP) AS STRING)",
        ),
    ],
)
def test_values_follow_settings_that_change_expressions(
    spark, tmp_path, setting, value, expression
):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set(setting, value)
    path, types = str(tmp_path / "t"), "DECIMAL(38,18)"
    session.sql(
        f"SELECT 'x' v, CAST(7.777777777777777777 AS {types}) d, CAST(1.3333333333 AS {types}) e, "
        "TIMESTAMP'2024-02-05 01:02:03.089' ts"
    ).write.format("delta").save(path)
    expected = session.sql(f"SELECT {expression} FROM delta.`{path}`").first()[0]
    session.sql(f"UPDATE delta.`{path}` SET v = {expression}")
    assert session.sql(f"SELECT v FROM delta.`{path}`").first()[0] == expected


@pytest.fixture
def three_rows(lenient, tmp_path):
    path = str(tmp_path / "t")
    lenient.sql(
        "SELECT id, CAST(16777216 AS FLOAT) f, ' 2 ' s, DATE'2024-01-05' day, "
        "CAST(7.777777777777777777 AS DECIMAL(38,18)) d, "
        "CAST(1.3333333333333333 AS DECIMAL(38,18)) e FROM range(3)"
    ).write.format("delta").save(path)
    return path


def replace_where(session, path, condition):
    rows = session.read.format("delta").load(path).where("false")
    rows.write.format("delta").mode("overwrite").option("replaceWhere", condition).save(path)


@pytest.mark.parametrize(
    ("setting", "value", "condition", "problem"),
    [
        ("spark.sql.ansi.enabled", "false", "f = 16777217", "depend on ANSI mode, which is off"),
        ("spark.sql.ansi.enabled", "false", "s = 2", "depend on ANSI mode, which is off"),
        ("spark.sql.ansi.enabled", "false", "id < 2 AND s = 2", "depend on ANSI mode"),
        ("spark.sql.ansi.enabled", "false", "day = s", "depend on ANSI mode, which is off"),
        (
            "spark.sql.decimalOperations.allowPrecisionLoss",
            "false",
            "d / e > 5.8333333333333333",
            "depend on the session's setting spark.sql.decimalOperations.allowPrecisionLoss",
        ),
    ],
)
def test_rows_are_not_replaced_by_another_rule_than_the_session_s(
    lenient, three_rows, setting, value, condition, problem
):
    lenient.conf.set("spark.sql.ansi.enabled", "true")
    lenient.conf.set(setting, value)
    with pytest.raises(ArgumentError, match=f"replaceWhere: .* may {problem}"):
        replace_where(lenient, three_rows, condition)
    assert bayou.table(three_rows).to_arrow().num_rows == 3


def test_write_to_replaces_no_rows_by_another_rule_than_the_session_s(lenient, three_rows):
    rows = lenient.read.format("delta").load(three_rows).where("false")
    with pytest.raises(ArgumentError, match="replaceWhere: .* may depend on ANSI mode, which is"):
        rows.writeTo(f"delta.`{three_rows}`").overwrite(F.col("f") == 16777217)
    assert bayou.table(three_rows).to_arrow().num_rows == 3
    rows.writeTo(f"delta.`{three_rows}`").overwrite(F.col("id") == 1)
    assert bayou.table(three_rows).to_arrow().num_rows == 2


@pytest.mark.parametrize(
    "condition",
    [
        "day = '2024-01-05' AND id < 2",
        "id IN (0, 1) AND NOT day > '2024-01-06'",
        "day BETWEEN '2024-01-01' AND '2024-01-31' AND id <> 2",
        "NOT isnan(f) AND id <> 2",
    ],
)
def test_rows_are_replaced_where_every_setting_means_the_same(lenient, three_rows, condition):
    replace_where(lenient, three_rows, condition)
    assert bayou.table(three_rows).to_arrow()["id"].to_pylist() == [2]


def test_consecutive_strings_are_one_string_where_the_session_says_so(lenient, three_rows):
    lenient.conf.set("spark.sql.ansi.enabled", "true")
    lenient.conf.set("spark.sql.legacy.consecutiveStringLiterals.enabled", "true")
    lenient.sql(f"UPDATE delta.`{three_rows}` SET s = 'a''b' WHERE id = 1")
    assert bayou.table(three_rows).to_arrow(filter="id = 1")["s"].to_pylist() == ["ab"]
    with pytest.raises(ArgumentError, match="consecutiveStringLiterals"):
        replace_where(lenient, three_rows, "s = 'a''b'")
