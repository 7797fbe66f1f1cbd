"""A topic that was deleted and recreated, whose earlier dead letters are still there."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import bayou
from bayou.errors import PipelineError, StorageError
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.runtime import prepared_topic
from bayou.spark.kafka import EmbeddedBroker
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.in_process_pipeline import take_in


class StillThere:
    """A topic that stays the same while a batch runs; the embedded broker tells no ids."""

    def __init__(self, *_, **__):
        pass

    def check_not_recreated(self):
        pass


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """Take in the records of a topic `t` that has these values, each time on a new cluster."""
    describe = prepared_topic.describe_topic

    def of_one_cluster(name, properties):
        return replace(describe(name, properties), cluster_id="cluster", topic_id=run.topic_id)

    monkeypatch.setattr(prepared_topic, "describe_topic", of_one_cluster)
    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)
    monkeypatch.setattr("bayou.ingest.broker.RecreatedTopicCheck", StillThere)
    (tmp_path / "schema.json").write_text(
        json.dumps(
            {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}},
            }
        )
    )

    def run(*values):
        with EmbeddedBroker({"t": 1}) as broker:
            broker.produce("t", [ProducedRecord(v, partition=0) for v in values])
            file = tmp_path / "pipeline.yaml"
            connector = {
                "kafka": {"bootstrap-servers": broker.bootstrap_servers},
                "topics": {
                    "t": {
                        "kafka-topic": "t",
                        "schema-file": "schema.json",
                        "destination": {"table-path": "lake/t", **run.destination},
                    }
                },
            }
            file.write_text(json.dumps({"connector": connector}))
            return take_in(file)[0]

    run.topic_id = None
    run.destination = {}
    run.target = tmp_path / "lake" / "t"
    run.letters = f"{run.target}_dead_letters"
    return run


def test_letters_of_the_earlier_topic_keep_no_record_of_the_new_one_out(pipeline):
    report = pipeline(b"bad", b'{"id": 1}', b"bad")
    assert (report.rows, report.dead_letters) == (1, 2)
    shutil.rmtree(pipeline.target)  # moved aside, its dead letters forgotten
    report = pipeline(b'{"id": 7}', b'{"id": 8}', b"worse")
    assert (report.rows, report.dead_letters, report.left_out) == (2, 1, 0)
    values = bayou.table(pipeline.letters).to_arrow().column("value").to_pylist()
    assert sorted(values) == [b"bad", b"bad", b"worse"]


def test_where_brokers_tell_ids_letters_of_the_earlier_topic_stop_the_new_one(pipeline):
    pipeline.topic_id = "first"
    pipeline(b"bad", b'{"id": 1}')
    shutil.rmtree(pipeline.target)
    pipeline.topic_id = "second"
    with pytest.raises(PipelineError, match="t_dead_letters has records of an earlier Kafka topic"):
        pipeline(b'{"id": 7}')
    shutil.rmtree(pipeline.letters)
    assert pipeline(b'{"id": 7}').rows == 1


def test_letters_of_a_run_that_ended_before_its_rows_were_committed_still_decide(
    pipeline, monkeypatch
):
    def failing(*_, **__):
        raise StorageError("no", path="lake/t")

    now = ProducedRecord  # the same records, with the same timestamps, as Kafka keeps them
    monkeypatch.setattr(
        f"{__name__}.ProducedRecord", lambda v, partition: now(v, partition=partition, timestamp=5)
    )
    with monkeypatch.context() as patch:
        patch.setattr(TargetTable, "commit", failing)
        with pytest.raises(Exception, match="no"):
            pipeline(b"bad", b'{"id": 1}')
    report = pipeline(b"bad", b'{"id": 1}')
    assert (report.rows, report.dead_letters, report.left_out) == (1, 0, 1)
    assert bayou.table(pipeline.letters).to_arrow().num_rows == 1


def test_a_routed_table_of_an_earlier_topic_is_not_continued(pipeline, tmp_path):
    route_by = {"expression": "kind", "table-path": "lake/t_{value}"}
    pipeline.destination = {"route-by": route_by}
    pipeline.topic_id = "A"
    pipeline(b'{"id": 1, "kind": "x"}', b'{"id": 2}')
    pipeline.topic_id = "B"
    with pytest.raises(PipelineError, match="the table has records of an earlier Kafka topic"):
        pipeline(b'{"id": 3, "kind": "x"}')
    shutil.rmtree(tmp_path / "lake" / "t")
    assert pipeline(b'{"id": 3, "kind": "x"}').dead_letters == 1
    (reason,) = bayou.table(pipeline.letters).to_arrow()["reason"].to_pylist()
    assert "lake/t_x has records of an earlier Kafka topic 't'" in reason
