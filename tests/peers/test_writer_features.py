"""delta-spark and we write to one table in turn, for features that ask something of writers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import bayou
from bayou.errors import CommitConflictError, ConstraintViolationError
from bayou.kernel import Operation

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)


def both(delta_spark: DeltaSpark, path: Path) -> list[dict]:
    """Rows by their order, once both sides have read the same."""
    ours = bayou.table(str(path)).to_arrow()
    theirs = delta_spark.read(path).select(ours.column_names)
    found = sorted(ours.to_pylist(), key=repr)
    assert found == sorted(theirs.to_pylist(), key=repr)
    return found


def test_rules_of_a_table_that_delta_spark_made(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 "
        "INCREMENT BY 5), n INT NOT NULL, at TIMESTAMP, day DATE GENERATED ALWAYS AS "
        "(CAST(at AS DATE)), s VARCHAR(3)) USING delta PARTITIONED BY (day)"
    )
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (n < 100)")
    moment = dt.datetime(2024, 2, 29, 23, tzinfo=dt.UTC)
    rows = pa.table(
        {"n": pa.array([1, 2], pa.int32()), "at": [moment, None], "s": ["abc", None]}
    ).set_column(1, "at", pa.array([moment, None], pa.timestamp("us", "UTC")))
    bayou.write(str(path), rows)
    delta_spark.sql(f"INSERT INTO delta.`{path}` (n, at, s) VALUES (3, NULL, 'x')")
    bayou.write(str(path), rows)
    found = both(delta_spark, path)
    assert len({row["id"] for row in found}) == 5
    assert all(row["id"] % 5 == 0 for row in found)
    assert {str(row["day"]) for row in found} == {"2024-02-29", "None"}
    too_many = rows.set_column(0, "n", pa.array([100, 1], pa.int32()))
    with pytest.raises(ConstraintViolationError, match="small"):
        bayou.write(str(path), too_many)
    with pytest.raises(ConstraintViolationError, match="varchar"):
        bayou.write(str(path), rows.set_column(2, "s", pa.array(["abcd", None])))


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.columnMapping.mode": "name"},
        {"delta.columnMapping.mode": "id"},
        {"delta.enableRowTracking": "true"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableTypeWidening": "true"},
        {"delta.enableChangeDataFeed": "true"},
    ],
    ids=lambda p: "=".join(next(iter(p.items()))),
)
def test_tables_that_we_made_are_written_by_both(
    delta_spark: DeltaSpark, tmp_path: Path, properties: dict[str, str]
) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"], "s": [{"x": 1}, {"x": 2}, None]})
    bayou.write(str(path), rows, partition_by=["p"], configuration=properties)
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (4, 'c', named_struct('x', 4))")
    bayou.write(str(path), rows.slice(0, 1))
    delta_spark.sql(f"UPDATE delta.`{path}` SET p = 'z' WHERE id = 3")
    assert [row["id"] for row in both(delta_spark, path)] == [1, 1, 3, 4]


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("DELETE FROM {t} WHERE id = 1", "concurrent append"),
        ("INSERT INTO {t} VALUES (9, 'a')", "concurrent append"),
        ("INSERT INTO {t} VALUES (9, 'b')", None),
        ("DELETE FROM {t} WHERE p = 'a'", "concurrent delete of a file that was read"),
        ("DELETE FROM {t} WHERE p = 'b'", None),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '1')", "metadata changed"),
        ("ALTER TABLE {t} ADD COLUMN c INT", "metadata changed"),
    ],
)
def test_what_delta_spark_commits_meanwhile_is_judged_by_the_rules(
    delta_spark: DeltaSpark, tmp_path: Path, statement: str, rule: str | None
) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    bayou.write(str(path), rows, partition_by=["p"])
    handle = bayou.table(str(path))
    engine, snapshot = handle._engine, handle.snapshot().kernel
    late = snapshot.build_update_table_transaction("test/1", Operation.DELETE).build(engine)
    removes = list(late.generate_remove_actions(engine, "p = 'a'"))
    delta_spark.sql(statement.format(t=f"delta.`{path}`"))
    if rule is None:
        assert late.commit(engine, removes).version == 2
        assert all(row["p"] == "b" for row in both(delta_spark, path))
    else:
        with pytest.raises(CommitConflictError) as caught:
            late.commit(engine, removes)
        assert caught.value.rule == rule
