"""Random changes of one table by delta-spark and by ours in turn, against a dictionary.

`BAYOU_PEER_CHANGES=50` makes as many changes of each table, `BAYOU_PEER_SEED=2` others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

import bayou
from bayou.spark import DeltaTable, start_session

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

STEPS = int(os.environ.get("BAYOU_PEER_CHANGES", "4"))
PLACES = {
    "driver": {},
    "executors": {"bayou.rowOperations.localBytes": "0"},
    "plan": {"bayou.rowOperations.localBytes": "0", "bayou.rowOperations.sourceBytes": "0"},
}
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
TABLES = {
    "plain in partitions": {},
    "vectors in partitions": VECTORS,
    "feed": FEED,
    "feed, mapped in partitions": FEED | MAPPED,
    "tracked in partitions": TRACKED,
    "vectors, tracked": VECTORS | TRACKED,
    "vectors, feed, tracked, mapped": VECTORS | FEED | TRACKED | MAPPED,
    "vectors, feed, tracked, mapped in partitions": VECTORS | FEED | TRACKED | MAPPED,
}
Rows = dict[int, tuple[int, str | None]]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    session = start_session("peers", conf, master="local[2]", time_zone="UTC")
    yield session
    session.stop()


@pytest.mark.parametrize("name", TABLES)
def test_either_goes_on_where_the_other_left_off(
    delta_spark: DeltaSpark, spark: Any, tmp_path: Path, name: str
) -> None:
    path, properties = tmp_path / "t", TABLES[name]
    chance = random.Random(f"{name}{os.environ.get('BAYOU_PEER_SEED', '')}")
    model: Rows = {key: (key % 7, ["a", "b c", None][key % 3]) for key in range(40)}
    partitions = ["p"] if name.endswith("partitions") else []
    bayou.write(str(path), arrow(model), partition_by=partitions, configuration=properties)
    table, history = DeltaTable.forPath(spark, str(path)), {0: model}
    for number in range(STEPS):
        if number % 2:
            model = change(chance, model, lambda text: delta_spark.sql(text.format(t=path)))
        else:
            place = PLACES[chance.choice(sorted(PLACES))]
            for key, value in place.items():
                spark.conf.set(key, value)
            model = change(chance, model, lambda text: spark.sql(text.format(t=path)))
            for key in place:
                spark.conf.unset(key)
        assert found(table.toDF().collect()) == model
        history[bayou.table(str(path)).snapshot().version] = model
    check_all_read_the_same(delta_spark, path, model, properties)
    if "delta.enableChangeDataFeed" in properties:
        check_feed(delta_spark, spark, path, history)


def check_all_read_the_same(
    delta_spark: DeltaSpark, path: Path, model: Rows, properties: dict[str, str]
) -> None:
    columns = ["id", "n", "p"]
    if "delta.enableRowTracking" in properties:
        columns += ["_metadata.row_id", "_metadata.row_commit_version"]
    ours = bayou.table(str(path)).to_arrow(columns).to_pylist()
    theirs = delta_spark.read(path, columns=columns).to_pylist()
    assert found(ours) == found(theirs) == model
    by_id = [{row["id"]: tuple(row.values()) for row in rows} for rows in (ours, theirs)]
    assert by_id[0] == by_id[1]
    if not (VECTORS | MAPPED).keys() & properties:  # deltalake reads neither
        assert found(deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()) == model


def change(chance: random.Random, model: Rows, run: Any) -> Rows:
    """A random statement; gives what the rows are then."""
    divisor, rest = chance.choice([(3, 0), (4, 1), (5, 2)])
    kind = chance.choice(["delete", "update", "merge", "merge", "insert"])
    if kind == "delete":
        run(f"DELETE FROM delta.`{{t}}` WHERE id % {divisor} = {rest} AND n > 2")
        return {k: v for k, v in model.items() if not (k % divisor == rest and v[0] > 2)}
    if kind == "update":
        run(f"UPDATE delta.`{{t}}` SET n = n + 1, p = 'new' WHERE id % {divisor} = {rest}")
        return {k: (v[0] + 1, "new") if k % divisor == rest else v for k, v in model.items()}
    brought = {chance.randrange(60): (chance.randrange(-3, 9), "b c") for _ in range(5)}
    if kind == "insert":
        fresh = {key + 100 * len(model): value for key, value in brought.items()}
        fresh = {key: value for key, value in fresh.items() if key not in model}
        rows = ", ".join(f"({key}, {n}, '{p}')" for key, (n, p) in fresh.items())
        run(f"INSERT INTO delta.`{{t}}` VALUES {rows}")
        return model | fresh
    rows = ", ".join(f"({key}L, {n}L, '{p}')" for key, (n, p) in brought.items())
    run(
        f"MERGE INTO delta.`{{t}}` t USING (SELECT * FROM VALUES {rows} AS v(id, n, p)) s "
        "ON t.id = s.id WHEN MATCHED AND s.n < 0 THEN DELETE "
        "WHEN MATCHED AND s.n > t.n THEN UPDATE SET * "
        "WHEN NOT MATCHED AND s.n <> 0 THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.n > 8 THEN UPDATE SET n = 0"
    )
    after: Rows = {}
    for key, (number, group) in model.items():
        if key not in brought:
            after[key] = (0 if number > 8 else number, group)
        elif brought[key][0] >= 0:
            after[key] = brought[key] if brought[key][0] > number else (number, group)
    return after | {k: v for k, v in brought.items() if k not in model and v[0] != 0}


def arrow(model: Rows) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(list(model), pa.int64()),
            "n": pa.array([n for n, _ in model.values()], pa.int64()),
            "p": pa.array([p for _, p in model.values()], pa.string()),
        }
    )


def found(rows: list[Any]) -> Rows:
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["n"], row["p"]) for row in rows}


def check_feed(delta_spark: DeltaSpark, spark: Any, path: Path, history: dict[int, Rows]) -> None:
    """Both read the same feed, and it leads from each version to the next."""
    options = {"readChangeFeed": "true", "startingVersion": "1"}
    feed = spark.read.format("delta").options(**options).load(str(path)).select(*_COLUMNS)
    ours = [row.asDict() for row in feed.collect()]
    theirs = delta_spark.read(path, columns=_COLUMNS, options=options).to_pylist()
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
    for (_, before), (version, after) in pairwise(sorted(history.items())):
        rows = dict(before)
        changes = [row for row in ours if row["_commit_version"] == version]
        for gone in (row for row in changes if row["_change_type"] in _GONE):
            assert rows.pop(gone["id"]) == (gone["n"], gone["p"])
        for come in (row for row in changes if row["_change_type"] not in _GONE):
            assert come["id"] not in rows
            rows[come["id"]] = (come["n"], come["p"])
        assert rows == after


_COLUMNS = ("id", "n", "p", "_change_type", "_commit_version")
_GONE = ("delete", "update_preimage")
