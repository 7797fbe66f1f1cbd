"""Tables altered by us, read and written on by delta-spark; and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "p": ["a", "b", "a"],
        "s": [{"a": 1}, {"a": 2}, None],
    }
)


def both(delta_spark: DeltaSpark, path: Path) -> list[dict]:
    """Rows by their order, once both sides have read the same."""
    ours = bayou.table(str(path)).to_arrow()
    theirs = delta_spark.read(path).select(ours.column_names)
    found = sorted(ours.to_pylist(), key=repr)
    assert found == sorted(theirs.to_pylist(), key=repr)
    return found


def newest(path: Path) -> dict:
    return bayou.table(str(path)).history(1)[0]


def test_schema_changes_of_ours(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    bayou.write(str(path), ROWS, partition_by=["p"])
    alter = bayou.table(str(path)).alter
    alter.add_columns({"n": "bigint", "s.b": "decimal(10,2)", "l": "array<struct<x:int>>"})
    alter.add_column("v", "varchar(3)", first=True, comment="text")
    both(delta_spark, path)
    alter.set_table_properties(
        {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    )
    alter.rename_column("p", "q")
    alter.rename_column("s.a", "A 1")
    alter.drop_columns("n", "s.b")
    alter.add_column("l.element.y", "date")
    alter.change_type("id", "bigint")
    alter.add_feature("allowColumnDefaults")
    alter.set_default("v", "'dft'")
    both(delta_spark, path)
    delta_spark.sql(
        f"INSERT INTO delta.`{path}` (id, q, s, l) VALUES (5000000000, 'b', "
        "named_struct('A 1', 9L), array(named_struct('x', 1, 'y', DATE'2024-01-05')))"
    )
    assert [r["v"] for r in both(delta_spark, path) if r["id"] == 5000000000] == ["dft"]
    alter.set_column_not_null("id")
    alter.add_constraint({"positive": "id > 0"})
    delta_spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN l")
    delta_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO w")
    delta_spark.sql(f"UPDATE delta.`{path}` SET w = 'upd' WHERE q = 'b'")
    bayou.write(str(path), pa.table({"id": [7], "q": ["c"]}))
    assert {row["w"] for row in both(delta_spark, path)} == {None, "upd", "dft"}


@pytest.mark.parametrize("kept", [{}, {"delta.enableDeletionVectors": "true"}], ids=["no", "dv"])
def test_row_tracking_that_we_turned_on(
    delta_spark: DeltaSpark, tmp_path: Path, kept: dict[str, str]
) -> None:
    path = tmp_path / "t"
    bayou.write(str(path), ROWS, configuration=kept)
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    bayou.table(str(path)).alter.set_table_properties({"delta.enableRowTracking": "true"})
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (9, 'z', NULL)")
    delta_spark.sql(f"UPDATE delta.`{path}` SET p = 'u' WHERE id = 2")
    both(delta_spark, path)
    ids = bayou.table(str(path)).to_arrow(["id", "_metadata.row_id"])
    delta_spark.sql(
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/ids' USING parquet "
        f"SELECT id, _metadata.row_id AS r FROM delta.`{path}`"
    )
    theirs = pq.read_table(tmp_path / "ids")
    assert dict(zip(*(c.to_pylist() for c in ids.columns), strict=True)) == dict(
        zip(theirs["id"].to_pylist(), theirs["r"].to_pylist(), strict=True)
    )


def test_clustering_that_we_set(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    bayou.write(str(path), ROWS)
    alter = bayou.table(str(path)).alter
    alter.cluster_by("id", "s.a")
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (9, 'z', NULL)")
    delta_spark.sql(f"OPTIMIZE delta.`{path}`")
    both(delta_spark, path)
    delta_spark.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY (p)")
    assert bayou.table(str(path)).snapshot().kernel.clustering_columns == (("p",),)
    assert newest(path)["operationParameters"] == {
        "oldClusteringColumns": "id,s.a",
        "newClusteringColumns": "p",
    }
    bayou.write(str(path), ROWS)
    alter.cluster_by()
    both(delta_spark, path)


@pytest.mark.parametrize(
    ("properties", "feature", "change"),
    [
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors", None),
        ({"delta.enableTypeWidening": "true"}, "typeWidening", "id"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping", None),
        ({"delta.enableRowTracking": "true"}, "rowTracking", None),
        ({"delta.enableInCommitTimestamps": "true"}, "inCommitTimestamp", None),
        ({"delta.checkpointPolicy": "v2"}, "v2Checkpoint", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_features_that_we_dropped(
    delta_spark: DeltaSpark,
    tmp_path: Path,
    properties: dict[str, str],
    feature: str,
    change: str | None,
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        bayou.write(str(path), ROWS, configuration=properties)
        delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
        if change is not None:
            delta_spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {change} TYPE BIGINT")
    bayou.table(str(ours)).alter.drop_feature(feature)
    delta_spark.sql(f"ALTER TABLE delta.`{theirs}` DROP FEATURE {feature}")
    found = [bayou.table(str(path)).snapshot() for path in (ours, theirs)]
    first, second = (s.protocol for s in found)
    assert (first.min_reader_version, first.min_writer_version) == (
        second.min_reader_version,
        second.min_writer_version,
    )
    assert set(first.writer_features or ()) == set(second.writer_features or ())
    assert set(found[0].properties) == set(found[1].properties)
    histories = [
        [entry["operation"] for entry in bayou.table(str(p)).history()] for p in (ours, theirs)
    ]
    assert histories[0] == histories[1]
    assert both(delta_spark, ours) == both(delta_spark, theirs)
    delta_spark.sql(f"INSERT INTO delta.`{ours}` VALUES (9, 'z', NULL)")
    delta_spark.sql(f"UPDATE delta.`{ours}` SET p = 'u' WHERE id = 1")
    bayou.write(str(ours), bayou.table(str(ours)).to_arrow().slice(0, 1))
    assert len(both(delta_spark, ours)) == 4


def test_what_history_says_is_the_same(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        bayou.write(str(path), ROWS)
    alter = bayou.table(str(ours)).alter
    table = f"delta.`{theirs}`"
    steps = [
        (
            lambda: alter.add_column("n", "bigint", comment="c"),
            "ADD COLUMNS (n BIGINT COMMENT 'c')",
        ),
        (lambda: alter.add_column("m", "int", after="id"), "ADD COLUMNS (m INT AFTER id)"),
        (lambda: alter.add_column("s.b", "float", first=True), "ADD COLUMNS (s.b FLOAT FIRST)"),
        (
            lambda: alter.set_table_properties({"delta.columnMapping.mode": "name"}),
            "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        ),
        (lambda: alter.rename_column("n", "n.2"), "RENAME COLUMN n TO `n.2`"),
        (lambda: alter.drop_columns("m", "s.b"), "DROP COLUMNS (m, s.b)"),
        (lambda: alter.set_comment("id", "k"), "ALTER COLUMN id COMMENT 'k'"),
        (lambda: alter.move_column("id", after="p"), "ALTER COLUMN id AFTER p"),
        (lambda: alter.add_constraint({"Pos": "id > 0"}), "ADD CONSTRAINT Pos CHECK (id > 0)"),
        (lambda: alter.drop_constraint("pos"), "DROP CONSTRAINT pos"),
        (lambda: alter.cluster_by("id", "s.a"), "CLUSTER BY (id, s.a)"),
        (lambda: alter.set_table_properties({"mine": "1"}), "SET TBLPROPERTIES ('mine' = '1')"),
        (
            lambda: alter.unset_table_properties("mine", raise_if_not_exists=False),
            "UNSET TBLPROPERTIES IF EXISTS ('mine')",
        ),
        (lambda: alter.add_feature("allowColumnDefaults"), None),
        (lambda: alter.set_default("id", "1"), None),
    ]
    for step, statement in steps:
        step()
        if statement is None:
            continue
        delta_spark.sql(f"ALTER TABLE {table} {statement}")
        mine, its = newest(ours), newest(theirs)
        for key in ("operation", "operationMetrics", "isolationLevel", "isBlindAppend"):
            assert mine.get(key) == its.get(key), (statement, key)
        assert _plain(mine["operationParameters"]) == _plain(its["operationParameters"]), statement
        assert json.loads(bayou.table(str(ours)).snapshot().kernel.schema.to_json())
        versions = [bayou.table(str(p)).snapshot().protocol for p in (ours, theirs)]
        assert set(versions[0].writer_features or ()) == set(versions[1].writer_features or ())
    both(delta_spark, ours)


def _plain(parameters: dict) -> dict:
    """JSON texts as what they are: the order of their keys doesn't matter."""
    return {
        key: json.loads(value) if str(value).startswith(("[", "{")) else value
        for key, value in parameters.items()
    }
