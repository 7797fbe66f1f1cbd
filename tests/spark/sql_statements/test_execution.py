from __future__ import annotations

import datetime as dt
import os

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException

import bayou
from bayou.errors import StatementError, TableNotFoundError
from bayou.spark import disable, enable, sql
from bayou.spark.delta_table.describe import DETAIL_SCHEMA, HISTORY_SCHEMA

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Three versions with 1, 2 and 3 rows; version v is of 2024-01-05, v hours after midnight."""
    table = tmp_path_factory.mktemp("tables") / "numbers of `a"
    for version in range(3):
        bayou.write(str(table), pa.table({"id": [version], "name": [f"n{version}"]}))
        at = dt.datetime(2024, 1, 5, version, tzinfo=dt.UTC).timestamp()
        os.utime(table / "_delta_log" / f"{version:020}.json", (at, at))
    return table


@pytest.fixture
def quoted(path):
    return "delta.`{}`".format(str(path).replace("`", "``"))


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


def test_a_query_reads_a_path_at_its_versions(spark, quoted):
    assert ids(sql(spark, f"SELECT * FROM {quoted}")) == [0, 1, 2]
    assert ids(sql(spark, f"SELECT id FROM {quoted} VERSION AS OF 0 WHERE name = 'n0'")) == [0]
    both = sql(
        spark,
        f"SELECT new.id FROM {quoted} new LEFT ANTI JOIN {quoted} FOR VERSION AS OF 1 old "
        "ON new.id = old.id",
    )
    assert ids(both) == [2]


@pytest.mark.parametrize(
    "time",
    [
        "'2024-01-05 01:30:00'",
        "TIMESTAMP'2024-01-05 02:30:00' - INTERVAL 1 HOUR",
        "to_timestamp('2024-01-05 01:00')",
    ],
)
def test_a_query_reads_a_path_at_a_time(spark, quoted, time):
    assert ids(sql(spark, f"SELECT * FROM {quoted} TIMESTAMP AS OF {time} t WHERE t.id >= 0")) == [
        0,
        1,
    ]


def test_time_travel_uses_offsets_whatever_the_session_s_timestamp_type(spark, quoted):
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    for time in ("'2024-01-05 01:30:00Z'", "'2024-01-04 17:30:00'"):
        assert ids(sql(session, f"SELECT * FROM {quoted} TIMESTAMP AS OF {time}")) == [0, 1]


def test_a_version_can_stand_in_the_path(spark, path, tmp_path):
    plain = tmp_path / "plain"
    os.symlink(path, plain)
    assert ids(sql(spark, f"SELECT * FROM delta.`{plain}@v0`")) == [0]
    assert ids(sql(spark, f"SELECT * FROM delta.`{plain}@20240105013000000`")) == [0, 1]


def test_braces_arguments_and_frames_mean_what_spark_means(spark, quoted):
    asked = sql(spark, f"SELECT id, '{{x}}' AS b FROM {quoted} WHERE id = :id", {"id": 1})
    assert [tuple(r) for r in asked.collect()] == [(1, "{x}")]
    joined = sql(spark, f"SELECT id FROM {quoted} JOIN {{other}} USING (id)", other=spark.range(2))
    assert ids(joined) == [0, 1]


def test_a_temporary_view_keeps_its_version(spark, quoted):
    query = f"SELECT id FROM {quoted} VERSION AS OF 0"
    sql(spark, f"CREATE OR REPLACE TEMP VIEW first (number) AS {query}")
    assert [r["number"] for r in spark.sql("SELECT number FROM first").collect()] == [0]
    assert spark.catalog.dropTempView("first")


def test_a_name_of_the_catalog_is_read_where_its_table_is(spark, path, quoted):
    spark.sql("DROP TABLE IF EXISTS named")
    spark.sql(f"CREATE TABLE named (id BIGINT, name STRING) USING delta LOCATION '{path}'")
    try:
        assert ids(sql(spark, "SELECT named.id FROM named WHERE named.name <> 'n9'")) == [0, 1, 2]
        assert ids(sql(spark, "SELECT * FROM default.named VERSION AS OF 1")) == [0, 1]
        assert sql(spark, "DESCRIBE HISTORY named").count() == 3
        assert sql(spark, "DESCRIBE DETAIL named").first()["name"] == "named"
        hidden = sql(spark, "WITH named AS (SELECT 7 AS id) SELECT id FROM named")
        assert ids(hidden) == [7]
    finally:
        spark.sql("DROP TABLE named")


def test_a_common_table_expression_can_have_the_name_of_the_table_that_it_reads(spark, path):
    spark.sql(f"CREATE TABLE named (id BIGINT, name STRING) USING delta LOCATION '{path}'")
    try:
        own = "WITH named AS (SELECT id FROM named WHERE id > 1) SELECT id FROM named"
        assert ids(sql(spark, own)) == [2]
        one = "WITH named AS (SELECT 1 AS id) SELECT id FROM named"
        assert ids(sql(spark, f"SELECT id FROM named WHERE id IN ({one})")) == [1]
        sample = "SELECT named.id FROM named TABLESAMPLE (100 PERCENT) WHERE named.id > 0"
        assert ids(sql(spark, sample)) == [1, 2]
    finally:
        spark.sql("DROP TABLE named")


def test_a_table_can_have_read_options(spark, path, quoted):
    spark.sql(f"CREATE TABLE named (id BIGINT, name STRING) USING delta LOCATION '{path}'")
    try:
        options = "WITH ('versionAsOf' = '0')"
        assert ids(sql(spark, f"SELECT named.id FROM named {options} WHERE named.id < 9")) == [0]
        assert ids(sql(spark, f"SELECT n.id FROM named {options} AS n WHERE n.id < 9")) == [0]
        sampled = f"SELECT named.id FROM named {options} TABLESAMPLE (100 PERCENT)"
        assert ids(sql(spark, sampled)) == [0]
        joined = f"SELECT p.id FROM {quoted} WITH (versionAsOf = 1) p JOIN named USING (id)"
        assert ids(sql(spark, joined)) == [0, 1]
        assert ids(sql(spark, f"SELECT id FROM {quoted} WITH ('filter' = 'id > 1')")) == [2]
        inner = f"SELECT id FROM named WHERE id IN (SELECT id FROM named {options})"
        assert ids(sql(spark, inner)) == [0]
        both = f"SELECT id FROM named VERSION AS OF 1 {options}"
        assert ids(sql(spark, both)) == [0, 1]
    finally:
        spark.sql("DROP TABLE named")


def test_history_is_delta_spark_s_frame(spark, quoted):
    history = sql(spark, f"DESCRIBE HISTORY {quoted} LIMIT 2")
    assert history.schema == HISTORY_SCHEMA
    rows = history.collect()
    assert [r["version"] for r in rows] == [2, 1]
    assert rows[0]["timestamp"] == dt.datetime(2024, 1, 5, 2)
    assert rows[0]["operation"] == "WRITE"
    assert rows[0]["operationParameters"]["mode"] == "Append"
    assert rows[0]["operationMetrics"]["numOutputRows"] == "1"
    assert rows[0]["isBlindAppend"] is True


def test_detail_is_delta_spark_s_frame(spark, path, quoted):
    detail = sql(spark, f"DESCRIBE DETAIL {quoted}")
    assert detail.schema == DETAIL_SCHEMA
    row = detail.first()
    files = [f for f in path.iterdir() if f.suffix == ".parquet"]
    assert (row["format"], row["numFiles"]) == ("delta", 3)
    assert row["sizeInBytes"] == sum(f.stat().st_size for f in files)
    assert row["lastModified"] == dt.datetime(2024, 1, 5, 2)
    assert (row["minReaderVersion"], row["minWriterVersion"]) == (1, 2)
    assert row["tableFeatures"] == ["appendOnly", "invariants"]


@pytest.mark.slow
def test_an_enabled_session_s_own_sql_takes_the_same(spark, quoted):
    assert ids(spark.sql(f"SELECT * FROM {quoted} VERSION AS OF 0")) == [0]
    assert ids(spark.sql("SELECT id FROM {f} WHERE id > :n", {"n": 1}, f=spark.range(3))) == [2]
    assert spark.sql(f"DESCRIBE HISTORY {quoted}").count() == 3
    with pytest.raises(ParseException):
        spark.sql("SELECT 'open")
    disable(spark)
    try:
        with pytest.raises(AnalysisException, match="direct query on files"):
            spark.sql(f"SELECT * FROM {quoted}")
        assert ids(sql(spark, f"SELECT * FROM {quoted} VERSION AS OF 0")) == [0]
    finally:
        enable(spark)


def test_other_statements_go_to_spark(spark):
    assert ids(sql(spark, "SELECT id FROM range(3)")) == [0, 1, 2]
    assert sql(spark, "SHOW TABLES").columns == ["namespace", "tableName", "isTemporary"]


def test_what_is_not_a_delta_table_is_said(spark, tmp_path):
    with pytest.raises(
        StatementError, match="Table nothing: the session catalog has no table of this name"
    ):
        sql(spark, "DESCRIBE HISTORY nothing")
    with pytest.raises(TableNotFoundError):
        sql(spark, f"DESCRIBE DETAIL delta.`{tmp_path}`")
    with pytest.raises(StatementError, match="isn't a timestamp"):
        sql(spark, f"SELECT * FROM delta.`{tmp_path}` TIMESTAMP AS OF NULL")
    with pytest.raises(StatementError, match="'soon': the expression isn't a timestamp"):
        sql(spark, f"SELECT * FROM delta.`{tmp_path}` TIMESTAMP AS OF 'soon'")
