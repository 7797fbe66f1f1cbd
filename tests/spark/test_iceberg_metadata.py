"""SQL, DataFrames and DeltaTable write Iceberg metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.spark import DeltaTable
from support.iceberg_tables import assert_equal_formats, metadata


@pytest.mark.parametrize("version", [2, 3])
def test_each_way_to_write_writes_iceberg_metadata(spark, tmp_path: Path, version: int) -> None:
    path = tmp_path / "table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day STRING) USING delta PARTITIONED BY (day) "
        f"TBLPROPERTIES ('delta.enableIcebergCompatV{version}' = 'true', "
        "'delta.universalFormat.enabledFormats' = 'iceberg')"
    )
    assert_equal_formats(path)
    rows = spark.range(10).selectExpr("id", "CAST(id % 2 AS STRING) AS day")
    rows.write.format("delta").mode("append").save(str(path))
    assert_equal_formats(path)
    table = DeltaTable.forPath(spark, str(path))
    table.delete("id < 3")
    assert_equal_formats(path)
    source = spark.range(8, 12).selectExpr("id", "'x' AS day")
    merger = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merger.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert_equal_formats(path)
    spark.sql(f"UPDATE delta.`{path}` SET day = 'y' WHERE id = 5")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert_equal_formats(path)
    assert metadata(path)["format-version"] == version


def test_reorg_gives_an_existing_table_iceberg_metadata(spark, tmp_path: Path) -> None:
    path = tmp_path / "table"
    spark.range(10).write.format("delta").save(str(path))
    spark.sql(f"REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))")
    assert_equal_formats(path)
