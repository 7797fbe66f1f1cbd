"""The same SQL text on delta-spark and here: the same frames, rows, operations and parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bayou
from bayou.spark import start_session

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
_STATEMENTS = [
    _TABLE,
    "INSERT INTO {t} (id, day, v) VALUES (1, DATE'2024-01-01', 'a'), (2, DATE'2024-01-02', 'b')",
    "INSERT INTO {t} (day, id) VALUES (DATE'2024-01-01', 3)",
    "INSERT INTO {t} BY NAME SELECT 4L AS id, DATE'2024-01-02' AS day",
    "UPDATE {t} SET v = 'u' WHERE id = 3",
    "DELETE FROM {t} WHERE id = 1",
    _MERGE,
    "INSERT OVERWRITE {t} (id, day, v) SELECT 5L, DATE'2024-01-02', 'z'",
    "OPTIMIZE {t}",
    "INSERT INTO {t} (id, day, v) VALUES (6, DATE'2024-01-02', 'y')",
    "OPTIMIZE {t} WHERE day = DATE'2024-01-02'",
    "OPTIMIZE {t} ZORDER BY (id)",
    "VACUUM {t} RETAIN 200 HOURS DRY RUN",
    "VACUUM {t} RETAIN 200 HOURS",
    "VACUUM {t} LITE",
    "RESTORE TABLE {t} TO VERSION AS OF 1",
    "ALTER TABLE {t} ADD COLUMNS (e1 INT COMMENT 'x' AFTER id, e2 STRUCT<a: INT>)",
    "ALTER TABLE {t} ALTER COLUMN e1 COMMENT 'y'",
    "ALTER TABLE {t} ADD CONSTRAINT pos CHECK (id >= 0)",
    "ALTER TABLE {t} DROP CONSTRAINT pos",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', a.b = 'c')",
    "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('a.b', 'zz')",
    "ALTER TABLE {t} RENAME COLUMN e1 TO e9",
    "ALTER TABLE {t} DROP COLUMNS (e9, e2)",
    "COMMENT ON TABLE {t} IS 'text'",
    "CREATE TABLE {t}c SHALLOW CLONE {t}",
    "TRUNCATE TABLE {t}",
    "CREATE OR REPLACE TABLE {t} USING delta CLUSTER BY (id) AS SELECT id, 'x' AS v FROM range(20)",
    "OPTIMIZE {t} FULL",
    "ALTER TABLE {t} CLUSTER BY NONE",
    "REPLACE TABLE {t} (b STRING, c INT) USING delta PARTITIONED BY (c)",
    "SHOW TBLPROPERTIES {t} ('delta.minReaderVersion')",
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


@pytest.fixture(scope="module")
def spark():
    session = start_session(
        "peers", {"spark.sql.shuffle.partitions": "2"}, master="local[2]", time_zone="UTC"
    )
    yield session
    session.stop()


def test_statements_answer_and_tell_history_as_delta_spark_s_do(spark, delta_spark, tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    texts = [_of(text, theirs) for text in _STATEMENTS]
    program = f"STATEMENTS = {json.dumps(texts)!r}\n{_PROGRAM}"
    delta_spark.run(program, tmp_path / "answers.json")
    answers = json.loads((tmp_path / "answers.json").read_text())
    for statement, (schema, rows) in zip(_STATEMENTS, answers, strict=True):
        text = _of(statement, ours)
        frame = spark.sql(text)
        assert frame.columns == [f["name"] for f in schema["fields"]], text
        if "metrics" in frame.columns:
            inner = next(f for f in schema["fields"] if f["name"] == "metrics")
            names = [f["name"] for f in inner["type"]["fields"]]
            assert frame.schema["metrics"].dataType.names == names, text
        found = [r.asDict(True) for r in frame.collect()]
        assert len(found) == len(rows), text
        if text.strip().startswith(("DELETE", "UPDATE", "MERGE", "SHOW")):
            assert found == rows, text
    assert [_told(c) for c in _history(ours)] == [_told(c) for c in _history(theirs)]
    assert _rows(ours, 7) == _rows(theirs, 7)
    assert bayou.table(str(ours)).snapshot().schema == bayou.table(str(theirs)).snapshot().schema


def _of(statement: str, table: Path) -> str:
    return statement.replace("{t}c", f"delta.`{table}-c`").replace("{t}", f"delta.`{table}`")


def _history(path: Path) -> list[dict[str, Any]]:
    return bayou.table(str(path)).history()


def _rows(path: Path, version: int) -> list[dict[str, Any]]:
    return bayou.table(str(path)).to_arrow(version=version).sort_by("id").to_pylist()


def _told(commit: dict[str, Any]) -> tuple[Any, ...]:
    parameters = {
        k: v if isinstance(v, str) or v is None else json.dumps(v)
        for k, v in commit.get("operationParameters", {}).items()
        if k not in _NOT_COMPARED
    }
    return commit["version"], commit["operation"], parameters
