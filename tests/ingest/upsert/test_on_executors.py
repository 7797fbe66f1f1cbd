"""Upserts of large batches on Spark's executors."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import KafkaError
from bayou.ingest.batch.arrow_transfer import encode_batches
from bayou.ingest.batch.batch_task import BatchTaskResult
from bayou.ingest.spark_errors import translate_errors
from bayou.ingest.upsert import DELETED, UpsertKeys, UpsertTable
from bayou.ingest.upsert.on_executors import BucketedRows, merge_on_executors, write_on_executors
from bayou.kernel import Operation, Table
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.spark.jvm.jobs import delete_shuffle_files

MOMENT = dt.datetime(2024, 1, 5, tzinfo=dt.UTC)


TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "_kafka_topic": pa.string(),
        "_kafka_partition": pa.int32(),
        "_kafka_offset": pa.int64(),
        "_processed_at": TIME,
        "_kafka_timestamp": TIME,
    }
)


def encoded(*rows):
    """Encode rows of the columns (id, offset, time, deleted)."""
    values = [(i, "t", 0, offset, time, MOMENT, deleted) for i, offset, time, deleted in rows]
    columns = pa.schema([*SCHEMA, pa.field(DELETED, pa.bool_())])
    arrays = [list(column) for column in zip(*values, strict=True)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(v, f.type) for v, f in zip(arrays, columns, strict=True)], schema=columns
    )
    return encode_batches([batch])


def upsert_table(path):
    engine = for_path(path, {})
    return UpsertTable(engine, path, UpsertKeys(columns=("id",)), engine_info="test")


def test_lost_rows_that_can_not_be_read_again_are_an_error(spark, tmp_path):
    ran = tmp_path / "ran"

    def work(task, buckets):
        yield 0, b"rows"
        failure = KafkaError("the broker sends no records", topic="t") if ran.exists() else None
        ran.touch()
        yield BatchTaskResult(rows=2, failure=failure)

    rows = BucketedRows(spark, work, tasks=1, records=2)
    (result,) = rows.results()
    assert result.failure is None
    assert rows.buckets.collect() == [b"rows"]
    delete_shuffle_files(rows._shuffled)  # as if the executor that stored them was lost
    with pytest.raises(KafkaError, match="the broker sends no records"), translate_errors("t"):
        rows.buckets.collect()
    rows.close()


def test_the_merge_sets_the_time_that_would_change_if_rows_were_read_again(spark, tmp_path):
    path = str(tmp_path / "t")

    def work(task, buckets):
        yield task, encoded((task, task, MOMENT + dt.timedelta(seconds=task), False))
        yield BatchTaskResult(rows=1)

    bayou.write(path, SCHEMA.empty_table())
    table = upsert_table(path)
    snapshot = Table.for_path(table.engine, path).latest_snapshot(table.engine)
    rows = BucketedRows(spark, work, tasks=2, records=2)
    result = merge_on_executors(
        rows,
        snapshot.schema,
        table,
        snapshot,
        has_deletes=False,
        storage_options={},
        transaction_ids={"t": 1},
        table_properties={},
    )
    rows.close()
    assert result.inserted == 2
    (written,) = set(bayou.table(path).to_arrow()["_processed_at"].to_pylist())
    assert written > MOMENT + dt.timedelta(days=1)


@pytest.fixture
def new_table(tmp_path):
    """An upsert table that doesn't exist yet, its columns, and the state of a transaction."""
    table = upsert_table(str(tmp_path / "t"))
    transaction = (
        Table.for_path(table.engine, table.path)
        .create_transaction_builder(table.engine, "test", Operation.STREAMING_UPDATE)
        .with_schema(from_arrow_schema(SCHEMA))
        .build(table.engine)
    )
    return table, transaction


def test_the_last_row_of_each_key_is_written_to_a_new_table(spark, new_table):
    table, transaction = new_table

    def work(task, buckets):
        yield 0, encoded((1, task, MOMENT, False), (2, 10 - task, MOMENT, False))
        yield 1, encoded((3 + task, task, MOMENT, False))
        yield BatchTaskResult(rows=3)

    rows = BucketedRows(spark, work, tasks=2, records=6)
    assert [result.rows for result in rows.results()] == [3, 3]
    state = transaction.transaction_state(table.engine).to_bytes()
    adds, count = write_on_executors(rows, from_arrow_schema(SCHEMA), table, state)
    rows.close()
    transaction.commit(table.engine, adds)
    written = bayou.table(table.path).to_arrow(columns=["id", "_kafka_offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in written) == [(1, 1), (2, 10), (3, 0), (4, 1)]
    assert count == 4
    assert len(adds) == 2


def test_of_a_failed_write_no_file_remains(spark, new_table):
    table, transaction = new_table

    def work(task, buckets):
        yield 0, encoded((1, 0, MOMENT, False))
        yield 1, encoded((2, 1, MOMENT, False)) if task == 0 else b"damaged"
        yield BatchTaskResult(rows=2)

    rows = BucketedRows(spark, work, tasks=2, records=4)
    rows.results()
    state = transaction.transaction_state(table.engine).to_bytes()
    with pytest.raises((pa.ArrowInvalid, RuntimeError)):
        write_on_executors(rows, from_arrow_schema(SCHEMA), table, state)
    rows.close()
    assert not list(Path(table.path).glob("**/*.parquet"))
