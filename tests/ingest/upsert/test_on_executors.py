"""Rows of large upserts, which executors store until they are merged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bayou.errors import KafkaError
from bayou.ingest.batch.arrow_transfer import encode_batches
from bayou.ingest.batch.batch_task import BatchTaskResult
from bayou.ingest.spark_errors import translate_errors
from bayou.ingest.upsert.on_executors import CachedRows
from bayou.protocol.schema import LONG, StructField, StructType

COLUMNS = StructType((StructField(name="id", data_type=LONG),))


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
