from __future__ import annotations

import pytest

from bayou.spark.sql_statements.table_references import table_candidates, table_references


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a, b FROM t", {("t",)}),
        (
            "SELECT * FROM db.t x, `u v` AS y, (SELECT 1) z, w WHERE a IN (SELECT b FROM q)",
            {("db", "t"), ("u v",), ("w",), ("q",)},
        ),
        (
            "SELECT * FROM a JOIN b USING (id) LEFT JOIN c ON a.x = c.x, d",
            {("a",), ("b",), ("c",), ("d",)},
        ),
        (
            "SELECT * FROM range(3) r, t TIMESTAMP AS OF now() - INTERVAL 1 DAY, u",
            {("range",), ("t",), ("u",)},
        ),
        ("WITH c AS (TABLE t) SELECT 1 FROM c", {("t",), ("c",)}),
        ("SELECT * FROM delta.`/a` VERSION AS OF 3 v", {("delta", "/a")}),
        ("SELECT * FROM table_changes('t', 0) c, u", {("table_changes",), ("u",)}),
        ("INSERT INTO t SELECT * FROM s", {("t",), ("s",)}),
        ("INSERT INTO t VALUES (1, 'from here'), (2, 'x')", {("t",)}),
        ("insert overwrite `a b`.c (x) values (1)", {("a b", "c")}),
        ("UPDATE db.t SET x = 1 WHERE y IN (SELECT z FROM s)", {("db", "t"), ("s",)}),
        (
            "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *",
            {("t",), ("s",)},
        ),
        ("DELETE FROM t", {("t",)}),
        ("SELECT * FROM /* which? */ t -- that, not\n, u", {("t",), ("u",)}),
        ("SELECT * FROM a TABLESAMPLE (1 ROWS) 'it\\'s', b", {("a",), ("b",)}),
        ("SELECT '\u0130\u0130', * FROM t", {("t",)}),
        ("SELECT fromage, `from`, x.from_t FROM t", {("t",)}),
        ("SELECT 'open FROM t", {("t",)}),
        ("SELECT 1", set()),
    ],
)
def test_names_that_stand_where_tables_do_are_found(text, names):
    assert table_candidates(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x.id FROM a x CROSS JOIN (SELECT * FROM b, c) y LATERAL VIEW explode(z) e, d",
        "SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.id = a.id), c",
        "SELECT (SELECT max(x) FROM a), EXTRACT(YEAR FROM s) FROM b WHERE EXISTS (SELECT 1 FROM c)",
        "SELECT * FROM a UNION ALL SELECT * FROM b INTERSECT SELECT * FROM c ORDER BY 1",
        "SELECT * FROM a TABLESAMPLE (10 PERCENT) s, b PIVOT (sum(x) FOR y IN (1, 2)), c",
        "SELECT * FROM (a JOIN (b CROSS JOIN c) ON a.x = b.x), d WHERE (x) IN (1)",
        "SELECT * FROM ((SELECT * FROM a) x JOIN b), (c)",
        "WITH w AS (SELECT * FROM a, b) SELECT * FROM w ANTI JOIN c USING (id)",
    ],
)
def test_no_table_that_a_parser_finds_is_passed_over(text):
    assert table_candidates(text) >= {reference.parts for reference in table_references(text)}
