"""SQL whose meaning a session's settings change: variables, names in double quotes, raw strings."""

import datetime as dt
import time

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, StatementError, VersionNotFoundError
from bayou.spark import DeltaTable
from bayou.spark.expressions.session_grammar import session_sql

pytestmark = pytest.mark.spark

ROWS = {"id": [1, 2, 3], "s": ["a", "b\\d", "bd"]}


@pytest.fixture
def session(spark):
    """Makes a session with settings."""

    def make(**settings):
        new = spark.newSession()
        for name, value in {"spark.sql.session.timeZone": "UTC", **settings}.items():
            new.conf.set(name, value)
        return new

    return make


@pytest.fixture
def path(tmp_path):
    where = str(tmp_path / "t")
    bayou.write(where, pa.table(ROWS))
    return where


def ids(path):
    return sorted(bayou.table(path).to_arrow()["id"].to_pylist())


QUOTED = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
RAW = {"spark.sql.parser.escapedStringLiterals": "true"}


def test_a_name_in_double_quotes_is_no_string_if_the_session_says_so(session, path):
    spark, table = session(**QUOTED), f"delta.`{path}`"
    assert spark.sql(f"""UPDATE {table} SET "id" = "id" + 10 WHERE "s" <> 'a'""").first()[0] == 2
    assert spark.sql(f"""DELETE FROM {table} WHERE "s" <> 'a' AND "id" = 12""").first()[0] == 1
    DeltaTable.forPath(spark, path).delete("""t."s" = 'x' OR "id" <> "id" """.replace("t.", ""))
    spark.sql(f"""INSERT INTO {table} REPLACE WHERE "id" = 13 SELECT 13L, 'new'""")
    frame = spark.createDataFrame([(1, "new")], "id long, s string")
    frame.write.format("delta").mode("overwrite").option("replaceWhere", '"id" = 1').save(path)
    assert bayou.table(path).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "s": "new"},
        {"id": 13, "s": "new"},
    ]
    merged = spark.sql(
        f'MERGE INTO {table} "x" USING (SELECT 13 AS "id") "y" ON "x"."id" = "y"."id" '
        "WHEN MATCHED THEN DELETE"
    ).first()
    assert merged.num_deleted_rows == 1
    assert ids(path) == [1]


def test_variables_are_substituted_as_in_spark(session, path):
    spark, table = session(name="b%", **{"from": "${first}", "first": "bd"}), f"delta.`{path}`"
    assert spark.sql(f"DELETE FROM {table} WHERE s >= '${{none}}' AND id < 0").first()[0] == 0
    assert spark.sql(f"DELETE FROM {table} WHERE s >= '${{from}}'").first()[0] == 1
    assert ids(path) == [1, 2]
    DeltaTable.forPath(spark, path).delete("s LIKE '${hiveconf:name}'")
    assert ids(path) == [1]
    spark.conf.set("name", "a")
    frame = spark.createDataFrame([(9, "a")], "id long, s string")
    writer = frame.write.format("delta").mode("overwrite")
    writer.option("replaceWhere", "s = '${name}'").save(path)
    assert ids(path) == [9]
    spark.conf.set("spark.sql.variable.substitute", "false")
    assert spark.sql(f"DELETE FROM {table} WHERE s = '${{name}}'").first()[0] == 0


@pytest.mark.parametrize(
    "variable",
    ["env:HOME", "env:NONE", "system:java.version", "system:none", "hivevar:v", "v", "none", "x:y"],
)
def test_each_kind_of_variable_has_the_value_that_spark_gives_it(session, variable):
    spark, text = session(v="a'b"), f'r"${{{variable}}}"'
    (value,) = spark.range(1).selectExpr(text).first()
    assert session_sql(spark, text) == f'r"{value}"'


def test_a_variable_that_refers_to_itself_is_an_error(session):
    spark = session(a="${b}", b="${a}")
    with pytest.raises(StatementError, match="refers to itself"):
        session_sql(spark, "${a}")


def test_time_travel_evaluates_expressions_in_the_session_s_grammar(session, path):
    query = f"SELECT id FROM delta.`{path}` TIMESTAMP AS OF current_timestamp()"
    with pytest.raises(VersionNotFoundError, match="is after the latest version 0"):
        session(**QUOTED).sql(query)


def test_optimize_selects_partitions_in_the_session_s_grammar(session, tmp_path):
    spark, path = session(**QUOTED), str(tmp_path / "t")
    for _ in range(2):
        bayou.write(path, pa.table({"id": [1], "day": ["x"]}), partition_by=["day"])
    optimized = DeltaTable.forPath(spark, path).optimize().where("\"day\" = 'x'")
    assert optimized.executeCompaction().first().metrics.numFilesRemoved == 2


STRINGS = ["${HOME} ${x}", "it's", "\\d", 'a"b', "$\\{", "plain"]


@pytest.mark.parametrize("settings", [{}, RAW, QUOTED], ids=["default", "raw", "quoted"])
def test_strings_in_parameters_stay_as_they_are(session, path, settings):
    spark, table = session(x="secret", **settings), f"delta.`{path}`"
    for number, string in enumerate(STRINGS, 10):
        spark.sql(f"INSERT INTO {table} VALUES (:id, :s)", {"id": number, "s": string})
        same = {"s": string, "id": number}
        changed = spark.sql(f"UPDATE {table} SET s = :s WHERE s = :s AND id = :id", same)
        assert changed.first()[0] == 1
    found = bayou.table(path).to_arrow(filter="id >= 10").sort_by("id")["s"].to_pylist()
    assert found == STRINGS


def test_a_string_without_escapes_is_compared_as_spark_does(session, path):
    spark, table = session(**RAW), f"delta.`{path}`"
    assert spark.sql(f"UPDATE {table} SET s = 'x\\y' WHERE s = 'b\\d'").first()[0] == 1
    DeltaTable.forPath(spark, path).delete("s = 'x\\y'")
    assert ids(path) == [1, 3]
    frame = spark.createDataFrame([(1, "a")], "id long, s string")
    writer = frame.write.format("delta").mode("overwrite")
    with pytest.raises(ArgumentError, match="escapedStringLiterals"):
        writer.option("replaceWhere", "s = 'b\\d'").save(path)


def test_a_datetime_without_a_zone_is_in_the_zone_of_the_process(session, tmp_path):
    spark = session(**{"spark.sql.session.timeZone": "America/Los_Angeles"})
    path, at = str(tmp_path / "t"), dt.datetime(2024, 1, 5, 2)
    instant = dt.datetime.fromtimestamp(time.mktime(at.timetuple()), dt.UTC)
    bayou.write(path, pa.table({"ts": [instant, instant + dt.timedelta(hours=1)]}))
    deleted = spark.sql(f"DELETE FROM delta.`{path}` WHERE ts <= :at", {"at": at})
    assert deleted.first()[0] == 1
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (?)", [at])
    assert bayou.table(path).to_arrow(filter="ts IS NOT NULL")["ts"].to_pylist()[-1] == instant
