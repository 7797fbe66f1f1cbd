"""A program over `DeltaTable` does with ours what it does with delta-spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bayou
from bayou.spark import start_session

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROGRAM = """
import json, pathlib
from pyspark.sql import functions as F

place = path + "/t"
out = {}

def told(name, frame):
    out[name] = [frame.schema.simpleString(), [list(row) for row in frame.collect()]]

table = (
    DeltaTable.create(spark)
    .location(place)
    .addColumn("id", "BIGINT", nullable=False)
    .addColumn("v", "STRING", comment="a text")
    .addColumn("twice", "BIGINT", generatedAlwaysAs="id * 2")
    .addColumn("p", "STRING")
    .partitionedBy("p")
    .property("delta.enableDeletionVectors", VECTORS)
    .property("delta.enableChangeDataFeed", "true")
    .comment("things")
    .execute()
)
rows = spark.range(0, 40, 1, 1).selectExpr(
    "id", "concat('v', id) v", "cast(id % 2 as string) p"
)
rows.write.format("delta").mode("append").save(place)
table.delete("p = '1' AND id > 30")
table.update(F.col("id") < 4, {"v": F.concat(F.col("v"), F.lit("!")), "id": "id + 100"})
table.update(set={"v": "upper(v)"}, condition="id = 10")
source = spark.createDataFrame([(10, "ten"), (12, "twelve"), (200, "new")], "id long, v string")
merging = table.alias("t").merge(source.alias("s"), "t.id = s.id")
told(
    "merge",
    merging.whenMatchedDelete("s.id = 12")
    .whenMatchedUpdate(set={"v": "s.v"})
    .whenNotMatchedInsert(values={"id": "s.id", "v": "s.v", "p": "'1'"})
    .whenNotMatchedBySourceUpdate("t.id = 14", {"v": "'left'"})
    .execute(),
)
table.delete("id = 99999")
told("rows", table.toDF().orderBy("id"))
feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "2")
told(
    "changes",
    feed.load(place).drop("_commit_timestamp").orderBy("_commit_version", "id", "_change_type"),
)
out["history columns"] = table.history().schema.simpleString()
out["history"] = [
    [row["version"], row["operation"], sorted(row["operationParameters"]), row["isBlindAppend"]]
    for row in table.history().collect()
]
metrics = {row["version"]: row["operationMetrics"] for row in table.history().collect()}
COUNTED = (
    "numDeletedRows", "numUpdatedRows", "numTargetRowsInserted", "numTargetRowsUpdated",
    "numTargetRowsDeleted", "numTargetRowsMatchedUpdated", "numOutputRows",
    "numTargetRowsNotMatchedBySourceUpdated", "numTargetRowsMatchedDeleted",
)
out["metrics"] = {
    str(v): {k: m[k] for k in COUNTED if k in m and not (k == "numOutputRows" and v > 1)}
    for v, m in metrics.items()
}
detail = table.detail()
out["detail"] = [
    detail.schema.simpleString(),
    [
        detail.first()[name]
        for name in ("format", "description", "partitionColumns", "properties")
    ],
]
restored = table.restoreToVersion(1)
out["restored"] = restored.columns
out["vacuumed"] = table.vacuum().columns
out["tables"] = [DeltaTable.isDeltaTable(spark, place), DeltaTable.isDeltaTable(spark, path)]
# What was opened before is cloned there as it was then, here as it is now.
DeltaTable.forPath(spark, place).clone(path + "/c", isShallow=True)
told("cloned", DeltaTable.forPath(spark, path + "/c").toDF().orderBy("id"))
duplicates = spark.createDataFrame([(5, "a"), (5, "b")], "id long, v string")
try:
    merging = table.alias("t").merge(duplicates.alias("s"), "t.id = s.id")
    merging.whenMatchedUpdate(set={"v": "s.v"}).execute()
except Exception as error:
    out["duplicates"] = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in str(error)
pathlib.Path(path, "out.json").write_text(json.dumps(out, default=str))
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    session = start_session("peers", conf, master="local[2]", time_zone="UTC")
    yield session
    session.stop()


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_frames_rows_changes_and_history_are_those_of_delta_spark(
    delta_spark: DeltaSpark, spark: Any, tmp_path: Path, vectors: str
) -> None:
    program = f"VECTORS = {vectors!r}\n{PROGRAM}"
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    delta_spark.run(f"from delta.tables import DeltaTable\n{program}", theirs)
    exec(f"from bayou.spark import DeltaTable\n{program}", {"spark": spark, "path": str(ours)})
    expected, found = (json.loads((f / "out.json").read_text()) for f in (theirs, ours))
    assert found.keys() == expected.keys()
    different = {n: (found[n], expected[n]) for n in expected if found[n] != expected[n]}
    assert not different, json.dumps(different, indent=1)
    rows = delta_spark.read(ours / "t", where="id < 10")
    assert sorted(rows["id"].to_pylist()) == list(range(10))
    assert bayou.table(str(theirs / "t")).to_arrow().num_rows == 40
