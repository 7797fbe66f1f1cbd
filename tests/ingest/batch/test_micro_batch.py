"""The driver's part of a micro-batch: how often it tries."""

from __future__ import annotations

import pytest

from bayou.engines import for_path
from bayou.errors import (
    CommitConflictError,
    ConcurrentTransactionError,
    PipelineError,
    RecordsLostError,
    StorageError,
)
from bayou.ingest import TopicTable
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.config import load_configuration
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.spark.kafka.data_loss import DataLoss

CONFIG = """\
connector:
  kafka: {bootstrap-servers: "h:1"}
  topics:
    events:
      kafka-topic: events
      destination: {table-path: lake/events}
      processing: {max-retries: 2}
"""


class FailingTarget:
    """A target whose store always fails."""

    path = "lake/events"
    version = 0

    def __init__(self, error):
        self.error = error
        self.tries = 0

    def refresh(self):
        self.tries += 1
        raise self.error

    reopen = refresh


def writer(tmp_path, target, on_retry=None):
    return writer_of(one_topic(tmp_path), target, on_retry)


def one_topic(tmp_path, more=""):
    (tmp_path / "p.yaml").write_text(CONFIG + more)
    return load_configuration(tmp_path / "p.yaml", environment={}).topic("events")


def writer_of(topic, target, on_retry=None):
    tables = TopicTables(target=target, dead_letters=None, engine=None, storage_options={})
    return MicroBatchWriter(topic, tables, None, RecordSchema(), on_retry=on_retry)


def test_a_batch_that_fails_is_tried_again_max_retries_times(tmp_path):
    target = FailingTarget(StorageError("the store is away", path="x"))
    with pytest.raises(PipelineError, match="failed after 2 retries: the store is away"):
        writer(tmp_path, target).process(None, {0: OffsetSpan(start=0, end=1)})
    assert target.tries == 3


def test_a_second_copy_is_no_reason_to_try_again(tmp_path):
    target = FailingTarget(ConcurrentTransactionError("moved", table="t", winning_version=1))
    with pytest.raises(PipelineError, match="Run only one pipeline"):
        writer(tmp_path, target).process(None, {0: OffsetSpan(start=0, end=1)})
    assert target.tries == 1


def test_records_that_are_gone_are_no_reason_to_try_again(tmp_path):
    with pytest.raises(RecordsLostError) as lost:
        DataLoss(fail=True).report("offsets 3 to 5 of partition 0", "events")
    target = FailingTarget(lost.value)
    with pytest.raises(RecordsLostError, match=r"connector\.topics\.events\.on-data-loss") as error:
        writer(tmp_path, target).process(None, {0: OffsetSpan(start=0, end=1)})
    assert target.tries == 1
    assert "failOnDataLoss" not in error.value.message
    assert "offsets 3 to 5 of partition 0" in error.value.message


def test_each_retry_is_told_before_it_is_waited_for(tmp_path):
    told = []
    target = FailingTarget(CommitConflictError("moved", table="t", winning_version=1))
    with pytest.raises(PipelineError):
        writer(tmp_path, target, told.append).process(None, {0: OffsetSpan(start=0, end=1)})
    assert [(e.what, e.retry, e.of, e.pause, e.conflict) for e in told] == [
        ("batch", 1, 2, 0.5, True),
        ("batch", 2, 2, 1.0, True),
    ]


def test_a_table_that_takes_no_timestamps_is_refused_before_any_record(tmp_path):
    one_topic(tmp_path)
    found = load_configuration(tmp_path / "p.yaml", environment={})
    TopicTable(found, "events").write([{"id": 1}])
    topic = one_topic(tmp_path, "      timestamp-formats: {id: epoch-s}\n")
    target = TargetTable(for_path(topic.table_path, {}), topic, None)
    with pytest.raises(PipelineError, match="timestamp-formats: 'id' is a long in"):
        writer_of(topic, target).open()
