from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from bayou.errors import BayouError, SchemaError, StatementError

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
    with pytest.raises(StatementError, match="REPLACE USING"):
        run("INSERT INTO {t} REPLACE USING (id) SELECT 1, 2, 'x'")


def test_insert_with_schema_evolution_adds_columns(numbers):
    run = numbers(1)
    run("INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 5L AS id, 1.5D AS more")
    assert run.rows() == [(0, 0, "n0", None), (5, None, None, 1.5)]


def test_insert_overwrite_replaces_everything_or_a_partition(numbers):
    run = numbers(4, partition_by=["day"])
    run("INSERT OVERWRITE {t} PARTITION (day = 1) SELECT 9, 'nine'")
    assert run.rows() == [(0, 0, "n0"), (2, 0, "n2"), (9, 1, "nine")]
    assert "<=> 1" in run.last()["operationParameters"]["predicate"]
    run("INSERT OVERWRITE TABLE {t} VALUES (1, 2, 'x')")
    assert run.rows() == [(1, 2, "x")]


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
