"""The same SQL text on delta-spark and here: the same frames, rows, operations and parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bayou
from bayou.spark import start_session

pytestmark = pytest.mark.timeout(900)

_TABLE = """
CREATE TABLE {t} (
  id BIGINT NOT NULL COMMENT 'c', day DATE, v STRING, g BIGINT GENERATED ALWAYS AS (id * 2)
)
USING delta PARTITIONED BY (day) COMMENT 'hello'
TBLPROPERTIES ('delta.appendOnly' = 'false', foo = 'bar')
"""
_MERGE = """
MERGE INTO {t} t USING (SELECT 3L AS id, 'm' AS v UNION ALL SELECT 9L, 'n') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)
"""
_ROWS = [
    _TABLE,
    "INSERT INTO {t} (id, day, v) VALUES (1, DATE'2024-01-01', 'a'), (2, DATE'2024-01-02', 'b')",
    "INSERT INTO {t} BY NAME SELECT 3L AS id, DATE'2024-01-02' AS day",
    "UPDATE {t} SET v = 'u' WHERE id = 3",
    "DELETE FROM {t} WHERE id = 1",
    _MERGE,
    "INSERT OVERWRITE {t} (id, day, v) SELECT 5L, DATE'2024-01-02', 'z'",
    "RESTORE TABLE {t} TO VERSION AS OF 1",
    "TRUNCATE TABLE {t}",
]
_UPKEEP = [
    "CREATE TABLE {t} USING delta PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(20)",
    "INSERT INTO {t} SELECT id, id % 2 FROM range(20, 40)",
    "OPTIMIZE {t} WHERE p = 1",
    "OPTIMIZE {t} ZORDER BY (id)",
    "VACUUM {t} RETAIN 200 HOURS DRY RUN",
    "VACUUM {t} RETAIN 200 HOURS",
    "CREATE TABLE {t}c SHALLOW CLONE {t}",
    "CREATE OR REPLACE TABLE {t} USING delta CLUSTER BY (id) AS SELECT id, 'x' AS v FROM range(20)",
    "OPTIMIZE {t} FULL",
    "ALTER TABLE {t} CLUSTER BY NONE",
]
_ALTERATIONS = [
    _TABLE,
    "ALTER TABLE {t} ADD COLUMNS (e1 INT COMMENT 'x' AFTER id, e2 STRUCT<a: INT>)",
    "ALTER TABLE {t} ALTER COLUMN e1 COMMENT 'y'",
    "ALTER TABLE {t} ADD CONSTRAINT pos CHECK (id >= 0)",
    "ALTER TABLE {t} DROP CONSTRAINT pos",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', a.b = 'c')",
    "ALTER TABLE {t} RENAME COLUMN e1 TO e9",
    "ALTER TABLE {t} DROP COLUMNS (e9, e2)",
    "COMMENT ON TABLE {t} IS 'text'",
    "SHOW TBLPROPERTIES {t} ('delta.minReaderVersion')",
    "REPLACE TABLE {t} (b STRING, c INT) USING delta PARTITIONED BY (c)",
]
_PROGRAM = """
import json
found = []
for text in json.loads(STATEMENTS):
    rows = spark.sql(text)
    found.append([rows.schema.jsonValue(), [r.asDict(True) for r in rows.collect()]])
with open(path, "w") as out:
    json.dump(found, out, default=str)
"""
_NOT_COMPARED = frozenset(
    {"predicate", "properties", "matchedPredicates", "notMatchedPredicates", "columns", "column"}
)
"""Texts of conditions have Catalyst's ids on the one side; JSON of types and columns is spelled in
another order."""
_NOT_THEIRS = "specifiedRetentionMillis"
"""delta-spark passes over RETAIN unless it says 0 hours, by default; Bayou does what it says."""


@pytest.fixture(scope="module")
def spark():
    session = start_session(
        "peers", {"spark.sql.shuffle.partitions": "2"}, master="local[2]", time_zone="UTC"
    )
    yield session
    session.stop()


@pytest.mark.parametrize(
    "statements", [_ROWS, _UPKEEP, _ALTERATIONS], ids=["rows", "upkeep", "alterations"]
)
def test_statements_answer_and_tell_history_as_delta_spark_s_do(
    spark, delta_spark, tmp_path, statements
):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    program = f"STATEMENTS = {json.dumps([_of(s, theirs) for s in statements])!r}\n{_PROGRAM}"
    delta_spark.run(program, tmp_path / "answers.json")
    answers = json.loads((tmp_path / "answers.json").read_text())
    for statement, (schema, rows) in zip(statements, answers, strict=True):
        frame = spark.sql(_of(statement, ours))
        assert frame.columns == [f["name"] for f in schema["fields"]], statement
        if "metrics" in frame.columns:
            inner = next(f for f in schema["fields"] if f["name"] == "metrics")
            names = [f["name"] for f in inner["type"]["fields"]]
            assert frame.schema["metrics"].dataType.names == names, statement
        found = [r.asDict(True) for r in frame.collect()]
        assert len(found) == len(rows), statement
        if statement.strip().startswith(("DELETE", "UPDATE", "MERGE", "SHOW")):
            assert found == rows, statement
    assert [_told(c) for c in _history(ours)] == [_told(c) for c in _history(theirs)]
    mine, others = bayou.table(str(ours)), bayou.table(str(theirs))
    order = [(mine.snapshot().schema.names[0], "ascending")]
    assert (
        mine.to_arrow().sort_by(order).to_pylist() == others.to_arrow().sort_by(order).to_pylist()
    )


def _of(statement: str, table: Path) -> str:
    return statement.replace("{t}c", f"delta.`{table}-c`").replace("{t}", f"delta.`{table}`")


def _history(path: Path) -> list[dict[str, Any]]:
    return bayou.table(str(path)).history()


def _told(commit: dict[str, Any]) -> tuple[Any, ...]:
    parameters = {
        k: v if isinstance(v, str) or v is None else json.dumps(v)
        for k, v in commit.get("operationParameters", {}).items()
        if k not in _NOT_COMPARED and k != _NOT_THEIRS
    }
    return commit["version"], commit["operation"], parameters
