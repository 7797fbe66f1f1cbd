from __future__ import annotations

import pytest

from bayou.errors import StatementError
from bayou.spark.sql_statements.table_references import table_references


def _seen(text: str) -> list[tuple[object, ...]]:
    return [
        (r.path or ".".join(r.parts), r.version, r.timestamp, text[r.start : r.end])
        for r in table_references(text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM delta.`/a b`", [("/a b", None, None, "delta.`/a b`")]),
        ("select 1 from Delta . `/a`", [("/a", None, None, "Delta . `/a`")]),
        ("TABLE t", [("t", None, None, "t")]),
        (
            "TABLE a.b UNION ALL TABLE t ORDER BY 1",
            [("a.b", None, None, "a.b"), ("t", None, None, "t")],
        ),
        (
            "SELECT * FROM table WHERE id IN (TABLE t)",
            [("table", None, None, "table"), ("t", None, None, "t")],
        ),
        ("SELECT DISTINCT table FROM t", [("t", None, None, "t")]),
        ("SELECT DISTINCT table AS a FROM t", [("t", None, None, "t")]),
        ("SELECT ALL table a FROM t", [("t", None, None, "t")]),
        ("SELECT first(table IGNORE NULLS) FROM t", [("t", None, None, "t")]),
        ("SELECT 1 FROM t WHERE (table IS NOT NULL)", [("t", None, None, "t")]),
        ("SELECT 1 FROM t WHERE (table IN ('a') OR b)", [("t", None, None, "t")]),
        ("SELECT 1 FROM t WHERE (table LIKE 'a%' OR b)", [("t", None, None, "t")]),
        (
            "SELECT * FROM delta.`/a` VERSION AS OF 3 t WHERE t.x = 1",
            [("/a", 3, None, "delta.`/a` VERSION AS OF 3")],
        ),
        (
            "SELECT * FROM delta.`/a` FOR VERSION AS OF '12'",
            [("/a", 12, None, "delta.`/a` FOR VERSION AS OF '12'")],
        ),
        (
            "SELECT * FROM delta.`/a` TIMESTAMP AS OF '2024-01-05' - INTERVAL 1 DAY b WHERE x",
            [
                (
                    "/a",
                    None,
                    "'2024-01-05' - INTERVAL 1 DAY",
                    "delta.`/a` TIMESTAMP AS OF '2024-01-05' - INTERVAL 1 DAY",
                )
            ],
        ),
        (
            "SELECT * FROM delta.`/a` TIMESTAMP AS OF date_sub(current_date(), 1) JOIN t USING (x)",
            [
                (
                    "/a",
                    None,
                    "date_sub(current_date(), 1)",
                    "delta.`/a` TIMESTAMP AS OF date_sub(current_date(), 1)",
                ),
                ("t", None, None, "t"),
            ],
        ),
        ("SELECT delta.`/a` FROM t delta", [("t", None, None, "t")]),
        (
            "WITH c AS (SELECT * FROM delta.`/a`) SELECT * FROM c, delta.`/b`",
            [("/a", None, None, "delta.`/a`"), ("/b", None, None, "delta.`/b`")],
        ),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", [("t", None, None, "t")]),
        ("WITH t AS (SELECT 1 AS x), u AS (SELECT * FROM T) SELECT * FROM u", []),
        ("WITH a AS (SELECT 1 FROM b), b AS (SELECT 1) SELECT 1 FROM b", [("b", None, None, "b")]),
        ("SELECT (WITH t AS (SELECT 1) SELECT * FROM t) FROM t", [("t", None, None, "t")]),
        ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t", []),
        ("SELECT 'delta.`/a`' /* FROM delta.`/b` */ -- FROM delta.`/c`", []),
        ("SELECT * FROM db.t VERSION AS OF 1", [("db.t", 1, None, "db.t VERSION AS OF 1")]),
        ("EXPLAIN FORMATTED SELECT * FROM delta.`/a`", [("/a", None, None, "delta.`/a`")]),
        ("FROM delta.`/a` |> WHERE x = 1", [("/a", None, None, "delta.`/a`")]),
        ("SELECT * FROM delta.`/a@v7`", [("/a", 7, None, "delta.`/a@v7`")]),
        (
            "SELECT * FROM delta.`/a@20240105100000000`",
            [
                (
                    "/a",
                    None,
                    "'2024-01-05 10:00:00.000'",
                    "delta.`/a@20240105100000000`",
                )
            ],
        ),
        (
            "CACHE TABLE c AS SELECT * FROM delta.`/a` VERSION AS OF 2",
            [("/a", 2, None, "delta.`/a` VERSION AS OF 2")],
        ),
        ("", []),
    ],
)
def test_tables_are_found_where_they_stand(text: str, expected: list[tuple[object, ...]]) -> None:
    assert _seen(text) == expected


def test_an_alias_of_its_own_is_told() -> None:
    first, second = table_references("SELECT * FROM delta.`/a` AS x JOIN t ON x.id = t.id")
    assert first.has_alias
    assert not second.has_alias


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t TABLESAMPLE (10 PERCENT)| WHERE id > 1",
        "SELECT * FROM t TABLESAMPLE (BUCKET 1 OUT OF 2 ON rand())| JOIN u",
        "SELECT * FROM t TABLESAMPLE (5 ROWS) REPEATABLE (7)|",
        "SELECT * FROM t| JOIN u",
    ],
)
def test_an_alias_can_be_inserted_after_a_sample(text: str) -> None:
    query = text.replace("|", "")
    assert table_references(query)[0].alias_start == text.index("|")


@pytest.mark.parametrize(
    ("text", "expected", "options"),
    [
        (
            "SELECT * FROM t| WITH ('a' = 'b', c.d 1, e = true) WHERE id > 1",
            False,
            "a=b c.d=1 e=true",
        ),
        ("SELECT * FROM t| WITH ('a' = ')') x WHERE x.id > 1", True, "a=)"),
        ("SELECT * FROM t| VERSION AS OF 3 WITH (a = -1) TABLESAMPLE (5 ROWS) AS x", True, "a=-1"),
        ("FROM delta.`/a`| TIMESTAMP AS OF '2024-01-05' WITH (a = 1) |> WHERE x = 1", False, "a=1"),
        ("WITH c AS (SELECT 1) SELECT * FROM t|, c", False, ""),
    ],
)
def test_options_belong_to_the_reference(text: str, expected: bool, options: str) -> None:
    query = text.replace("|", "", 1)
    (reference,) = table_references(query)
    assert " ".join(f"{key}={value}" for key, value in reference.options.items()) == options
    assert reference.has_alias is expected
    if options:
        assert query[: reference.end].endswith(")")
        assert query.index("WITH") < reference.end <= reference.alias_start


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM delta.`/a` VERSION AS OF latest", "VERSION AS OF latest"),
        ("SELECT 'open", "isn't closed"),
    ],
)
def test_what_cannot_be_understood_is_said(text: str, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        table_references(text)
