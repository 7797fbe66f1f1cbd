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


def test_vacuum_deletes_what_nothing_needs(numbers):
    run = numbers(6)
    run("DELETE FROM {t} WHERE id = 1")
    with pytest.raises(ArgumentError, match="shorter"):
        run("VACUUM {t} RETAIN 0 HOURS")
    run.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        found = run("VACUUM {t} RETAIN 0 HOURS DRY RUN").collect()
        assert len(found) == 1
        assert found[0]["path"].startswith(f"file:{run.path}/")
        done = run("VACUUM {t} RETAIN 0 HOURS")
        assert [r.asDict() for r in done.collect()] == [{"path": f"file:{run.path}"}]
    finally:
        run.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert run.last()["operation"] == "VACUUM END"
    assert len([f for f in os.listdir(run.path) if f.endswith(".parquet")]) == 1
    run("VACUUM {t} LITE")


def test_restore_brings_a_version_back(numbers):
    run = numbers(6)
    run("DELETE FROM {t}")
    done = run("RESTORE TABLE {t} TO VERSION AS OF 0")
    assert done.first()["num_restored_files"] == 1
    assert len(run.rows()) == 6
    assert run.last()["operationParameters"] == {"version": 0, "timestamp": None}


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
    with pytest.raises(StatementError, match="no name of a catalog"):
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
    bayou.table(run.path).alter.set_properties({"delta.enableChangeDataFeed": "false"})
    run("INSERT INTO {t} VALUES (9, 9, 'x')")
    with pytest.raises(AnalysisException, match="ChangeDataFeedError"):
        run(f"SELECT * FROM table_changes_by_path('{run.path}', 0)").collect()
