from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.kernel.table_detail import file_totals


@pytest.fixture
def path(tmp_path):
    bayou.write(
        str(tmp_path / "t"),
        pa.table({"day": ["a", "b"], "id": [1, 2]}),
        partition_by=["day"],
        configuration={"delta.enableDeletionVectors": "true"},
    )
    return tmp_path / "t"


def sizes(path):
    return [f.stat().st_size for f in path.rglob("*.parquet") if "_delta_log" not in f.parts]


def test_a_table_is_described(path):
    detail = bayou.table(path).detail()
    assert (detail.version, detail.location) == (0, str(path))
    assert detail.partition_columns == ("day",)
    assert detail.clustering_columns == ()
    assert (detail.num_files, detail.size_in_bytes) == (2, sum(sizes(path)))
    assert (detail.min_reader_version, detail.min_writer_version) == (3, 7)
    assert "deletionVectors" in detail.table_features
    assert detail.properties["delta.enableDeletionVectors"] == "true"
    assert detail.created_at is not None
    assert detail.last_modified >= detail.created_at - 1000


@pytest.mark.parametrize("with_checksum", [True, False])
def test_files_are_counted_where_no_checksum_says_how_many(path, with_checksum):
    bayou.table(path).delete("id = 1")
    if not with_checksum:
        for file in (path / "_delta_log").glob("*.crc"):
            file.unlink()
    table = bayou.table(path)
    totals = file_totals(table._engine, table.snapshot().kernel)
    live = bayou.table(path).snapshot().files()
    assert (totals.files, totals.size) == (len(live), sum(live["size"].to_pylist()))
