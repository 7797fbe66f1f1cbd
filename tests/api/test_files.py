"""The list of live files: row counts from statistics in any form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import CorruptTableError
from support.log_writer import LogWriter, add, metadata, protocol


def _table(folder: Path, stats: Sequence[str | None]) -> str:
    log = LogWriter(ArrowEngine(), str(folder / "t"))
    adds = [add(f"f{i}", stats=text) for i, text in enumerate(stats)]
    log.commit(protocol(), metadata({"id": "long"}), *adds)
    return log.table


@pytest.mark.parametrize(
    ("stats", "counts"),
    [
        (['{"numRecords":3}', '{"numRecords":12,"minValues":{"id":1}}'], [3, 12]),
        (['{"numRecords":3}', None], [3, None]),
        (['{"numRecords":3}', "{}"], [3, None]),
        (['{"numRecords": 3 }', '{"numRecords":4}'], [3, 4]),
        (['{"minValues":{"id":1},"numRecords":5}', '{"numRecords":4}'], [5, 4]),
        (['{"numRecords":7,"tightBounds":false}', '{"numRecords":4}'], [7, 4]),
        (['{"numRecords":-1}', '{"numRecords":4}'], [-1, 4]),
        (['{"numRecords":9223372036854775807}'], [9223372036854775807]),
        ([None, None], [None, None]),
    ],
    ids=str,
)
def test_row_counts_are_those_in_the_statistics(
    tmp_path: Path, stats: list[str | None], counts: list[int | None]
) -> None:
    files = bayou.table(_table(tmp_path, stats)).snapshot().files()
    by_path = dict(
        zip(files.column("path").to_pylist(), files.column("num_records").to_pylist(), strict=True)
    )
    assert [by_path[f"f{i}"] for i in range(len(stats))] == counts


@pytest.mark.parametrize("stats", ['{"numRecords":3x}', "no JSON", '{"numRecords":'])
def test_statistics_that_are_not_json_are_an_error(tmp_path: Path, stats: str) -> None:
    with pytest.raises(CorruptTableError, match="file statistics in the log aren't JSON"):
        bayou.table(_table(tmp_path, ['{"numRecords":3}', stats])).snapshot().files()
