import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayou.spark.streaming import sorted_files
from bayou.spark.streaming.sorted_files import sorted_batches

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.text(alphabet="abé\U0001f600~", max_size=3)), max_size=60
)


def batches(rows, size):
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        numbers, texts = [r[0] for r in part], [r[1] for r in part]
        yield pa.RecordBatch.from_pydict({"n": pa.array(numbers), "t": pa.array(texts)})


@given(ROWS, st.integers(1, 7), st.sampled_from([1, 100, 10**6]), st.integers(1, 5))
def test_rows_are_sorted_by_all_keys_whatever_memory_there_is(rows, size, memory, piece):
    held = sorted_files.BATCH_ROWS
    sorted_files.BATCH_ROWS = piece
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = list(sorted_batches(batches(rows, size), ("n", "t"), Path(folder), memory))
            assert list(Path(folder).iterdir()) == []
    finally:
        sorted_files.BATCH_ROWS = held
    flat = [(n, t) for b in found for n, t in zip(*b.to_pydict().values(), strict=True)]
    assert flat == sorted(rows, key=lambda r: (r[0], r[1].encode()))
    assert all(len(batch) == piece for batch in found[:-1])
