from __future__ import annotations

import pytest

from bayou.errors import StatementError
from bayou.spark.statements.parser import (
    CreateTemporaryView,
    DescribeDetail,
    DescribeHistory,
    parse_statement,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DESCRIBE HISTORY delta.`/a`", DescribeHistory(table=("delta", "/a"))),
        ("desc history '/a' limit 3;", DescribeHistory(table=("delta", "/a"), limit=3)),
        ("DESCRIBE HISTORY db.t LIMIT 10", DescribeHistory(table=("db", "t"), limit=10)),
        ("DESCRIBE DETAIL t", DescribeDetail(table=("t",))),
        ("DESCRIBE DETAIL `a b`.`c``d`", DescribeDetail(table=("a b", "c`d"))),
        (
            "CREATE OR REPLACE TEMP VIEW v AS SELECT 1 AS x",
            CreateTemporaryView(
                name="v", columns=(), query="SELECT 1 AS x", replace=True, is_global=False
            ),
        ),
        (
            "create global temporary view v (a, b) as select 1, 2 ;",
            CreateTemporaryView(
                name="v", columns=("a", "b"), query="select 1, 2", replace=False, is_global=True
            ),
        ),
    ],
)
def test_our_statements_are_understood(text: str, expected: object) -> None:
    assert parse_statement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "DESCRIBE t",
        "DESCRIBE history.t",
        "DESCRIBE TABLE EXTENDED t",
        "DESC history",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TEMPORARY VIEW v USING delta OPTIONS (path '/a')",
        "CREATE TEMP VIEW v (a COMMENT 'x') AS SELECT 1",
        "CREATE TEMPORARY FUNCTION f AS 'x'",
    ],
)
def test_other_statements_are_spark_s(text: str) -> None:
    assert parse_statement(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DESCRIBE HISTORY delta.`/a` LIMIT ten", "end before 'LIMIT ten'"),
        ("DESCRIBE DETAIL t WHERE x", "end before 'WHERE x'"),
        ("DESCRIBE HISTORY 12", "A table is expected at '12'"),
        ("DESCRIBE HISTORY a.", "A table is expected"),
    ],
)
def test_a_statement_of_ours_that_goes_wrong_is_explained(text: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        parse_statement(text)
