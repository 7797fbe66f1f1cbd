"""delta-spark reads checkpoints with sidecars that we write, where the commits are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import bayou

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)


def test_it_reads_our_sidecars(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    props = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}
    for i in range(5):
        bayou.write(str(path), pa.table({"id": [i]}), configuration=props if i == 0 else None)
    assert list((path / "_delta_log" / "_sidecars").glob("*.parquet"))
    for commit in list((path / "_delta_log").glob("*0[01].json")):
        commit.unlink()
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (9)")
    assert sorted(delta_spark.read(path)["id"].to_pylist()) == [0, 1, 2, 3, 4, 9]
    assert sorted(bayou.table(str(path)).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 9]
