"""Every statement of the guide, run in its order over tables of a folder of the test's own."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou

pytestmark = pytest.mark.spark

_GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "sql.md"


def statements() -> list[str]:
    blocks = re.findall(r"^```sql\n(.*?)^```", _GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return [text.strip() for block in blocks for text in block.split(";\n") if text.strip()]


def test_every_statement_of_the_guide_runs(spark, tmp_path):
    lake = tmp_path / "lake"
    parquet = lake / "parquet" / "day=2024-01-05"
    parquet.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), parquet / "a.parquet")
    place = f"delta.`{lake}/events`"
    spark.sql(
        f"CREATE TABLE {place} (id BIGINT, day DATE) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO {place} VALUES (0, DATE'2024-01-04')")
    spark.sql(f"CREATE TABLE delta.`{lake}/clustered` (id INT) USING delta CLUSTER BY (id)")
    spark.sql(
        f"CREATE TABLE delta.`{lake}/inventory` (path STRING, length BIGINT, isDir BOOLEAN, "
        "modificationTime BIGINT) USING delta"
    )
    found = statements()
    assert len(found) > 50
    for text in found:
        spark.sql(text.replace("/lake/", f"{lake}/"))
    rows = bayou.table(str(lake / "events")).to_arrow().to_pylist()
    assert rows == [{"id": 0, "day": rows[0]["day"]}]
    assert not bayou.table(str(lake / "copy")).to_arrow().num_rows
