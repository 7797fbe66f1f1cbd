"""The encoding of rows for transfer between processes."""

from __future__ import annotations

import pyarrow as pa

from bayou.ingest.batch.arrow_transfer import decode_rows, encode_buckets, estimated_row_bytes
from bayou.protocol.schema import INTEGER, LONG, STRING, ArrayType, StructField, StructType


def columns(**types):
    return StructType(tuple(StructField(name=n, data_type=t) for n, t in types.items()))


def test_all_rows_of_a_key_are_in_one_bucket_in_their_order() -> None:
    batches = [
        pa.RecordBatch.from_pydict({"id": [n % 7 for n in range(20)], "n": list(range(20))}),
        pa.RecordBatch.from_pydict({"id": [n % 7 for n in range(20)], "n": list(range(20, 40))}),
    ]
    buckets = {}
    for bucket, stream in encode_buckets(batches, ["id"], 3):
        buckets.setdefault(bucket, []).append(stream)
    rows = {bucket: decode_rows(streams) for bucket, streams in buckets.items()}
    keys = [set(table["id"].to_pylist()) for table in rows.values()]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 7
    for table in rows.values():
        for key in set(table["id"].to_pylist()):
            order = [r["n"] for r in table.to_pylist() if r["id"] == key]
            assert order == sorted(order)
    assert sorted(n for table in rows.values() for n in table["n"].to_pylist()) == list(range(40))


def test_without_rows_there_are_no_buckets() -> None:
    assert list(encode_buckets([], ["id"], 3)) == []


def test_the_estimated_size_of_a_row_follows_the_types() -> None:
    place = columns(lat=LONG, name=STRING)
    row = columns(id=LONG, n=INTEGER, place=place, tags=ArrayType(element_type=STRING))
    assert estimated_row_bytes(row) == 8 + 4 + (8 + 20) + 20
