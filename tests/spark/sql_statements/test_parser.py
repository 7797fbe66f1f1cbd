from __future__ import annotations

import pytest

from bayou.errors import StatementError
from bayou.spark.sql_statements.create_table import Clone, CreateTemporaryView
from bayou.spark.sql_statements.maintenance import Reorg
from bayou.spark.sql_statements.parser import InvalidStatement, first_keyword, parse_statement
from bayou.spark.sql_statements.show import DescribeDetail, DescribeHistory, DescribeTable
from bayou.spark.sql_statements.token_cursor import TokenCursor


@pytest.mark.parametrize(
    ("text", "table", "limit"),
    [
        ("DESCRIBE HISTORY delta.`/a b`", ("delta", "/a b"), None),
        ("describe history '/t' limit 3 ;", ("delta", "/t"), 3),
        ("DESC HISTORY spark_catalog.db.t", ("spark_catalog", "db", "t"), None),
        ("/* x */ DESC HISTORY t -- y", ("t",), None),
    ],
)
def test_describe_history_names_a_table_and_a_limit(text, table, limit):
    assert parse_statement(text) == DescribeHistory(table=table, limit=limit)


def test_describe_detail_names_a_table():
    assert parse_statement("DESCRIBE DETAIL db.t") == DescribeDetail(table=("db", "t"))


def test_an_upgrade_to_uniform_names_its_version():
    text = "reorg table t apply (upgrade uniform (iceberg_compat_version = 3));"
    assert parse_statement(text) == Reorg(table=("t",), where=None, iceberg_compat_version=3)


@pytest.mark.parametrize(("kind", "shallow"), [("SHALLOW ", True), ("DEEP ", False), ("", False)])
def test_a_clone_is_deep_unless_it_is_shallow(kind, shallow):
    found = parse_statement(f"CREATE OR REPLACE TABLE t {kind}CLONE s VERSION AS OF 3")
    assert isinstance(found, Clone)
    assert (found.source, found.version, found.shallow) == (("s",), 3, shallow)


@pytest.mark.parametrize(
    "text",
    [
        "DESCRIBE EXTENDED t id",
        "DESC history",
        "DESCRIBE FUNCTION history",
        "DESCRIBE TABLE EXTENDED t PARTITION (p = 1)",
        "SELECT 1",
        "",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE t LIKE s",
        "CREATE TEMPORARY VIEW v USING delta OPTIONS (path '/t')",
        "CREATE TEMPORARY VIEW v (a COMMENT 'x') AS SELECT 1",
        "ALTER TABLE t RENAME TO u",
        "ALTER VIEW v AS SELECT 1",
        "COMMENT ON DATABASE d IS 'x'",
        "SHOW TABLES",
        "(SELECT 1)",
    ],
)
def test_other_statements_are_spark_s(text):
    assert parse_statement(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VACUUM", "expected a table.* at the end of 'VACUUM'"),
        ("VACUUM t RETAIN many HOURS", "expected a number of hours at 'many HOURS'"),
        ("VACUUM t LITE USING INVENTORY i", "LITE or USING INVENTORY, not both"),
        ("VACUUM t RETAIN 1 HOURS RETAIN 2 HOURS", "RETAIN only once"),
        ("VACUUM t USING INVENTORY 'i'", "a table, or a query in parentheses"),
        ("OPTIMIZE t ZORDER id", "unexpected 'ZORDER id'"),
        ("RESTORE t TO VERSION 3", "VERSION AS OF number"),
        ("GENERATE x FOR t", "expected FOR TABLE at 'FOR t'"),
        ("REORG TABLE t APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=x))", "at 'x"),
        ("REORG TABLE t WHERE p = 1 APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))", "PURGE"),
        ("CREATE TABLE t (a INT, b WHAT) USING delta", "Column 'b': 'WHAT' isn't a type"),
        ("CREATE TABLE t (a INT) USING delta BUCKETED BY (a)", "PARTITIONED BY, CLUSTER BY"),
        ("CREATE TABLE t (a INT) USING delta PARTITIONED BY (days(a))", "transforms"),
    ],
)
def test_an_error_names_the_part_of_the_statement(text, message):
    with pytest.raises(StatementError, match=message):
        parse_statement(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DESCRIBE HISTORY t LIMIT x", "expected a number of commits at 'x'"),
        ("DESCRIBE DETAIL t u", "unexpected 'u'"),
        ("ALTER TABLE t FROB x", "ADD, DROP, RENAME COLUMN"),
        ("ALTER TABLE t REPLACE COLUMNS (a INT DEFAULT 1)", "name, type and comment of a"),
        ("INSERT INTO t REPLACE BY (a) SELECT 1", "expected WHERE"),
        ("INSERT INTO t PARTITION (p = 1) REPLACE USING (a) SELECT 1", "PARTITION can't be"),
        ("DELETE FROM t WHERE", "expected a condition at the end"),
        ("UPDATE t SET WHERE a = 1", "expected = at 'a = 1'"),
        ("MERGE INTO t USING s ON a = b", "expected a WHEN clause"),
        ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN FROB", "expected INSERT at 'FROB'"),
        (
            "MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
            "as many values as columns",
        ),
    ],
)
def test_what_spark_might_understand_is_an_error_for_delta_tables_only(text, message):
    found = parse_statement(text)
    assert isinstance(found, InvalidStatement)
    assert found.table == ("t",)
    with pytest.raises(StatementError, match=message):
        raise found.error


def test_adjacent_strings_are_one_with_the_escapes_of_spark():
    assert TokenCursor(r"""'it''s' "x""y" r'\' '\n'""").string("a text") == "it'sx\"y\\\n"


def test_a_temporary_view_is_told_by_its_query():
    found = parse_statement("create or replace global temporary view v (a, `b c`) as select 1;")
    assert found == CreateTemporaryView(
        name="v", columns=("a", "b c"), query="select 1", replace=True, is_global=True
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("select 1", "SELECT"),
        ("  -- comment\n /* and\n more */ (( with x as", "WITH"),
        ("", ""),
        ("$", ""),
    ],
)
def test_the_first_word_stands_behind_comments_and_parentheses(text, word):
    assert first_keyword(text) == word


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET a = 1, b = 2, a = 3",
        "UPDATE t SET s.x = 1, `s`.x = 2",
        "MERGE INTO t USING u ON TRUE WHEN MATCHED THEN UPDATE SET t.a = 1, a = 2",
        "MERGE INTO t USING u ON TRUE WHEN NOT MATCHED THEN INSERT (a, t.a) VALUES (1, 2)",
    ],
)
def test_a_column_that_is_set_twice_is_refused(text):
    statement = parse_statement(text)
    assert isinstance(statement, InvalidStatement)
    assert "is set twice" in str(statement.error)


@pytest.mark.parametrize(
    ("text", "extended"),
    [
        ("DESCRIBE t", False),
        ("DESC TABLE db.t", False),
        ("DESCRIBE history.t", False),
        ("DESCRIBE EXTENDED t", True),
        ("DESC TABLE FORMATTED db.t", True),
    ],
)
def test_a_delta_table_is_described_from_its_log(text, extended):
    statement = parse_statement(text)
    assert isinstance(statement, DescribeTable)
    assert (statement.table[-1], statement.extended) == ("t", extended)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t USING delta OPTIONS ('fs.s3a.secret.key' 'hunter2') LOCATION '/t'",
        "CREATE TABLE t USING delta OPTIONS (AWS_SECRET_ACCESS_KEY 'hunter2') LOCATION '/t'",
        'OPTIMIZE t OPTIONS (AWS_SECRET_ACCESS_KEY "hunter2")',
        "VACUUM t OPTIONS (`fs.s3a.secret.key` 'hunter2" + "x" * 200 + "')",
    ],
)
def test_an_error_that_quotes_a_statement_shows_no_secret_of_its_options(text):
    try:
        found = parse_statement(text)
    except StatementError as error:
        shown = str(error)
    else:
        assert isinstance(found, InvalidStatement)
        shown = str(found.error)
    assert "OPTIONS" in shown
    assert "hunter2" not in shown
