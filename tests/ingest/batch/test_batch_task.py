"""A task's share of a batch: dead letters wait in bounded memory, whatever comes."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from bayou.engines import for_path
from bayou.ingest.batch import batch_task
from bayou.ingest.batch.batch_task import BatchTask
from bayou.ingest.batch.record_reader import RecordReading
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.dead_letters.records import DEAD_LETTER_SCHEMA
from bayou.ingest.decode import DecodePlan, record_columns
from bayou.kernel import Operation, Table
from bayou.spark.kafka import KafkaTasks
from bayou.spark.write.tasks import decode_adds

SCHEMA = json.dumps({"properties": {"id": {"type": "integer"}}})
MEGABYTE = 1 << 20


@pytest.fixture
def task(tmp_path):
    layout = RowLayout.of(record_columns(SCHEMA), (), None)
    engine = for_path(str(tmp_path), {})

    def state(name, schema):
        table = Table.for_path(engine, str(tmp_path / name))
        builder = table.create_transaction_builder(engine, "test", Operation.STREAMING_UPDATE)
        transaction = builder.with_schema(schema).build(engine)
        return transaction.transaction_state(engine).to_bytes()

    return BatchTask(
        topic="events",
        records=KafkaTasks.of({"subscribe": "t", "kafka.bootstrap.servers": "h:1"}, [], tasks=1),
        engine=engine.description(),
        table_path=str(tmp_path / "rows"),
        dead_letter_path=str(tmp_path / "letters"),
        row_state=state("rows", layout.schema),
        dead_letter_state=state("letters", DEAD_LETTER_SCHEMA),
        reading=RecordReading(
            plan=DecodePlan(columns=layout.record, json_schema=SCHEMA, discover=True),
            layout=layout,
            ingestion_timestamp=1_700_000_000_000_000,
        ),
        covered={},
        known_dead_letters={},
    )


def source(values, start=0):
    count = len(values)
    columns = {
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": ["t"] * count,
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(start, start + count), pa.int64()),
        "timestamp": pa.array([dt.datetime.now(dt.UTC)] * count, pa.timestamp("us", "UTC")),
        "headers": pa.nulls(count, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_many_large_dead_letters_go_to_several_files(task):
    waiting = []

    def batches():
        for number in range(10):
            yield source([b"x" * (10 * MEGABYTE), b'{"id": 1}'], 2 * number)
            waiting.append(pa.total_allocated_bytes())

    outcome = batch_task.TaskRun(task, 0).run(batches())
    assert (outcome.rows, outcome.dead_letters) == (10, 10)
    assert len(decode_adds([outcome.dead_letter_actions])) == 3
    assert max(waiting) < 10 * 10 * MEGABYTE


def test_what_was_written_for_nothing_is_deleted(task, tmp_path):
    batches = [source([b"x" * (33 * MEGABYTE)]), source([b'{"id": 1, "new": 2}'], 1)]
    outcome = batch_task.TaskRun(task, 0).run(iter(batches))
    assert outcome.new_fields.names == ("new",)
    assert outcome.dead_letters == 0
    assert list(tmp_path.rglob("*.parquet")) == []
