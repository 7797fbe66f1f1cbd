from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

import bayou
from bayou.errors import ArgumentError, StatementError

pytestmark = pytest.mark.spark


def test_optimize_packs_files_orders_them_and_tells_so(numbers):
    run = numbers(4, partition_by=["day"])
    run("INSERT INTO {t} SELECT id, id % 2, 'x' FROM range(4, 8)")
    done = run("OPTIMIZE {t} WHERE day = 1")
    assert done.columns == ["path", "metrics"]
    row = done.first()
    assert row["path"] == f"file:{run.path}"
    assert (row["metrics"]["numFilesAdded"], row["metrics"]["partitionsOptimized"]) == (1, 1)
    version = run.last()["version"]
    run("OPTIMIZE {t} WHERE day = 1")
    assert run.last()["version"] == version
    run("OPTIMIZE {t} ZORDER BY (id, name)")
    assert run.last()["operationParameters"]["zOrderBy"] == '["id","name"]'
    assert len(run.rows()) == 8
    with pytest.raises(StatementError, match="for clustered tables"):
        run("OPTIMIZE {t} FULL WHERE day = 1")


def test_reorg_purges_deleted_rows(numbers):
    run = numbers(6, {"delta.enableDeletionVectors": "true"})
    run("DELETE FROM {t} WHERE id = 1")
    done = run("REORG TABLE {t} APPLY (PURGE)").first()
    assert done["metrics"]["numFilesRemoved"] == 1
    assert run.last()["operation"] == "REORG"


@pytest.fixture
def unchecked(spark):
    """Any retention may be asked for."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    yield
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def test_vacuum_refuses_a_short_retention(numbers):
    run = numbers(6)
    with pytest.raises(ArgumentError, match="shorter"):
        run("VACUUM {t} RETAIN 0 HOURS")


def test_vacuum_deletes_what_nothing_needs(numbers, unchecked):
    run = numbers(6)
    run("DELETE FROM {t} WHERE id = 1")
    found = run("VACUUM {t} RETAIN 0 HOURS DRY RUN").collect()
    assert len(found) == 1
    assert found[0]["path"].startswith(f"file:{run.path}/")
    done = run("VACUUM {t} RETAIN 0 HOURS")
    assert [r.asDict() for r in done.collect()] == [{"path": f"file:{run.path}"}]
    assert run.last()["operation"] == "VACUUM END"
    assert len([f for f in os.listdir(run.path) if f.endswith(".parquet")]) == 1
    run("VACUUM {t} LITE")


def test_settings_make_vacuum_lite_and_silent(numbers, tmp_path, unchecked):
    run = numbers(2)
    stray = tmp_path / "table" / "stray"
    stray.touch()
    settings = {
        "spark.databricks.delta.vacuum.lite.enabled": "true",
        "spark.databricks.delta.vacuum.logging.enabled": "false",
    }
    for key, value in settings.items():
        run.spark.conf.set(key, value)
    try:
        run("VACUUM {t} RETAIN 0 HOURS")
        assert stray.exists()
        run("VACUUM {t} FULL RETAIN 0 HOURS")
        assert not stray.exists()
    finally:
        for key in settings:
            run.spark.conf.unset(key)
    assert run.last()["operation"] == "WRITE"


@pytest.fixture
def listed(numbers, tmp_path):
    """A table with files that nothing needs, and an inventory of some of its folder."""
    run = numbers(2)
    for name in ("old", "young", "_hidden", "unlisted", "listed twice"):
        (tmp_path / "table" / name).touch()
    (tmp_path / "table" / "empty").mkdir()
    (live,) = bayou.table(run.path).snapshot().files()["path"].to_pylist()
    root, later = f"file:{run.path}", 1 << 42
    rows = [
        (f"{root}/{live}", 900, False, 0),
        (f"{root}/old", 7, False, 0),
        (f"{root}/young", 7, False, later),
        (f"{root}/_hidden", 7, False, 0),
        (f"{root}/listed twice", 7, False, 0),
        (f"{root}/listed twice", 7, False, later),
        (f"{root}/empty", 0, True, 0),
        (f"{root}/gone", 7, False, 0),
        ("file:/elsewhere/old", 7, False, 0),
    ]
    columns = "path string, length bigint, isDir boolean, modificationTime bigint"
    run.spark.createDataFrame(rows, columns).createOrReplaceTempView("what_lies_there")
    yield run
    run.spark.catalog.dropTempView("what_lies_there")


@pytest.mark.parametrize("query", ["what_lies_there", "(SELECT *, 1 AS more FROM what_lies_there)"])
def test_vacuum_takes_an_inventory_for_a_listing(listed, tmp_path, unchecked, query):
    run = listed
    found = run(f"VACUUM {{t}} USING INVENTORY {query} RETAIN 0 HOURS DRY RUN").collect()
    root = f"file:{run.path}"
    assert sorted(row["path"] for row in found) == [f"{root}/gone", f"{root}/old"]
    done = run(f"VACUUM {{t}} RETAIN 0 HOURS USING INVENTORY {query}").collect()
    assert [row.asDict() for row in done] == [{"path": root}]
    left = {p.name for p in (tmp_path / "table").iterdir() if not p.name.endswith(".parquet")}
    assert left == {"_delta_log", "young", "_hidden", "unlisted", "listed twice"}
    assert len(run.rows()) == 2
    assert run.last()["operationMetrics"] == {
        "numDeletedFiles": "3",
        "numVacuumedDirectories": "2",
    }


def test_an_inventory_may_be_a_delta_table(listed, tmp_path, unchecked):
    run, path = listed, str(tmp_path / "inventory")
    run.spark.table("what_lies_there").write.format("delta").save(path)
    run(f"VACUUM {{t}} USING INVENTORY delta.`{path}` RETAIN 0 HOURS")
    assert not (tmp_path / "table" / "old").exists()


def test_an_inventory_without_its_columns_is_refused(numbers):
    run = numbers(1)
    query = "SELECT 'x' AS path, 1 AS length, false AS isDir, 0L AS modificationTime"
    with pytest.raises(ArgumentError, match="DELTA_INVALID_INVENTORY_SCHEMA"):
        run(f"VACUUM {{t}} USING INVENTORY ({query})")


def test_commits_of_upkeep_carry_the_sessions_text(numbers):
    run = numbers(4)
    run("INSERT INTO {t} VALUES (7, 7, 'x')")
    run.spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", "by hand")
    try:
        run("OPTIMIZE {t}")
        run("VACUUM {t}")
        run("RESTORE {t} TO VERSION AS OF 0")
        run("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')")
    finally:
        run.spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    run("INSERT INTO {t} VALUES (8, 8, 'x')")
    found = [(c["operation"], c.get("userMetadata")) for c in bayou.table(run.path).history()]
    assert found == [
        ("WRITE", None),
        ("SET TBLPROPERTIES", "by hand"),
        ("RESTORE", "by hand"),
        ("VACUUM END", "by hand"),
        ("VACUUM START", "by hand"),
        ("OPTIMIZE", "by hand"),
        ("WRITE", None),
        ("WRITE", None),
    ]


def test_restore_brings_a_version_back(numbers):
    run = numbers(6)
    run("DELETE FROM {t}")
    done = run("RESTORE TABLE {t} TO VERSION AS OF 0")
    assert done.first()["num_restored_files"] == 1
    assert len(run.rows()) == 6
    assert run.last()["operationParameters"] == {"version": 0, "timestamp": None}


def test_only_tables_that_exist_can_be_restored(numbers):
    run = numbers(1)
    with pytest.raises(AnalysisException) as caught:
        run("RESTORE TABLE nowhere VERSION AS OF 0")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    run.spark.range(1).createOrReplaceTempView("of_numbers")
    try:
        with pytest.raises(AnalysisException, match="only supported for Delta tables") as caught:
            run("RESTORE of_numbers TO VERSION AS OF 0")
    finally:
        run.spark.catalog.dropTempView("of_numbers")
    assert caught.value.getCondition() == "DELTA_TABLE_ONLY_OPERATION"


def test_manifests_are_generated(numbers):
    run = numbers(2)
    assert run("GENERATE symlink_format_manifest FOR TABLE {t}").columns == []
    assert os.path.exists(f"{run.path}/_symlink_format_manifest/manifest")


def test_a_folder_of_parquet_files_is_converted(run):
    os.makedirs(f"{run.path}/day=2024-01-05")
    pq.write_table(pa.table({"id": [1, 2]}), f"{run.path}/day=2024-01-05/a.parquet")
    run(f"CONVERT TO DELTA parquet.`{run.path}` NO STATISTICS PARTITIONED BY (day DATE)")
    assert run.snapshot.partition_columns == ("day",)
    assert len(run.rows()) == 2
    with pytest.raises(StatementError, match="catalog names aren't supported"):
        run("CONVERT TO DELTA db.t")


def test_changes_are_read_by_path_and_by_name(numbers):
    run = numbers(2, {"delta.enableChangeDataFeed": "true"})
    run("DELETE FROM {t} WHERE id = 1")
    found = run(
        f"SELECT id, _change_type FROM table_changes_by_path('{run.path}', 0, 1) c "
        "WHERE c._commit_version = 1"
    )
    assert [tuple(r) for r in found.collect()] == [(1, "delete")]
    both = run(f"SELECT count(*) FROM table_changes('delta.`{run.path}`', 0) WHERE id >= 0")
    assert both.first()[0] == 3
    since = run(f"SELECT * FROM table_changes_by_path('{run.path}', now() - INTERVAL 1 DAY)")
    assert since.count() == 3
    with pytest.raises(StatementError, match="first version"):
        run(f"SELECT * FROM table_changes_by_path('{run.path}')")
    bayou.table(run.path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    run("INSERT INTO {t} VALUES (9, 9, 'x')")
    with pytest.raises(AnalysisException, match="ChangeDataFeedError"):
        run(f"SELECT * FROM table_changes_by_path('{run.path}', 0)").collect()
