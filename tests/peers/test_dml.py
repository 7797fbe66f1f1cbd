"""Rows deleted and updated by us are so for delta-spark, and the other way around."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import bayou

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}


def named(properties: Mapping[str, str]) -> str:
    return "+".join(
        key.rpartition(".")[2] + v.removeprefix("true") for key, v in properties.items()
    )


def rows(first: int, end: int) -> pa.Table:
    ids = list(range(first, end))
    return pa.table(
        {
            "id": ids,
            "p": [("a", "b c", None)[i % 3] for i in ids],
            "s": [{"x": i, "y": [str(i)]} for i in ids],
            "n": pa.array([i * 10 for i in ids], pa.int32()),
        }
    )


def selected(delta_spark: DeltaSpark, path: Path, query: str, columns: list[str]) -> list[Any]:
    """Rows of a query by delta-spark, by their order."""
    out = path.parent / f"{path.name}-{abs(hash(query))}"
    delta_spark.sql(f"CREATE OR REPLACE TABLE delta.`{out}` USING delta AS {query}")
    return sorted(delta_spark.read(out).select(columns).to_pylist(), key=repr)


@pytest.mark.parametrize("partitions", [[], ["p"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize(
    "properties",
    [
        {},
        VECTORS,
        FEED,
        VECTORS | FEED,
        TRACKED | FEED | MAPPED,
        VECTORS | TRACKED,
        VECTORS | TRACKED | FEED | BY_ID | {"delta.randomizeFilePrefixes": "true"},
    ],
    ids=named,
)
def test_deletes_and_updates_in_turn(
    delta_spark: DeltaSpark, tmp_path: Path, properties: dict[str, str], partitions: list[str]
) -> None:
    path = tmp_path / "t"
    bayou.write(str(path), rows(0, 12), partition_by=partitions, configuration=properties)
    bayou.write(str(path), rows(12, 20))
    table = bayou.table(str(path))
    tracked = (
        ["_metadata.row_id", "_metadata.row_commit_version"]
        if TRACKED.items() <= (properties.items())
        else []
    )
    columns = ["id", "p", "s", "n"]

    def both() -> list[Any]:
        ours = sorted(table.to_arrow(columns).to_pylist(), key=repr)
        assert ours == sorted(delta_spark.read(path).select(columns).to_pylist(), key=repr)
        if tracked:
            query = (
                f"SELECT id, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM {sql}"
            )
            theirs = selected(delta_spark, path, query, ["id", "r", "v"])
            own = table.to_arrow(["id", *tracked]).rename_columns(["id", "r", "v"])
            assert sorted(own.to_pylist(), key=repr) == theirs
        return ours

    sql = f"delta.`{path}`"
    assert table.delete("id % 7 = 3").num_deleted_rows == 3  # 3, 10, 17
    both()
    assert (
        table.update(
            {"n": "n + 1", "s.x": "-id", "p": "'z'"}, predicate="id IN (1, 13)"
        ).num_updated_rows
        == 2
    )
    both()
    delta_spark.sql(f"DELETE FROM {sql} WHERE id IN (4, 14)")
    delta_spark.sql(f"UPDATE {sql} SET n = 0 WHERE id IN (5, 13)")
    found = both()
    assert {row["id"]: row["n"] for row in found if row["id"] in (5, 13)} == {5: 0, 13: 0}
    assert table.delete("p = 'b c'").num_deleted_rows == 3  # 7, 16, 19
    assert (
        table.update({"p": "'q'"}, predicate="p IS NULL AND id < 9").num_updated_rows == 3
    )  # 2, 5, 8
    assert table.delete("id < 3 OR id = 13").num_deleted_rows == 4
    found = both()
    assert [row["id"] for row in sorted(found, key=lambda r: r["id"])] == [
        5,
        6,
        8,
        9,
        11,
        12,
        15,
        18,
    ]
    if FEED.items() <= properties.items():
        names = ["_change_type", "_commit_version", *columns]
        ours = table.changes(0).to_arrow().select(names).to_pylist()
        delta_spark.sql(
            f"CREATE TABLE delta.`{path}-feed` USING delta TBLPROPERTIES "
            "('delta.columnMapping.mode' = 'name') AS SELECT _change_type AS change, "
            f"_commit_version AS version, id, p, s, n FROM table_changes_by_path('{path}', 0)"
        )
        theirs = delta_spark.read(Path(f"{path}-feed")).rename_columns(names).to_pylist()
        assert sorted(ours, key=repr) == sorted(theirs, key=repr)
    assert table.delete().num_deleted_rows == 8
    assert both() == []


def test_a_table_of_delta_spark_with_every_rule(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT NOT NULL, "
        "at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), s VARCHAR(3)) USING delta "
        "PARTITIONED BY (day) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (n < 100)")
    delta_spark.sql(
        f"INSERT INTO delta.`{path}` (n, at, s) VALUES (1, TIMESTAMP'2024-02-29 23:00:00', 'abc'), "
        "(2, NULL, NULL), (3, TIMESTAMP'2024-03-01 01:00:00', 'x')"
    )
    table = bayou.table(str(path))
    assert (
        table.update(
            {"at": "at + INTERVAL 1 DAY", "s": "upper(s)"}, predicate="n <> 2"
        ).num_updated_rows
        == 2
    )
    delta_spark.sql(f"UPDATE delta.`{path}` SET n = n + 1")
    delta_spark.sql(f"INSERT INTO delta.`{path}` (n, at, s) VALUES (9, NULL, 'y')")
    ours = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    theirs = sorted(delta_spark.read(path).select(list(ours[0])).to_pylist(), key=lambda r: r["id"])
    assert ours == theirs
    assert [(r["n"], str(r["day"]), r["s"]) for r in ours] == [
        (2, "2024-03-01", "ABC"),
        (3, "None", None),
        (4, "2024-03-02", "X"),
        (9, "None", "y"),
    ]
    assert len({r["id"] for r in ours}) == 4


def test_many_rows_of_many_files(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true') AS SELECT id, id % 1000 AS k FROM "
        "RANGE(0, 300000, 1, 3)"
    )
    table = bayou.table(str(path))
    assert table.delete("k % 9 <> 0 AND id > 1000").num_deleted_rows == sum(
        i % 1000 % 9 != 0 for i in range(1001, 300000)
    )
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 5 = 0")
    table.delete("id BETWEEN 100000 AND 199999")
    expected = [
        i
        for i in range(300000)
        if not ((i % 1000 % 9 != 0 and i > 1000) or i % 5 == 0 or 100000 <= i <= 199999)
    ]
    assert sorted(table.to_arrow(["id"])["id"].to_pylist()) == expected
    assert sorted(delta_spark.read(path)["id"].to_pylist()) == expected
    metrics = {c["version"]: c["operationMetrics"] for c in table.history(2)}
    assert set(metrics[3]) == set(metrics[2])
