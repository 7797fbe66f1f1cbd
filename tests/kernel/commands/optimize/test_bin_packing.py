"""Files of a partition are rewritten together."""

from __future__ import annotations

import msgspec

from bayou.kernel import Operation, ScanFile
from bayou.kernel.commands.optimize.bin_packing import by_partition, pack


def test_partition_values_of_one_meaning_are_one_partition(engine, snapshot, written):
    written([{"n": 1, "x": 1}], partition_by=["n"])
    state = snapshot()
    builder = state.build_update_table_transaction("test/1", Operation.OPTIMIZE)
    writing = builder.build(engine).transaction_state(engine)
    (file,) = state.scan_builder().build().scan_files(engine).flat_map(lambda b: b.rows())
    texts = ["1", "01", "", None, "2"]
    files = [
        ScanFile(
            table_root=file.table_root,
            add=msgspec.structs.replace(file.add, partition_values={"n": text}),
        )
        for text in texts
    ]
    groups = by_partition(writing, files)
    found = [[f.partition_values["n"] for f in group] for group in groups]
    assert found == [
        ["1", "01"],
        ["", None],
        ["2"],
    ]


def test_a_bin_ends_before_the_file_that_would_exceed_its_size(snapshot, engine, written):
    written([{"n": 1}])
    (file,) = snapshot().scan_builder().build().scan_files(engine).flat_map(lambda b: b.rows())
    sizes = [2, 3, 6, 1, 9, 1]
    files = [
        ScanFile(table_root=file.table_root, add=msgspec.structs.replace(file.add, size=size))
        for size in sizes
    ]
    assert [[f.size for f in members] for members in pack(files, 5)] == [[2, 3], [6], [1], [9], [1]]
