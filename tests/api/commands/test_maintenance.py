"""The short API's upkeep."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError


def test_a_checkpoint_is_written_for_the_latest_version(tmp_path: Path) -> None:
    bayou.write(tmp_path, pa.table({"id": [1]}))
    bayou.write(tmp_path, pa.table({"id": [2]}))
    assert bayou.table(tmp_path).create_checkpoint() == 1
    assert (tmp_path / "_delta_log" / f"{1:020}.checkpoint.parquet").exists()
    assert bayou.table(tmp_path).to_arrow().num_rows == 2


def test_a_version_that_is_no_number_is_refused(tmp_path: Path) -> None:
    bayou.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(ArgumentError, match="-1 isn.t a table version"):
        bayou.table(tmp_path).create_checkpoint(-1)
