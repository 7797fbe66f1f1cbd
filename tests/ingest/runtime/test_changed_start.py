"""`starting-offsets` that is changed before the first run has committed an offset."""

from __future__ import annotations

from bayou.ingest.inspection import plan_run, prove_offsets, topic_status_reports
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.runtime.prepared_topic import prepare_topic
from bayou.ingest.schema.files import topic_schemas
from support.in_process_pipeline import Heard, InProcessContext


def prepared(pipeline):
    topic = pipeline.topic
    schema = topic_schemas(pipeline.configuration)[topic.key]
    return prepare_topic(pipeline.configuration, topic, schema, Heard())


def test_a_partition_that_the_first_batch_leaves_out_starts_as_now_configured(small_pipeline):
    small_pipeline.more = "      starting-offsets: latest\n"
    small_pipeline.write_file()
    small_pipeline.produce({"id": 0}, {"id": 1})
    small_pipeline.produce({"id": 10}, {"id": 11}, partition=1)
    assert small_pipeline.take_in().rows == 0
    small_pipeline.more = "      starting-offsets: earliest\n"
    small_pipeline.write_file()
    first = prepared(small_pipeline)
    assert first.positions == {0: 0, 1: 0}
    assert first.writer.process(InProcessContext(), {0: OffsetSpan(start=0, end=1)}).rows == 1
    assert prepared(small_pipeline).positions == {0: 1, 1: 0}
    small_pipeline.take_in()
    ids = small_pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [0, 1, 10, 11]
    proof = prove_offsets(small_pipeline.configuration, small_pipeline.topic)
    assert proof.holds
    assert [p.rows for p in proof.partitions] == [2, 2]


def test_a_start_that_is_changed_to_an_earlier_one_counts(small_pipeline):
    small_pipeline.more = "      starting-offsets: latest\n"
    small_pipeline.write_file()
    small_pipeline.produce({"id": 0}, {"id": 1})
    small_pipeline.produce({"id": 10}, {"id": 11}, partition=1)
    assert prepared(small_pipeline).positions == {0: 2, 1: 2}
    for start, expected in (
        ("{0: 1}", {0: 1, 1: 0}),
        ("latest", {0: 1, 1: 0}),  # the start that is recorded
        ("{0: 1, 1: 2}", {0: 1, 1: 2}),
    ):
        small_pipeline.more = f"      starting-offsets: {start}\n"
        small_pipeline.write_file()
        (plan,) = plan_run(small_pipeline.configuration, small_pipeline.configuration.topics)
        (status,) = topic_status_reports(
            small_pipeline.configuration, small_pipeline.configuration.topics
        )
        assert {p: span.start for p, span in plan.spans.items()} == expected
        assert {p.partition: p.position for p in status.partitions} == expected
        assert prepared(small_pipeline).positions == expected
        assert prepared(small_pipeline).positions == expected
