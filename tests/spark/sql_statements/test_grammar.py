"""Every way of writing that delta-spark's grammar (`DeltaSqlBase.g4`) has for statements."""

from __future__ import annotations

import itertools

import pytest

from bayou.spark.sql_statements.parser import InvalidStatement, parse_statement

TABLES = ("t", "db.t", "`a b`.t", "spark_catalog.db.t", "delta.`/a b`", "Delta.`s3a://x/y`")
PATHS = ("'/a b'", '"/a b"', "'/a' ' b'")
TRAVELS = tuple(
    f"{before}{clause}"
    for before in ("", "FOR ")
    for clause in (
        "VERSION AS OF 3",
        "VERSION AS OF '3'",
        "SYSTEM_VERSION AS OF 3",
        "TIMESTAMP AS OF '2024-01-05'",
        'SYSTEM_TIME AS OF "2024-01-05 10:00:00"',
    )
)
NUMBERS = ("0", "168", "1.5", ".5", "240L", "240S", "24Y", "240D", "240BD", "1E2", "-1")

STATEMENTS = [
    *(f"VACUUM {table}" for table in (*TABLES, *PATHS)),
    *(f"VACUUM t RETAIN {number} HOURS" for number in NUMBERS),
    *(
        f"VACUUM t {' '.join(parts)}"
        for parts in itertools.permutations(("FULL", "RETAIN 0 HOURS", "DRY RUN"))
    ),
    *(f"VACUUM t USING INVENTORY {table}" for table in TABLES),
    "VACUUM t FULL USING INVENTORY (SELECT * FROM i WHERE (length > 0)) RETAIN 0 HOURS DRY RUN",
    "VACUUM t LITE DRY RUN",
    "VACUUM t DRY RUN LITE",
    *(
        f"{word} {what} {table}"
        for word in ("DESC", "DESCRIBE")
        for what in ("DETAIL", "HISTORY")
        for table in (*TABLES, *PATHS)
    ),
    "DESCRIBE HISTORY '/t' LIMIT 7",
    "GENERATE symlink_format_manifest FOR TABLE t",
    "GENERATE `symlink_format_manifest` FOR TABLE delta.`/t`",
    "CONVERT TO DELTA parquet.`/t`",
    "CONVERT TO DELTA parquet.`/t` NO STATISTICS",
    "CONVERT TO DELTA parquet.`/t` PARTITIONED BY (a INT)",
    "CONVERT TO DELTA parquet.`/t` NO STATISTICS PARTITIONED BY (a INT NOT NULL, b DECIMAL(5, 2))",
    "CONVERT TO DELTA parquet.`/t` PARTITIONED BY (a STRING COMMENT 'x')",
    *(
        f"RESTORE {table}t {to}{travel}"
        for table in ("", "TABLE ")
        for to in ("", "TO ")
        for travel in TRAVELS
    ),
    "RESTORE TABLE delta.`/t` TO VERSION AS OF 0",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1 AND b IN ('x', ')'))",
    "ALTER TABLE delta.`/t` ADD CONSTRAINT `c d` CHECK (f(a) = 1)",
    "ALTER TABLE t DROP CONSTRAINT c",
    "ALTER TABLE t DROP CONSTRAINT IF EXISTS c",
    "ALTER TABLE t DROP FEATURE deletionVectors",
    "ALTER TABLE t DROP FEATURE 'deletionVectors' TRUNCATE HISTORY",
    "ALTER TABLE t DROP FEATURE `deletionVectors`",
    "ALTER TABLE t CLUSTER BY (a, b.c)",
    "ALTER TABLE t CLUSTER BY NONE",
    "ALTER TABLE t ALTER COLUMN a SYNC IDENTITY",
    "ALTER TABLE t CHANGE COLUMN a SYNC IDENTITY",
    "ALTER TABLE t ALTER a SYNC IDENTITY",
    "ALTER TABLE t CHANGE a SYNC IDENTITY",
    *(f"OPTIMIZE {table}" for table in (*TABLES, *PATHS)),
    "OPTIMIZE t FULL",
    "OPTIMIZE t WHERE day = '1' AND hour IN (1, 2)",
    "OPTIMIZE t ZORDER BY a, b.c",
    "OPTIMIZE t ZORDER BY (a, `b c`)",
    "OPTIMIZE '/t' WHERE day >= '1' ZORDER BY (a)",
    "REORG TABLE t APPLY (PURGE)",
    "REORG TABLE delta.`/t` WHERE day = 1 APPLY (PURGE)",
    "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
    *(
        f"{create} t SHALLOW CLONE s{travel}{properties}{location}"
        for create in (
            "CREATE TABLE",
            "CREATE TABLE IF NOT EXISTS",
            "REPLACE TABLE",
            "CREATE OR REPLACE TABLE",
        )
        for travel in ("", " VERSION AS OF 1", " FOR SYSTEM_TIME AS OF '2024-01-05'")
        for properties in ("", " TBLPROPERTIES ('a' = 'b', delta.x 1, c.d = true, e = 1.5, f)")
        for location in ("", " LOCATION '/x'")
    ),
    "CREATE TABLE delta.`/x` SHALLOW CLONE delta.`/y`",
    "CREATE TABLE t (a INT, b STRUCT<c: INT>) USING delta CLUSTER BY (a, b.c)",
    "CREATE TABLE t USING delta CLUSTER BY (a) AS SELECT 1 a",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_of_delta_spark_s_is_understood(text):
    found = parse_statement(text)
    assert found is not None
    assert not isinstance(found, InvalidStatement), found.error
    assert parse_statement(f"\n/* a */ {text.replace(' ', '  ')} -- b\n ;;") is not None


@pytest.mark.parametrize(
    "text",
    [
        "VACUUM t LITE FULL",
        "VACUUM t USING INVENTORY",
        "VACUUM t USING INVENTORY i INVENTORY i",
        "VACUUM t RETAIN 1 DAYS",
        "RESTORE t",
        "OPTIMIZE t ZORDER BY ()",
        "REORG TABLE t",
        "GENERATE symlink_format_manifest FOR t",
        "CONVERT TO DELTA",
    ],
)
def test_what_the_grammar_has_not_is_refused(text):
    with pytest.raises(Exception, match="expected|missing|end before"):
        parse_statement(text)
