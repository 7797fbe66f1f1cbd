"""delta-spark reads what we write, and we read what it writes, value for value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bayou

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)


def rows(table: pa.Table) -> list[str]:
    """Rows in the order of their ids, as text, so that NaN equals itself and -0.0 isn't 0.0."""
    names = sorted(table.column_names)
    return [repr(row) for row in table.select(names).sort_by("id").to_pylist()]


def test_it_reads_every_type_that_we_write(
    delta_spark: DeltaSpark, tmp_path: Path, every_type: pa.Table
) -> None:
    bayou.write(str(tmp_path / "t"), every_type)
    assert rows(delta_spark.read(tmp_path / "t")) == rows(every_type)


def test_we_read_every_type_that_it_writes(
    delta_spark: DeltaSpark, tmp_path: Path, every_type: pa.Table
) -> None:
    delta_spark.write(tmp_path / "t", every_type)
    assert rows(bayou.table(str(tmp_path / "t")).to_arrow()) == rows(every_type)


@pytest.mark.parametrize(
    "where",
    [
        "double > 1.0",
        "double = 0.0",
        "float < 0.2",
        "text >= 'zzzz'",
        "text = 'it\\'s'",
        "instant >= TIMESTAMP '2038-01-19 03:14:08'",
        "instant < TIMESTAMP '1970-01-01 00:00:00'",
        "long = 9223372036854775807",
        "small_decimal > 1.05",
        "day >= DATE '9999-12-31'",
        "struct.a = 2",
        "flag",
        "bytes IS NULL",
    ],
)
def test_it_loses_no_row_by_our_statistics_nor_we_by_its(
    delta_spark: DeltaSpark, tmp_path: Path, every_type: pa.Table, where: str
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for i in range(every_type.num_rows):
        bayou.write(str(ours), every_type.slice(i, 1))
    delta_spark.write(theirs, every_type)
    expected = rows(delta_spark.read(theirs, where=where))
    assert rows(delta_spark.read(ours, where=where)) == expected
    assert rows(bayou.table(str(theirs)).to_arrow(filter=where)) == expected
    assert rows(bayou.table(str(ours)).to_arrow(filter=where)) == expected


def test_it_reads_partitions_that_we_write(
    delta_spark: DeltaSpark, tmp_path: Path, days: pa.Table
) -> None:
    bayou.write(str(tmp_path / "t"), days, partition_by=["day", "name"])
    read = bayou.table(str(tmp_path / "t")).to_arrow()
    assert rows(delta_spark.read(tmp_path / "t")) == rows(read)
    assert rows(read) == rows(_empty_as_null(days))


def test_we_read_partitions_that_it_writes(
    delta_spark: DeltaSpark, tmp_path: Path, days: pa.Table
) -> None:
    delta_spark.write(tmp_path / "t", days, partition_by=["day", "name"])
    table = bayou.table(str(tmp_path / "t"))
    assert rows(table.to_arrow()) == rows(_empty_as_null(days))
    where = "name = 'a/b' AND day = DATE '2024-01-01'"
    expected = rows(delta_spark.read(tmp_path / "t", where=where))
    assert rows(table.to_arrow(filter=where)) == expected


def test_it_reads_our_checkpoints_and_our_older_versions(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    for i in range(12):
        bayou.write(str(path), pa.table({"id": [i], "text": [f"row {i}"]}))
    bayou.write(str(path), pa.table({"id": [100], "text": ["new"]}), mode="overwrite")
    assert list((path / "_delta_log").glob("*.checkpoint.parquet"))
    assert delta_spark.read(path)["id"].to_pylist() == [100]
    assert sorted(delta_spark.read(path, version=10)["id"].to_pylist()) == list(range(11))


def test_we_read_its_checkpoints_and_its_older_versions(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    for i in range(12):
        delta_spark.write(path, pa.table({"id": [i], "text": [f"row {i}"]}))
    delta_spark.write(path, pa.table({"id": [100], "text": ["new"]}), mode="overwrite")
    table = bayou.table(str(path))
    assert table.to_arrow()["id"].to_pylist() == [100]
    assert sorted(table.to_arrow(version=10)["id"].to_pylist()) == list(range(11))


def test_we_read_what_its_delete_update_and_merge_leave(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    delta_spark.write(path, pa.table({"id": list(range(100)), "n": [0] * 100}))
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 0")
    delta_spark.sql(f"UPDATE delta.`{path}` SET n = id WHERE id > 50")
    delta_spark.sql(
        f"MERGE INTO delta.`{path}` t USING (SELECT explode(sequence(90, 110)) AS id) s"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = -1"
        " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, -2)"
    )
    delta_spark.sql(f"OPTIMIZE delta.`{path}`")
    assert rows(bayou.table(str(path)).to_arrow()) == rows(delta_spark.read(path))


def test_both_append_to_one_table_in_turn(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for i in range(0, 24, 2):
        bayou.write(str(path), pa.table({"id": [i], "part": ["ours"]}), partition_by=["part"])
        delta_spark.write(
            path, pa.table({"id": [i + 1], "part": ["theirs"]}), partition_by=["part"]
        )
    table = bayou.table(str(path))
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(24))
    assert sorted(delta_spark.read(path)["id"].to_pylist()) == list(range(24))
    engines = {str(entry["engineInfo"]).split("/")[0] for entry in table.history()}
    assert engines == {"bayou", "Apache-Spark"}


def _empty_as_null(table: pa.Table) -> pa.Table:
    names = table["name"]
    index = table.column_names.index("name")
    null = pa.scalar(None, pa.string())
    return table.set_column(index, "name", pc.if_else(pc.equal(names, ""), null, names))
