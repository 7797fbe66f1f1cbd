from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayou.engines.memory import MemoryEngine
from bayou.kernel import Snapshot
from bayou.spark.native_read.file_index import LOG_BYTES_PER_FILE, grouped, too_many_files
from support.log_writer import LogWriter, add, metadata, protocol

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3) | st.none()), max_size=30
)


def columns_of(rows):
    return pa.table(
        {
            "p": pa.array([p for p, _ in rows], pa.string()),
            "n": pa.array([n for _, n in rows], pa.int32()),
        }
    )


def same_sizes(rows):
    return pa.array([1] * len(rows), pa.int64())


@given(ROWS)
def test_groups_hold_each_row_once_beside_rows_of_its_values(rows):
    groups = grouped(columns_of(rows), same_sizes(rows))
    order, offsets = groups.order.to_pylist(), groups.offsets.to_pylist()
    assert sorted(order) == list(range(len(rows)))
    values = [tuple(row.values()) for row in groups.values.to_pylist()]
    assert values == list(dict.fromkeys(rows))
    for value, start, end in zip(values, offsets, offsets[1:], strict=False):
        assert [i for i, row in enumerate(rows) if row == value] == order[start:end]


@given(ROWS, st.data())
def test_some_groups_keep_their_rows(rows, data):
    groups = grouped(columns_of(rows), same_sizes(rows))
    count = groups.values.num_rows
    some = sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else []
    kept = groups.only(pa.array(some, pa.int32()))
    order, offsets = kept.order.to_pylist(), kept.offsets.to_pylist()
    whole, ends = groups.order.to_pylist(), groups.offsets.to_pylist()
    expected = [whole[ends[g] : ends[g + 1]] for g in some]
    assert [order[a:b] for a, b in pairwise(offsets)] == expected


def test_a_log_tells_by_its_size_that_it_has_too_many_files():
    log = LogWriter(MemoryEngine(), "memory://t/t")
    log.commit(protocol(), metadata({"id": "long"}), *[add(f"{n}.parquet") for n in range(100)])
    snapshot = Snapshot.load(log.engine, log.table)
    assert snapshot.checksum_totals is None
    about = sum(f.size for f in snapshot.log_segment.commits) // LOG_BYTES_PER_FILE
    assert too_many_files(snapshot, about) is None
    assert too_many_files(snapshot, about - 1) == (
        f"it has about {about} files, more than {about - 1}"
    )


def test_files_without_partition_columns_are_one_group():
    assert grouped(pa.table({}), same_sizes(range(3))).offsets.to_pylist() == [0, 3]
    assert grouped(pa.table({}), same_sizes([])).offsets.to_pylist() == [0]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9)), max_size=30))
def test_files_of_a_group_are_sorted_by_size_and_then_by_their_order(files):
    groups = pa.table({"p": pa.array([p for p, _ in files], pa.string())})
    sizes = pa.array([size for _, size in files], pa.int64())
    for columns, group_of in ((groups, lambda i: files[i][0]), (groups.select([]), lambda _: None)):
        found = grouped(columns, sizes)
        first = {group_of(i): -i for i in reversed(range(len(files)))}
        expected = sorted(range(len(files)), key=lambda i: (-first[group_of(i)], -files[i][1], i))
        assert found.order.to_pylist() == expected
