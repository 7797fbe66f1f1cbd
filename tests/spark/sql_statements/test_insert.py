from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import bayou
from bayou.errors import ArgumentError, BayouError, SchemaError, StatementError
from bayou.spark.native_read.read_planner import READER

pytestmark = pytest.mark.spark


def test_insert_takes_columns_by_position_by_list_and_by_name(numbers):
    run = numbers(1)
    run("INSERT INTO {t} VALUES (1, 1, 'a')")
    run("INSERT INTO TABLE {t} (name, id) SELECT 'b', 2")
    run("INSERT INTO {t} BY NAME SELECT 'c' AS name, 3L AS id, 1 AS day")
    run("INSERT INTO {t} SELECT * FROM {t} WHERE id = 3")
    assert run.rows() == [(0, 0, "n0"), (1, 1, "a"), (2, None, "b"), (3, 1, "c"), (3, 1, "c")]
    assert run.last()["operationParameters"]["mode"] == "Append"


def test_insert_with_too_few_or_unknown_columns_says_so(numbers):
    run = numbers(1)
    with pytest.raises(SchemaError, match="has 2 columns, but 3 are expected"):
        run("INSERT INTO {t} SELECT 1, 2")
    with pytest.raises(SchemaError, match="no column 'what'"):
        run("INSERT INTO {t} BY NAME SELECT 1 AS what")
    with pytest.raises(SchemaError, match="UNRESOLVED_INSERT_REPLACE_USING_COLUMN"):
        run("INSERT INTO {t} REPLACE USING (what) SELECT 1, 2, 'x'")


def test_insert_with_schema_evolution_adds_columns(numbers):
    run = numbers(1)
    run("INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 5L AS id, 1.5D AS more")
    assert run.rows() == [(0, 0, "n0", None), (5, None, None, 1.5)]


def test_insert_with_schema_evolution_gives_void_columns_a_type(run):
    frame = run.spark.sql("SELECT 1L AS id, NULL AS v, named_struct('a', 1, 'b', NULL) AS s")
    frame.write.format("delta").save(run.path)
    run("INSERT INTO {t} VALUES (2, NULL, NULL)")
    values = "3, 'x', named_struct('a', 3, 'b', array(7))"
    with pytest.raises(SchemaError, match="DELTA_METADATA_MISMATCH"):
        run(f"INSERT INTO {{t}} VALUES ({values})")
    run(f"INSERT WITH SCHEMA EVOLUTION INTO {{t}} VALUES ({values})")
    more = run.spark.sql("SELECT 4L AS id, 'y' AS v, named_struct('a', 4, 'b', array(8)) AS s")
    more.write.format("delta").mode("append").save(run.path)
    assert run.rows() == [
        (1, None, {"a": 1, "b": None}),
        (2, None, None),
        (3, "x", {"a": 3, "b": [7]}),
        (4, "y", {"a": 4, "b": [8]}),
    ]
    found = run("SELECT id, v, s.b FROM {t} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [
        (1, None, None),
        (2, None, None),
        (3, "x", [7]),
        (4, "y", [8]),
    ]


def test_rows_with_arrays_of_void_are_refused(run):
    frame = run.spark.sql("SELECT 1L AS id, array(NULL) AS a")
    with pytest.raises(SchemaError, match="DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"):
        frame.write.format("delta").save(run.path)


def test_insert_overwrite_replaces_everything_or_a_partition(numbers):
    run = numbers(4, partition_by=["day"])
    run("INSERT OVERWRITE {t} PARTITION (day = 1) SELECT 9, 'nine'")
    assert run.rows() == [(0, 0, "n0"), (2, 0, "n2"), (9, 1, "nine")]
    assert "<=> 1" in run.last()["operationParameters"]["predicate"]
    run("INSERT OVERWRITE TABLE {t} VALUES (1, 2, 'x')")
    assert run.rows() == [(1, 2, "x")]


@pytest.mark.parametrize(
    ("column", "rows", "constant", "expected"),
    [
        ("FLOAT", "(1, 0.1F), (2, 2.5F)", "0.1", 0.10000000149011612),
        ("FLOAT", "(1, 0.1F), (2, 2.5F)", "0.1D", 0.10000000149011612),
        ("FLOAT", "(1, 0.1F), (2, 2.5F)", "'0.1'", 0.10000000149011612),
        ("FLOAT", "(1, -1e-5F), (2, 2.5F)", "-1e-5", -9.999999747378752e-06),
        ("FLOAT", "(1, FLOAT('Infinity')), (2, 2.5F)", "'Infinity'", float("inf")),
        ("FLOAT", "(1, NULL), (2, 2.5F)", "NULL", None),
        ("DECIMAL(5,2)", "(1, 1.56), (2, 2.5)", "1.555", Decimal("1.56")),
        ("CHAR(3)", "(1, 'a'), (2, 'b')", "'a'", "a  "),
        ("CHAR(3)", "(1, 'a'), (2, 'b')", "'a  '", "a  "),
        ("CHAR(3)", "(1, '1'), (2, 'b')", "01", "1  "),
        ("CHAR(3)", "(1, NULL), (2, 'b')", "NULL", None),
        ("VARCHAR(3)", "(1, 'a'), (2, 'b')", "'a'", "a"),
        ("INT", "(1, -1), (2, 2)", "'-01'", -1),
        ("BIGINT", "(1, NULL), (2, 2)", "NULL", None),
        ("BOOLEAN", "(1, true), (2, false)", "'t'", True),
        ("BOOLEAN", "(1, false), (2, true)", "FALSE", False),
        (
            "DATE",
            "(1, DATE'2020-01-05'), (2, DATE'2020-01-06')",
            "TIMESTAMP'2020-01-05 10:00:00'",
            dt.date(2020, 1, 5),
        ),
        ("DATE", "(1, NULL), (2, DATE'2020-01-06')", "NULL", None),
    ],
)
def test_insert_overwrite_replaces_the_partition_of_the_constant_s_value(
    run, column, rows, constant, expected
):
    run(f"CREATE TABLE {{t}} (id INT, p {column}) USING delta PARTITIONED BY (p)")
    run(f"INSERT INTO {{t}} VALUES {rows}")
    other = run("SELECT * FROM {t} WHERE id = 2").first()
    run(f"INSERT OVERWRITE {{t}} PARTITION (p = {constant}) SELECT 9")
    found = run("SELECT * FROM {t} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [tuple(other), (9, expected)]
    removed = run.last()["operationMetrics"]
    assert (removed["numRemovedFiles"], removed["numFiles"]) == ("1", "1")


@pytest.mark.parametrize("check", ["true", "false"])
def test_insert_overwrite_refuses_a_constant_that_is_no_value_of_the_column(run, check):
    run("CREATE TABLE {t} (id INT, p INT) USING delta PARTITIONED BY (p)")
    run("INSERT INTO {t} VALUES (1, 1)")
    setting = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
    run.spark.conf.set(setting, check)
    try:
        with pytest.raises(StatementError, match="1.7 in PARTITION isn't a value of the column"):
            run("INSERT OVERWRITE {t} PARTITION (p = 1.7) SELECT 9")
    finally:
        run.spark.conf.unset(setting)
    assert run.rows() == [(1, 1)]


def test_insert_overwrite_replaces_char_partitions_with_and_without_padding(run):
    run("CREATE TABLE {t} (id INT, p CHAR(3)) USING delta PARTITIONED BY (p)")
    ids = pa.array([1, 2, 3], pa.int32())
    bayou.write(run.path, pa.table({"id": ids, "p": ["a", "a  ", "b"]}))
    run("INSERT OVERWRITE {t} PARTITION (p = 'a') SELECT 9")
    assert [(i, p.rstrip()) for i, p in run.rows()] == [(3, "b"), (9, "a")]
    with pytest.raises(BayouError, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
        run("INSERT OVERWRITE {t} PARTITION (p = 'abcd') SELECT 9")


def test_dynamic_overwrite_replaces_char_partitions_with_and_without_padding(run):
    run("CREATE TABLE {t} (id INT, p CHAR(3), q INT) USING delta PARTITIONED BY (p, q)")
    rows = {"id": [1, 2, 3, 4], "p": ["a", "a  ", "b", None], "q": [0, 0, 0, 0]}
    types = pa.schema({"id": pa.int32(), "p": pa.string(), "q": pa.int32()})
    bayou.write(run.path, pa.table(rows, schema=types))
    run.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        run("INSERT OVERWRITE {t} SELECT id + 10, p, q FROM {t} WHERE id = 1")  # Spark pads p
        assert [(i, p and p.rstrip()) for i, p, _ in run.rows()] == [(3, "b"), (4, None), (11, "a")]
        run("INSERT OVERWRITE {t} VALUES (21, 'a', 0), (22, 'a', 1), (24, NULL, 0)")
    finally:
        run.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert run.rows() == [(3, "b", 0), (21, "a", 0), (22, "a", 1), (24, None, 0)]


def test_an_overwrite_of_one_partition_is_dynamic_where_the_session_says_so(numbers):
    run = numbers(4, partition_by=["day"])
    conf, enabled = run.spark.conf, "spark.databricks.delta.dynamicPartitionOverwrite.enabled"
    conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        run("INSERT OVERWRITE {t} PARTITION (day = 1) SELECT 9, 'nine' WHERE false")
        assert len(run.rows()) == 4  # only partitions with new rows are replaced
        conf.set(enabled, "false")
        with pytest.raises(ArgumentError, match="DELTA_DYNAMIC_PARTITION_OVERWRITE_DISABLED"):
            run("INSERT OVERWRITE {t} PARTITION (day = 1) SELECT 9, 'nine'")
    finally:
        conf.unset("spark.sql.sources.partitionOverwriteMode")
        conf.unset(enabled)
    run("INSERT OVERWRITE {t} PARTITION (day = 1) SELECT 9, 'nine' WHERE false")
    assert run.rows() == [(0, 0, "n0"), (2, 0, "n2")]


@pytest.mark.parametrize("session", ["static", "dynamic"])
def test_an_option_of_an_overwrite_of_one_partition_precedes_the_session_s_mode(numbers, session):
    run = numbers(4, partition_by=["day"])
    run.spark.conf.set("spark.sql.sources.partitionOverwriteMode", session)
    values = "PARTITION (day = 1) SELECT 9, 'nine' WHERE false"
    try:
        run(f"INSERT OVERWRITE {{t}} WITH ('partitionOverwriteMode' = 'dynamic') {values}")
        assert len(run.rows()) == 4  # only partitions with new rows are replaced
        run(f"INSERT OVERWRITE {{t}} WITH ('PARTITIONOVERWRITEMODE' = 'STATIC') {values}")
    finally:
        run.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert run.rows() == [(0, 0, "n0"), (2, 0, "n2")]


def test_insert_overwrites_dynamic_partitions_where_the_session_says_so(numbers):
    run = numbers(4, partition_by=["day"])
    run.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        run("INSERT OVERWRITE {t} SELECT 8, 0, 'eight'")
    finally:
        run.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert run.rows() == [(1, 1, "n1"), (3, 1, "n3"), (8, 0, "eight")]


def test_insert_replace_where_replaces_the_rows_of_a_condition(numbers):
    run = numbers(4)
    run("INSERT INTO {t} REPLACE WHERE id >= 2 VALUES (2, 0, 'new')")
    assert run.rows() == [(0, 0, "n0"), (1, 1, "n1"), (2, 0, "new")]


def test_default_among_values_is_the_column_s(run):
    run(
        "CREATE TABLE {t} (id INT, n BIGINT GENERATED ALWAYS AS IDENTITY, d STRING DEFAULT 'x') "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    run("INSERT INTO {t} VALUES (1, DEFAULT, DEFAULT), (2, DEFAULT, 'y')")
    assert [(i, d) for i, _, d in run.rows()] == [(1, "x"), (2, "y")]
    with pytest.raises(StatementError, match="in all rows, or in none"):
        run("INSERT INTO {t} VALUES (1, DEFAULT, 'a'), (2, 4, 'y')")


@pytest.mark.parametrize("kind", ["ALWAYS AS IDENTITY", "BY DEFAULT AS IDENTITY", "ALWAYS AS (7)"])
def test_a_row_of_defaults_has_the_values_that_a_table_generates(run, kind):
    run(
        f"CREATE TABLE {{t}} (id BIGINT GENERATED {kind}, d STRING DEFAULT 'x') "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    run("INSERT INTO {t} VALUES (DEFAULT, DEFAULT)")
    assert run.rows() == [(7 if kind == "ALWAYS AS (7)" else 1, "x")]
    with pytest.raises(StatementError, match="Name another column"):
        run("INSERT INTO {t} (id) VALUES (DEFAULT)")


FOREIGN = (
    "reflect('java.lang.System', 'setProperty', 'bayou.foreign', 'ran')",
    "1), (2",
    "java_method('java.lang.System', 'setProperty', 'bayou.foreign', 'ran')",
    "(SELECT 1)",
)


@pytest.mark.parametrize("text", FOREIGN)
def test_a_default_of_a_foreign_log_is_not_run_by_spark(run, tmp_path, text):
    run(
        "CREATE TABLE {t} (id INT, d STRING DEFAULT 'harmless') "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    run("INSERT INTO {t} VALUES (1, 'a')")
    (log,) = tmp_path.rglob("00000000000000000000.json")
    foreign = json.dumps(json.dumps(text)[1:-1])[1:-1]
    log.write_text(log.read_text().replace("'harmless'", foreign))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    for statement in (
        "INSERT INTO {t} VALUES (2, DEFAULT), (3, 'x')",
        "UPDATE {t} SET d = DEFAULT WHERE rand() < 2",
        "MERGE INTO {t} t USING {t} s ON rand() < 2 WHEN MATCHED THEN UPDATE SET d = DEFAULT",
    ):
        with pytest.raises(BayouError):
            run(statement)
    jvm = run.spark.sparkContext._jvm
    assert jvm.java.lang.System.getProperty("bayou.foreign") is None


def test_defaults_of_each_type_become_literals(run):
    run(
        "CREATE TABLE {t} (id INT, s STRING DEFAULT 'it\\\\ ''s', d DATE DEFAULT DATE'2024-01-05', "
        "x DOUBLE DEFAULT 0.1, n DECIMAL(9, 2) DEFAULT 1.5, b BOOLEAN DEFAULT true, "
        "r BINARY DEFAULT X'00ff', l BIGINT DEFAULT -3) "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    names = "s, d, x, n, b, r, l"
    run(f"INSERT INTO {{t}} (id, {names}) VALUES (1, {', '.join(['DEFAULT'] * 7)})")
    row = ", ".join(["DEFAULT"] * 7)
    nulls = ", ".join(["NULL"] * 7)
    run(f"INSERT INTO {{t}} (id, {names}) VALUES (2, {row}), (3, {nulls})")
    first, second, _ = run.rows()
    assert first[1:] == second[1:]
    assert first[2:] == (dt.date(2024, 1, 5), 0.1, Decimal("1.50"), True, b"\x00\xff", -3)


def test_parameters_and_frames_stand_in_statements(numbers):
    run = numbers(1)
    text = "INSERT INTO {t} SELECT id + :n, 0, :s FROM {f}"
    run(text, {"n": 5, "s": "it's"}, f=run.spark.range(2))
    assert run.rows() == [(0, 0, "n0"), (5, 0, "it's"), (6, 0, "it's")]
    run("DELETE FROM {t} WHERE id IN (?) OR name = ?", [6, "n0"])
    assert run.rows() == [(5, 0, "it's")]
    with pytest.raises(StatementError, match="parameter :x has no value"):
        run("DELETE FROM {t} WHERE id IN (:x)", {"y": 1})


def test_values_of_parameters_become_literals_of_their_types(run):
    run("CREATE TABLE {t} (id INT, d DATE, ts TIMESTAMP, b BINARY, x DOUBLE) USING delta")
    at = dt.datetime(2024, 1, 5, 10, 30, tzinfo=dt.UTC)
    values = {"d": dt.date(2024, 1, 5), "ts": at, "b": b"\x00\xff", "x": 0.1}
    run("INSERT INTO {t} VALUES (1, :d, :ts, :b, :x)", values)
    assert run.rows() == [(1, dt.date(2024, 1, 5), at, b"\x00\xff", 0.1)]


def test_inserts_into_tables_of_other_formats_are_spark_s(numbers):
    run = numbers(2)
    run.spark.sql("CREATE TABLE plain (id BIGINT) USING parquet")
    try:
        run("INSERT INTO plain SELECT id FROM {t}")
        assert run.spark.table("plain").count() == 2
    finally:
        run.spark.sql("DROP TABLE plain")


@pytest.fixture
def days(numbers):
    """Makes a table of string partitions `1`, `01` and ` 1`, each with two hours."""

    def made():
        run = numbers(0)
        run.spark.sql(
            "SELECT id, element_at(array('1', '01', ' 1'), int(id % 3 + 1)) AS day, id % 2 AS hour "
            "FROM range(6)"
        ).write.format("delta").partitionBy("day", "hour").mode("overwrite").option(
            "overwriteSchema", "true"
        ).save(run.path)
        return run

    return made


def test_a_number_as_the_value_of_a_string_partition_replaces_no_other_partition(days):
    run = days()
    run("INSERT OVERWRITE {t} PARTITION (day = 01, hour) SELECT 9, 0")
    assert [(i, d) for i, d, _ in run.rows()] == [
        (1, "01"),
        (2, " 1"),
        (4, "01"),
        (5, " 1"),
        (9, "1"),
    ]


def test_a_dynamic_overwrite_with_a_partition_value_keeps_other_partitions(days):
    run = days()
    run.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        run("INSERT OVERWRITE {t} PARTITION (day = '1', hour) SELECT 9, 0L")
    finally:
        run.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert [i for i, _, _ in run.rows()] == [1, 2, 3, 4, 5, 9]


@pytest.mark.parametrize(
    "partition",
    [
        "(day = '1', hour = 0) IF NOT EXISTS",
        "(day = '1' OR true, hour)",
        "(day = upper('1'), hour)",
        "(day = '1', DAY = '2', hour)",
        "(id = 1)",
    ],
)
def test_an_insert_refuses_partitions_that_spark_refuses(days, partition):
    run = days()
    with pytest.raises(StatementError):
        run(f"INSERT OVERWRITE {{t}} PARTITION {partition} SELECT 9")
    assert len(run.rows()) == 6


@pytest.mark.parametrize(
    "statement",
    [
        "WITH c AS (SELECT 7L AS id, 1L AS day, 'x' AS name) INSERT INTO {t} SELECT * FROM c",
        "WITH c AS (SELECT 7L AS id, 1L AS day, 'x' AS name) INSERT OVERWRITE {t} SELECT * FROM c",
        "FROM VALUES (7L, 1L, 'x') AS c(a, b, c) INSERT INTO TABLE {t} SELECT a, b, c",
        "FROM {t} INSERT OVERWRITE TABLE {t} SELECT * WHERE id = 1",
    ],
)
def test_an_insert_after_a_clause_neither_loses_its_rows_nor_the_table(numbers, statement):
    run = numbers(2)
    with pytest.raises(StatementError, match="Start with INSERT"):
        run(statement)
    assert run.rows() == [(0, 0, "n0"), (1, 1, "n1")]


@pytest.mark.parametrize("overwrite", [False, True])
def test_spark_writes_no_files_into_a_table_behind_a_view_or_a_frame(numbers, overwrite):
    run = numbers(2)
    frame = run.spark.read.format("delta").load(run.path)
    frame.createOrReplaceTempView("of_numbers")
    verb = "OVERWRITE" if overwrite else "INTO"
    with pytest.raises(AnalysisException):
        run(f"INSERT {verb} of_numbers VALUES (7L, 1L, 'x')")
    with pytest.raises(AnalysisException):
        run(f"INSERT {verb} {{frame}} VALUES (7L, 1L, 'x')", frame=frame)
    with pytest.raises(AnalysisException):
        run.spark.sql("SELECT 7L, 1L, 'x'").write.insertInto("of_numbers", overwrite)
    assert run.rows() == [(0, 0, "n0"), (1, 1, "n1")]


@pytest.mark.parametrize("option", [("versionAsOf", "0"), ("filter", "id = 1")])
def test_an_insert_into_a_view_of_other_rows_than_the_table_s_replaces_none(numbers, option):
    run = numbers(2)
    run.spark.conf.set(READER, "source")
    try:
        frame = run.spark.read.format("delta").option(*option).load(run.path)
        frame.createOrReplaceTempView("of_numbers")
        with pytest.raises(AnalysisException, match="Insert into the table"):
            run("INSERT OVERWRITE of_numbers VALUES (7L, 1L, 'x')")
    finally:
        run.spark.conf.unset(READER)
    assert run.rows() == [(0, 0, "n0"), (1, 1, "n1")]


def test_an_overwrite_in_another_zone_removes_only_the_rows_that_spark_would(run):
    run("CREATE TABLE {t} (id INT, ts TIMESTAMP) USING delta")
    run("INSERT INTO {t} VALUES (1, TIMESTAMP'2024-01-05 03:00:00Z')")
    run.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with pytest.raises(ArgumentError, match="Compare the column with timestamps"):
            run("INSERT INTO {t} REPLACE WHERE ts >= DATE'2024-01-05' SELECT 9, now()")
        no_rows = run.spark.range(0).selectExpr("CAST(id AS INT) AS id")
        writer = no_rows.write.format("delta").mode("overwrite")
        writer.option("replaceWhere", "ts >= '2024-01-05'").save(run.path)
    finally:
        run.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [i for i, _ in run.rows()] == [1]


@pytest.mark.parametrize("kind", ["lcase", "char"])
def test_an_overwrite_compares_no_column_of_other_equalities(run, kind):
    if kind == "char":
        run("CREATE TABLE {t} (id INT, s CHAR(3)) USING delta")
        run("INSERT INTO {t} VALUES (1, 'a'), (2, 'a  ')")
    else:
        rows = run.spark.sql(
            "SELECT id, collate(s, 'UTF8_LCASE') AS s FROM VALUES (1, 'a'), (2, 'A') AS v(id, s)"
        )
        rows.write.format("delta").save(run.path)
    with pytest.raises(ArgumentError, match="CHAR or has a collation"):
        run("INSERT INTO {t} REPLACE WHERE s <> 'a' VALUES (9, 'c')")
    run("INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 'c')")
    assert [i for i, _ in run.rows()] == [1, 2]


def test_an_insert_can_have_write_options(numbers):
    run = numbers(2, partition_by=["day"])
    run("INSERT INTO {t} WITH ('mergeSchema' = 'true') SELECT 2L, 0L, 'n2', 7 AS extra")
    run(
        "INSERT OVERWRITE {t} WITH (partitionOverwriteMode = dynamic, 'userMetadata' = 'why') "
        "(id, day, name) SELECT 3L, 1L, 'n3'"
    )
    assert run.rows() == [(0, 0, "n0", None), (2, 0, "n2", 7), (3, 1, "n3", None)]
    assert run.last()["userMetadata"] == "why"
    with pytest.raises(ValueError, match="txnAppId: .* REPLACE USING"):
        run("INSERT INTO {t} WITH ('txnAppId' = 'a') REPLACE USING (id) SELECT 3L, 1L, 'n3', 1")


@pytest.mark.parametrize("name", ["table", "TABLE `table`"])
def test_a_table_may_be_named_table(spark, name):
    spark.sql("CREATE OR REPLACE TABLE table (id BIGINT) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    spark.sql(f"INSERT INTO {name} SELECT 2L")
    for query in (
        "SELECT * FROM `table` ORDER BY id",
        "SELECT table.id FROM table ORDER BY id",
        "SELECT t.id FROM table t JOIN table u ON t.id = u.id ORDER BY 1",
    ):
        assert [row.id for row in spark.sql(query).collect()] == [1, 2]
    assert spark.sql("SELECT * FROM table").count() == 2
    spark.sql("DROP TABLE table")


def test_all_rows_of_a_table_are_inserted_by_its_name(spark, tmp_path):
    try:
        spark.sql(f"CREATE TABLE doubled (id INT) USING delta LOCATION '{tmp_path}/t'")
        spark.sql("INSERT INTO doubled VALUES (1)")
        spark.sql("INSERT INTO doubled TABLE doubled")
        assert spark.sql("TABLE default.doubled").collect() == [(1,), (1,)]
    finally:
        spark.sql("DROP TABLE IF EXISTS doubled")
