"""Rows of a data file by their positions in it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.transform import naming_data_file

__all__ = ["bitmap", "num_rows", "row_group_ranges"]

pc: Any = pyarrow.compute


def bitmap(positions: pa.Array[Any]) -> BitMap64:
    """A set of positions; integers without nulls."""
    if len(positions) == 0:
        return BitMap64()
    first, last = pc.min_max(positions).values()
    if last.as_py() - first.as_py() == len(positions) - 1:  # no position comes twice
        return BitMap64(range(first.as_py(), last.as_py() + 1))
    numbers = array("Q")
    numbers.frombytes(
        pc.add(pc.cast(positions, pa.uint64()), pa.scalar(0, pa.uint64())).buffers()[1]
    )
    return BitMap64(numbers)


def num_rows(engine: Engine, file: ScanFile) -> int:
    """Rows in the file, deleted ones included; from its statistics, else from its footer.

    Raises:
        DataFileError: the file is missing or can't be read.
    """
    if file.num_records is not None:
        return file.num_records
    with naming_data_file(file.table_root, file.status.path):
        return sum(group.num_rows for group in engine.parquet.read_row_groups(file.status))


def row_group_ranges(
    engine: Engine,
    file: ScanFile,
    only: BitMap64 | None,
    first: int = 0,
    end: int | None = None,
) -> Iterator[tuple[int, int | None]]:
    """Runs of row groups, first and end, that hold a row of `only`; all of them where it is None.

    Args:
        first, end: looked at are row groups from the first to before the end one, None: all.
    """
    if only is None:
        yield first, end
        return
    begin: int | None = None
    position = number = 0
    with naming_data_file(file.table_root, file.status.path):
        groups = engine.parquet.read_row_groups(file.status)
    for number, group in enumerate(groups):
        next_position = position + group.num_rows
        inside = number >= first and (end is None or number < end)
        if inside and only.range_cardinality(position, next_position) > 0:
            begin = number if begin is None else begin
        elif begin is not None:
            yield begin, number
            begin = None
        position = next_position
    if begin is not None:
        yield begin, number + 1
