"""Rows of large upserts, which executors store until they are merged."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import KafkaError
from bayou.ingest.batch.arrow_transfer import encode_batches
from bayou.ingest.batch.batch_task import BatchTaskResult
from bayou.ingest.spark_errors import translate_errors
from bayou.ingest.upsert import DELETED, UpsertKeys, UpsertTable
from bayou.ingest.upsert.on_executors import CachedRows, merge_on_executors
from bayou.kernel import Table
from bayou.protocol.schema import LONG, StructField, StructType

COLUMNS = StructType((StructField(name="id", data_type=LONG),))
MOMENT = dt.datetime(2024, 1, 5, tzinfo=dt.UTC)


def test_lost_rows_that_can_not_be_read_again_are_an_error(spark, tmp_path):
    ran = tmp_path / "ran"

    def work(_):
        yield encode_batches([pa.RecordBatch.from_pydict({"id": [1, 2]})])
        failure = KafkaError("the broker sends no records", topic="t") if ran.exists() else None
        ran.touch()
        yield BatchTaskResult(rows=2, failure=failure)

    rows = CachedRows(spark, work, 1)
    (result,) = rows.results()
    assert result.failure is None
    assert sorted(row.id for row in rows.frame(COLUMNS).collect()) == [1, 2]
    rows._chunks.unpersist(blocking=True)  # as if the executor that stored them was lost
    with pytest.raises(KafkaError, match="the broker sends no records"), translate_errors("t"):
        rows.frame(COLUMNS).collect()
    rows.close()


def test_the_merge_sets_the_time_that_would_change_if_rows_were_read_again(spark, tmp_path):
    path, time = str(tmp_path / "t"), pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        {
            "id": pa.int64(),
            "_kafka_topic": pa.string(),
            "_kafka_partition": pa.int32(),
            "_kafka_offset": pa.int64(),
            "_processed_at": time,
            "_kafka_timestamp": time,
        }
    )

    def work(number):
        row = (number, "t", 0, number, MOMENT + dt.timedelta(seconds=number), MOMENT, False)
        columns = pa.schema([*schema, pa.field(DELETED, pa.bool_())])
        values = {name: [value] for name, value in zip(columns.names, row, strict=True)}
        yield encode_batches([pa.RecordBatch.from_pydict(values, columns)])
        yield BatchTaskResult(rows=1)

    bayou.write(path, schema.empty_table())
    engine = for_path(path, {})
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    rows = CachedRows(spark, work, 2)
    result = merge_on_executors(
        rows,
        UpsertTable(engine, path, UpsertKeys(columns=("id",)), engine_info="test"),
        snapshot,
        snapshot.schema,
        rows=2,
        storage_options={},
        transaction_ids={"t": 1},
        table_properties={},
    )
    rows.close()
    assert result.inserted == 2
    (written,) = set(bayou.table(path).to_arrow()["_processed_at"].to_pylist())
    assert written > MOMENT + dt.timedelta(days=1)
