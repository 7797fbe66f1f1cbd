"""Tables that delta-spark made and writes get Iceberg metadata from Bayou."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from support.iceberg_tables import assert_equal_formats


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_of_delta_spark_gets_iceberg_metadata(
    delta_spark, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "table"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day STRING, tags ARRAY<STRING>) USING delta "
        f"PARTITIONED BY (day) TBLPROPERTIES ('delta.enableIcebergCompatV{version}' = 'true', "
        "'delta.columnMapping.mode' = 'name')"
    )
    rows = "SELECT id, CAST(id % 2 AS STRING) day, array('t') tags FROM range(10)"
    delta_spark.sql(f"INSERT INTO delta.`{path}` {rows}")
    table = bayou.table(path)
    table.alter.set_table_properties({"delta.universalFormat.enabledFormats": "iceberg"})
    assert_equal_formats(path)
    delta_spark.sql(f"INSERT INTO delta.`{path}` {rows}")
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    assert table.iceberg.lag() == 2
    table.iceberg.sync()
    assert_equal_formats(path)
    more = pa.table({"id": [77], "day": ["x"], "tags": pa.array([["u"]])})
    bayou.write(path, more)
    assert_equal_formats(path)
    assert delta_spark.read(path).num_rows == 19
