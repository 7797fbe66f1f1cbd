"""What commands say of a topic with several tables, and its maintenance."""

from __future__ import annotations

from contextlib import nullcontext

import bayou
from bayou.ingest.broker import with_matching_topics
from bayou.ingest.config import load_configuration
from bayou.ingest.inspection import (
    plan_run,
    prove_offsets,
    topic_status_reports,
    unseen_settings,
)
from bayou.ingest.monitoring.metrics import exposition
from bayou.ingest.monitoring.status_store import StatusStore
from bayou.ingest.monitoring.watch import Watch
from bayou.ingest.offsets import ranges_between
from bayou.ingest.runtime.shared_tables import SharedTables
from support.in_process_pipeline import Heard, InProcessContext, new_topic_run, take_in
from support.routed_pipelines import TEMPLATE, configured, ids, routed_table, tables


class Events(Heard):
    """A `Reporter` that remembers its events."""

    def __init__(self):
        super().__init__()
        self.started = []
        self.batches = []
        self.maintained = []

    def topic_started(self, event):
        self.started.append(event)

    def batch_committed(self, event):
        self.batches.append(event)

    def maintenance_finished(self, event):
        self.maintained.append(event)

    def topic_finished(self, event):
        pass


def prepared_run(pipeline):
    events = Events()
    configuration = pipeline.configuration
    shared = SharedTables(configuration, events, nullcontext())
    run = new_topic_run(configuration, configuration.topics[0], events, shared)
    run.prepare(once=False)
    run._started = True
    return run, events


def run_batch(run):
    run._prepared = run._open()
    ends = {p: span.end for p, span in run._prepared.kafka.bounds.items()}
    report = run._prepared.writer.process(InProcessContext(), ranges_between(run.position, ends))
    run._upkeep.open(run._prepared.writer.routed_topics)
    run._upkeep.count_batch(report, is_behind=False)
    run._positions |= ends
    return report


def test_status_shows_each_table_and_their_sum(routed):
    pipeline = routed()
    (status,) = topic_status_reports(pipeline.configuration, pipeline.configuration.topics)
    assert (status.rows, status.tables) == (0, ())
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}, {"id": 3, "kind": "a"})
    pipeline.take_in()
    (status,) = topic_status_reports(pipeline.configuration, pipeline.configuration.topics)
    assert status.error is None
    assert (status.rows, status.files, status.waiting) == (3, 2, 0)
    assert [(t.table, t.rows) for t in status.tables] == [("events_a", 2), ("events_b", 1)]
    (pipeline.folder / "lake" / "events_a").rename(pipeline.folder / "away")
    (status,) = topic_status_reports(pipeline.configuration, pipeline.configuration.topics)
    assert "events_a was deleted or moved" in status.error


def test_a_plan_shows_the_tables_of_the_sample(routed):
    pipeline = routed(TEMPLATE + "max-tables: 2")
    pipeline.produce(*({"id": n, "kind": kind, f"x{kind}": 1} for n, kind in enumerate("aabcc")))
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert plan.error is None
    assert plan.creates
    found = {(t.table, t.creates, t.sampled, tuple(t.new_columns)) for t in plan.tables}
    assert found == {
        ("events_a", True, 2, ("id", "kind", "xa")),
        ("events_c", True, 2, ("id", "kind", "xc")),
    }
    (reason,) = plan.refused
    assert "max-tables (2) is reached" in reason
    assert plan.cost.data_files == 2
    assert not tables(pipeline)
    pipeline.take_in()
    pipeline.produce({"id": 9, "kind": "a", "y": 1})
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert [(t.table, t.creates, dict(t.new_columns)) for t in plan.tables] == [
        ("events_a", False, {"y": "long"})
    ]


def test_a_misspelled_field_is_told(routed):
    pipeline = routed('expression: kid\ntable-path: "lake/events_{value}"')
    pipeline.produce({"id": 1, "kind": "a"})
    pipeline.take_in()
    assert unseen_settings(pipeline.configuration)["events"].fields == ("kid",)
    run, events = prepared_run(pipeline)
    assert run._prepared.started.unseen_fields == ("kid",)
    run.finish()
    assert events.lost == []


def test_each_table_is_optimized_after_its_own_records(routed):
    pipeline = routed(TEMPLATE)
    text = pipeline.file.read_text().replace(
        "        delta-config:\n",
        "        delta-config:\n          enable-compaction: true\n"
        "          compaction-interval: 4\n",
    )
    pipeline.file.write_text(text)
    run, events = prepared_run(pipeline)
    for number in range(4):
        pipeline.produce({"id": number, "kind": "a"}, *([{"id": 9, "kind": "b"}] * (number == 0)))
        run_batch(run)
    run.complete()
    done = {(e.table_path.rsplit("/", 1)[-1], e.result) for e in events.maintained}
    assert ("events_a", "done") in done
    assert ids(pipeline, "events_a") == [0, 1, 2, 3]
    assert routed_table(pipeline, "events_a").detail().num_files == 1
    run.finish()


def test_a_changed_definition_is_reported_and_applied_for_each_table(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"})
    pipeline.take_in()
    configured(pipeline, TEMPLATE, destination="comment: Events\napply-table-changes: true")
    run, _ = prepared_run(pipeline)
    assert run._prepared.started.table_differences == (
        "comment is 'Events', the table has none",
        "events_a: comment is 'Events', the table has none",
    )
    assert run._prepared.started.table_changed
    assert routed_table(pipeline, "events_a").snapshot().kernel.metadata.description == "Events"
    pipeline.produce({"id": 2, "kind": "a"}, {"id": 3, "kind": "b"})
    assert run_batch(run).rows == 2
    assert routed_table(pipeline, "events_b").snapshot().kernel.metadata.description == "Events"
    run.finish()


def test_metrics_count_the_tables(routed):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    configuration = pipeline.configuration
    store = StatusStore(configuration)
    run, _ = prepared_run(pipeline)
    store.topic_started(run._prepared.started)
    run_batch(run)
    Watch(configuration, store, 10).look()
    text = exposition(store.status()).decode()
    assert 'bayou_routed_tables{topic="events"} 2.0' in text
    assert 'bayou_table_files{topic="events"} 2.0' in text
    run.finish()


def several(pipeline, topics, path, routes):
    pipeline.file.write_text(
        f"connector:\n  kafka: {{bootstrap-servers: '{pipeline.broker.bootstrap_servers}'}}\n"
        f"  topics:\n    all:\n      {topics}\n      destination:\n"
        f"        table-path: '{path}'\n        route-by: {{expression: kind, {routes}}}\n"
        "        delta-config: {enable-schema-evolution: true}\n"
    )


def test_several_topics_share_the_tables_of_a_section(new_pipeline):
    first, second = new_pipeline(), new_pipeline()
    several(
        first,
        f"kafka-topics: [{first.kafka_topic}, {second.kafka_topic}]",
        "lake/events",
        "table-path: 'lake/events_{value}', max-tables: 2",
    )
    first.produce({"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}, {"id": 3})
    second.produce({"id": 4, "kind": "a"}, {"id": 5, "kind": "c"}, {"id": 6})
    reports = take_in(first.file)
    assert [(r.rows, r.dead_letters) for r in reports] == [(3, 0), (2, 1)]
    assert ids(first, "events_a") == [1, 4]
    second.produce({"id": 7, "kind": "b"})
    take_in(first.file)
    assert (ids(first, "events_b"), ids(first)) == ([2, 7], [3, 6])
    configuration = load_configuration(first.file, environment={})
    assert [prove_offsets(configuration, t).holds for t in configuration.topics] == [True, True]


def test_each_topic_of_a_pattern_has_its_tables(new_pipeline):
    pipeline, other = new_pipeline(), new_pipeline()
    several(
        pipeline,
        f"kafka-topic-pattern: '{pipeline.kafka_topic}|{other.kafka_topic}'",
        "lake/{topic}",
        "table-path: 'lake/{topic}-{value}', on-null: dead-letter",
    )
    pipeline.produce({"id": 1, "kind": "a"})
    other.produce({"id": 2, "kind": "a"}, {"id": 3})
    take_in(pipeline.file)
    a, b = pipeline.kafka_topic, other.kafka_topic
    assert tables(pipeline) == sorted([a, f"{a}-a", b, f"{b}-a", f"{b}_dead_letters"])
    configuration = with_matching_topics(load_configuration(pipeline.file, environment={}))
    assert all(prove_offsets(configuration, topic).holds for topic in configuration.topics)
    path = configuration.find_table(f"{a}-a")
    assert bayou.table(path).to_arrow().num_rows == 1
