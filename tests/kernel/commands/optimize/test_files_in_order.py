"""The order and size of the batches that a rewrite reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.kernel import Table
from bayou.kernel.commands.optimize.files_in_order import read_in_order
from bayou.kernel.commands.optimize.optimize import plan_optimize


@pytest.mark.parametrize(
    ("length", "expected"), [(1, [36]), (1 << 20, [12, 12, 12])], ids=["small", "large"]
)
def test_only_small_batches_are_concatenated(tmp_path, length, expected):
    path = str(tmp_path / "t")
    for start in (0, 12, 24):
        rows = {"id": list(range(start, start + 12)), "s": ["x" * length] * 12}
        bayou.write(path, pa.table(rows))
    engine = for_path(path)
    (item,) = plan_optimize(engine, Table.for_path(engine, path).latest_snapshot(engine), "t").items
    with read_in_order(engine, item.scan_state, item.files) as batches:
        found = list(batches)
    assert [batch.num_rows for batch in found] == expected
    assert sorted(n for batch in found for n in batch.column("id").to_pylist()) == list(range(36))
