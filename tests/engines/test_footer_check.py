"""Footers that end the process when pyarrow is asked for their columns."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.footer_check import FooterError, check_footer, footer_range
from bayou.errors import StorageError
from bayou.kernel.engine import FileStatus


def parquet_file() -> bytes:
    table = pa.table(
        {
            "id": pa.array([1, 2, None], pa.int64()),
            "text": ["a", None, "c"],
            "f": [1.5, 2.5, float("nan")],
            "d": pa.array([1, 2, 3], pa.decimal128(30, 2)),
            "l": [[{"x": 1}], [], None],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    return sink.getvalue()


def footer_of(data: bytes) -> bytes:
    found = footer_range(data[-8:], len(data))
    assert found is not None
    return data[found[0] : found[0] + found[1]]


def look_at_every_flip() -> None:
    """Ask pyarrow for everything in each footer that the check lets through."""
    data = parquet_file()
    footer = footer_of(data)
    start = len(data) - 8 - len(footer)
    refused = 0
    for bit in range(8 * len(footer)):
        changed = bytearray(footer)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            check_footer(bytes(changed))
        except FooterError:
            refused += 1
            continue
        with contextlib.suppress(pa.ArrowException, OSError, UnicodeDecodeError):
            file = pq.ParquetFile(io.BytesIO(data[:start] + bytes(changed) + data[-8:]))
            metadata = file.metadata
            for group in range(metadata.num_row_groups):
                for column in range(metadata.num_columns):
                    chunk = metadata.row_group(group).column(column)
                    statistics = chunk.statistics
                    with contextlib.suppress(Exception):
                        assert statistics is None or statistics.min != statistics.max
    assert refused > len(footer)


@pytest.mark.process
def test_what_passes_the_check_doesnt_end_the_process():
    program = "from test_footer_check import look_at_every_flip; look_at_every_flip()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=__file__.rpartition("/")[0],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_intact_footer_passes():
    check_footer(footer_of(parquet_file()))


def test_a_column_of_another_type_than_the_schemas_is_an_error_of_ours(tmp_path):
    data = parquet_file()
    footer = footer_of(data)
    # The chunk of `id`: field 1 (the type, int64) as the first of the struct that is field 3.
    place = footer.index(b"\x1c\x15\x04")
    broken = footer[: place + 2] + b"\x08" + footer[place + 3 :]
    with pytest.raises(FooterError, match="another physical type"):
        check_footer(broken)
    path = tmp_path / "f.parquet"
    path.write_bytes(data[: -8 - len(footer)] + broken + data[-8:])
    status = FileStatus(path=str(path), size=len(data), modification_time=0)
    with pytest.raises(StorageError, match=r"f\.parquet.*another physical type"):
        ArrowEngine().parquet.read_row_groups(status)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x15", b"\x19\xfc\xff\xff\xff\x0f", b"\x1c" * 99])
def test_bytes_that_are_no_footer_are_an_error(data):
    with pytest.raises(FooterError):
        check_footer(data)


def test_a_footer_larger_than_its_file_isnt_looked_at():
    assert footer_range(b"\xff\xff\x00\x00PAR1", 100) is None
