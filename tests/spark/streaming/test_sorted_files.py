import pyarrow as pa

from bayou.kernel.scan.scan_file import adds_to_array
from bayou.kernel.table_changes.change_plan import path_order
from bayou.protocol.actions import AddFile
from bayou.spark.streaming.sorted_files import SortedFiles


def adds(*files):
    return adds_to_array(
        [
            AddFile(
                path=path,
                partition_values={},
                size=size,
                modification_time=time,
                data_change=True,
            )
            for path, size, time in files
        ]
    )


def build(*pieces, memory=None):
    return SortedFiles.build([(piece, path_order(piece.field("path"))) for piece in pieces], memory)


def names(files, start=0, end=None):
    return [p for piece in files.adds(start, end) for p in piece.field("path").to_pylist()]


def test_files_are_ordered_by_time_then_by_path():
    files = build(adds(("b", 1, 5), ("a", 2, 5)), adds(("z", 4, 1)))
    assert names(files) == ["z", "a", "b"]
    assert (files.count, files.size) == (3, 7)
    assert [s for piece in files.sizes(1) for s in piece.to_pylist()] == [2, 1]


def test_one_path_is_ordered_alike_however_it_is_spelled():
    spelled, plain = adds(("x%7Ez", 1, 0), ("x~y", 1, 0)), adds(("x~z", 1, 0), ("x~y", 1, 0))
    assert names(build(spelled)) == ["x~y", "x%7Ez"]
    assert names(build(plain)) == ["x~y", "x~z"]


def test_what_does_not_fit_in_memory_is_the_same_from_the_disk():
    many = [(f"f{n * 7919 % 20_000:05}", n, n % 3) for n in range(20_000)]
    pieces = [adds(*many[start : start + 3_000]) for start in range(0, len(many), 3_000)]
    small, large = build(*pieces, memory=100_000), build(*pieces)
    try:
        assert small.count == large.count == 20_000
        assert names(small) == names(large)
        assert names(small, 8_190, 8_195) == names(large, 8_190, 8_195)
        assert names(small, 19_999) == names(large, 19_999)
    finally:
        small.close()


def test_a_cleaned_up_disk_is_noticed():
    many = adds(*[(f"f{n}", 1, n) for n in range(20_000)])
    files = build(many, memory=1_000)
    assert files.is_available
    files.close()
    assert not files.is_available
    assert build(many).is_available


def test_no_files_are_no_files():
    files = build()
    assert (files.count, names(files)) == (0, [])
    assert isinstance(next(build(adds(("a", 1, 1))).adds(0)), pa.StructArray)
