from __future__ import annotations

import itertools
import pickle
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines import for_path
from bayou.kernel import Table
from bayou.kernel.commands.optimize.optimize import plan_zorder
from bayou.kernel.commands.optimize.rewrite import RewriteTask
from bayou.kernel.commands.optimize.sorted_rewrite import (
    OrderedParts,
    sample_item,
    split_item,
    with_files,
    write_ordered,
)


@pytest.mark.parametrize("memory_bytes", [1, 256 << 20])
def test_processes_that_share_an_item_write_what_one_would(tmp_path, memory_bytes):
    path = str(tmp_path / "t")
    numbers = random.Random(7)
    for start in range(0, 3000, 1000):
        values = [numbers.randrange(10_000) for _ in range(1000)]
        ids = list(range(start, start + 1000))
        bayou.write(path, pa.table({"id": ids, "position": values}))
    engine = for_path(path)
    state = Table.for_path(engine, path).latest_snapshot(engine)
    size = sum(f["size"] for f in bayou.table(path).snapshot().files().to_pylist())
    plan = plan_zorder(engine, state, "test", ["position"], target_bytes=size // 4)
    (item,) = plan.items
    shares = [RewriteTask.from_bytes(with_files(item, [n]).to_bytes()) for n in range(3)]
    samples = [pickle.loads(pickle.dumps(sample_item(engine, share))) for share in shares]
    assert sum(sample.num_rows for sample in samples) == 3000
    parts = OrderedParts.of(item, samples)
    found: dict[int, list[pa.RecordBatch]] = {}
    for share in shares:
        for bucket, rows in split_item(engine, share, parts, memory_bytes=memory_bytes):
            found.setdefault(bucket, []).append(rows)
    buckets = sorted(found)
    assert {parts.file_of(b) for b in buckets} == set(range(item.num_files))
    files = []
    for _, group in itertools.groupby(buckets, key=parts.file_of):
        adds = write_ordered(engine, with_files(item, [0]), [found[b] for b in group])
        assert len(adds) == 1
        files.append(pq.read_table(f"{path}/{adds[0].path}"))
    values = [file["position"].to_pylist() for file in files]
    for before, after in itertools.pairwise(values):
        assert max(before) <= min(after)
    assert sorted(itertools.chain(*(f["id"].to_pylist() for f in files))) == list(range(3000))


def test_samples_of_unequal_shares_count_by_their_rows(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": list(range(300_000))}))
    bayou.write(path, pa.table({"id": list(range(300_000, 301_000))}))
    engine = for_path(path)
    state = Table.for_path(engine, path).latest_snapshot(engine)
    (item,) = plan_zorder(engine, state, "test", ["id"]).items
    samples = [sample_item(engine, with_files(item, [n])) for n in range(2)]
    assert {sample.fraction for sample in samples} >= {1.0}
    parts = OrderedParts.of(item, samples)
    assert parts.positions.num_rows == 301_000
    assert len(parts.positions.sampled) < 250_000
