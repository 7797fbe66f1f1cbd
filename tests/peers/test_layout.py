"""delta-spark reads what we rearrange, bring back, clone and convert, and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

import bayou

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(900)

TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def both(delta_spark: DeltaSpark, path: Path) -> list[dict]:
    """Rows by their order, once both sides have read the same."""
    ours = bayou.table(str(path)).to_arrow()
    theirs = delta_spark.read(path).select(ours.column_names)
    found = sorted(ours.to_pylist(), key=repr)
    assert found == sorted(theirs.to_pylist(), key=repr)
    return found


def history(path: Path) -> dict:
    return bayou.table(str(path)).history(1)[0]


def same_names(ours: dict, theirs: dict) -> None:
    """Two entries of a history that say the same things."""
    assert ours["operation"] == theirs["operation"]
    for key in ("operationParameters", "operationMetrics"):
        assert set(ours[key]) == set(theirs[key]), key
    assert ours["isolationLevel"] == theirs["isolationLevel"]
    assert ours.get("tags") == theirs.get("tags")


def make(delta_spark: DeltaSpark, path: Path, partitioned: str = "PARTITIONED BY (p)") -> None:
    properties = ", ".join(f"'{k}' = '{v}'" for k, v in TRACKED.items())
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, x INT, p STRING) USING delta {partitioned} "
        f"TBLPROPERTIES ({properties})"
    )
    for i in range(3):
        delta_spark.sql(
            f"INSERT INTO delta.`{path}` SELECT id + {i * 100}, CAST(id * 7 % 50 AS INT), "
            "CONCAT('p/', id % 2) FROM range(100)"
        )
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")


def row_ids(path: Path) -> dict[int, tuple[int, int]]:
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    found = bayou.table(str(path)).to_arrow(columns=columns).to_pylist()
    return {r["id"]: (r[columns[1]], r[columns[2]]) for r in found}


def test_optimize_zorder_and_purge(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        make(delta_spark, path)
    table = bayou.table(str(ours))
    before = both(delta_spark, ours)
    ids = row_ids(ours)
    for call, statement in (
        (table.optimize.purge, "REORG TABLE delta.`{t}` APPLY (PURGE)"),
        (table.optimize, "OPTIMIZE delta.`{t}`"),
        (lambda: table.optimize.z_order(["x", "id"]), "OPTIMIZE delta.`{t}` ZORDER BY (x, id)"),
    ):
        if statement.startswith("OPTIMIZE"):
            for path in (ours, theirs):
                delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (-1, 1, 'p/0'), (-2, 1, 'p/1')")
            before = both(delta_spark, ours)
            ids = row_ids(ours)
        assert call().version is not None
        delta_spark.sql(statement.format(t=theirs))
        assert both(delta_spark, ours) == before
        assert row_ids(ours) == ids
        same_names(history(ours), history(theirs))
    delta_spark.sql(f"UPDATE delta.`{ours}` SET x = 0 WHERE id < 50")
    delta_spark.sql(f"OPTIMIZE delta.`{ours}`")
    both(delta_spark, ours)


def test_clustered_tables(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        make(delta_spark, path, "CLUSTER BY (x, id)")
    before = both(delta_spark, ours)
    table = bayou.table(str(ours))
    assert table.optimize().num_output_cubes == 1
    delta_spark.sql(f"OPTIMIZE delta.`{theirs}`")
    same_names(history(ours), history(theirs))
    assert both(delta_spark, ours) == before
    assert table.optimize().version is None
    delta_spark.sql(f"INSERT INTO delta.`{ours}` VALUES (-1, 1, 'p')")
    delta_spark.sql(f"OPTIMIZE delta.`{ours}`")
    assert table.optimize().version is None
    both(delta_spark, ours)


def test_restore(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        make(delta_spark, path)
    bayou.table(str(ours)).restore(2)
    delta_spark.sql(f"RESTORE TABLE delta.`{theirs}` TO VERSION AS OF 2")
    same_names(history(ours), history(theirs))
    assert len(both(delta_spark, ours)) == 200
    delta_spark.sql(f"INSERT INTO delta.`{ours}` VALUES (-1, 1, 'p')")
    delta_spark.sql(f"RESTORE TABLE delta.`{ours}` TO VERSION AS OF 4")
    assert len(both(delta_spark, ours)) == 270
    assert len({r for r, _ in row_ids(ours).values()}) == 270


def test_clones(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    source = tmp_path / "the source%20ü"
    ours, theirs = tmp_path / "our clone", tmp_path / "theirs"
    make(delta_spark, source)
    bayou.table(str(source)).clone(str(ours))
    delta_spark.sql(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{source}`")
    same_names(history(ours), history(theirs))
    assert both(delta_spark, ours) == both(delta_spark, source)
    assert both(delta_spark, theirs) == both(delta_spark, source)
    delta_spark.sql(f"DELETE FROM delta.`{ours}` WHERE id % 10 = 4")
    delta_spark.sql(f"INSERT INTO delta.`{ours}` VALUES (-1, 1, 'p/0')")
    delta_spark.sql(f"OPTIMIZE delta.`{ours}`")
    assert len(both(delta_spark, ours)) == 241
    assert len(both(delta_spark, source)) == 270


def test_conversions(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        delta_spark.sql(
            f"INSERT OVERWRITE DIRECTORY '{path}/day=2024-01-05/p=a%2Fb' USING parquet "
            "SELECT id, CAST('2024-02-29 12:00:00' AS TIMESTAMP) AS t, 'x' AS s FROM range(10)"
        )
    bayou.table(str(ours)).convert(pa.schema([("day", pa.date32()), ("p", pa.string())]))
    delta_spark.sql(f"CONVERT TO DELTA parquet.`{theirs}` PARTITIONED BY (day DATE, p STRING)")
    same_names(history(ours), history(theirs))
    found = both(delta_spark, ours)
    assert found == both(delta_spark, theirs)
    assert {r["p"] for r in found} == {"a/b"}
    schemas = [str(bayou.table(str(p)).snapshot().schema) for p in (ours, theirs)]
    assert schemas[0] == schemas[1]
    delta_spark.sql(f"DELETE FROM delta.`{ours}` WHERE id = 3")
    bayou.write(str(ours), bayou.table(str(theirs)).to_arrow())
    assert len(both(delta_spark, ours)) == 19
    assert deltalake.DeltaTable(str(theirs)).to_pyarrow_table().num_rows == 10
