"""Partitions by a timestamp without a zone, which each reader takes in its own: they stay so."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Snapshot
from bayou.kernel.transform import read_scan_file
from support.log_writer import LogWriter, add, metadata, protocol

LOCAL, ZONED = "2024-01-01 00:00:00", "2024-01-01T00:00:00.000000Z"
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def table_of(folder: str, properties: dict[str, str]) -> tuple[ArrowEngine, str]:
    """Two files of one partition as UTC has it, of two in any other zone."""
    engine = ArrowEngine()
    log = LogWriter(engine, folder)
    features = (["deletionVectors"], ["deletionVectors", "changeDataFeed"])
    adds = []
    for name, text, first in (("a", LOCAL, 1), ("b", LOCAL, 4), ("c", ZONED, 7)):
        rows = pa.table({"id": pa.array(range(first, first + 3), pa.int64())})
        data = io.BytesIO()
        pq.write_table(rows, data)
        log.engine.files.put(f"{log.table}/{name}", data.getvalue())
        values, size = {"p": text}, len(data.getvalue())
        adds.append(add(name, partition_values=values, size=size, stats={"numRecords": 3}))
    schema = {"id": "long", "p": "timestamp"}
    log.commit(protocol(3, 7, features), metadata(schema, ["p"], properties), *adds)
    return engine, log.table


def rows_in(engine: ArrowEngine, table: str, zone: str) -> list[Any]:
    scan = Snapshot.load(engine, table).scan_builder().with_time_zone(zone).build()
    state = scan.scan_state(engine)
    with scan.scan_files(engine) as batches:
        files = [file for batch in batches for file in batch.rows()]
    found = [r for f in files for b in read_scan_file(engine, state, f) for r in b.to_pylist()]
    return sorted(tuple(row.values()) for row in found)


CHANGES = {
    "optimize": lambda table: table.optimize(),
    "delete": lambda table: table.delete("id IN (1, 8)"),
    "update": lambda table: table.update({"id": "id + 0"}, "id IN (2, 7)"),
    "merge": lambda table: (
        table.merge(pa.table({"id": [1, 9]}), "target.id = source.id")
        .when_matched_delete()
        .execute()
    ),
}


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_rows_keep_their_time_in_every_zone(tmp_path, name, properties):
    engine, path = table_of(str(tmp_path), properties)
    before = rows_in(engine, path, "Asia/Tokyo")
    table = bayou.table(path, engine=engine)
    CHANGES[name](table)
    assert table.snapshot().version == 1
    after = rows_in(engine, path, "Asia/Tokyo")
    assert after == [row for row in before if row in after]
    gone = {"optimize": 0, "delete": 2, "update": 0, "merge": 2}[name]
    assert len(after) == len(before) - gone
