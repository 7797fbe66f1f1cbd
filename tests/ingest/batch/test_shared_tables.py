"""Several topics in one table."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest.background_task import run_parallel
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.broker import with_matching_topics
from bayou.ingest.config import load_configuration
from bayou.ingest.dead_letters.dead_letter_replay import delete_dead_letters, replay_dead_letters
from bayou.ingest.inspection import (
    TopicTables,
    group_letters,
    plan_run,
    prove_offsets,
    topic_status_reports,
)
from bayou.ingest.inspection.dead_letters import list_letters
from bayou.ingest.offsets import OffsetSpan, ranges_between
from bayou.ingest.runtime.shared_tables import SharedTables
from bayou.ingest.topic_table.topic_table import TopicTable
from bayou.spark.kafka import EmbeddedBroker
from support.in_process_pipeline import Heard, InProcessContext, new_topic_run, take_in

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


class Failures(Heard):
    """A `Reporter` that remembers failed attempts."""

    def __init__(self):
        super().__init__()
        self.failed = []

    def attempt_failed(self, event):
        self.failed.append(event)

    def topic_started(self, event):
        pass

    def batch_committed(self, event):
        pass

    def topic_finished(self, event):
        pass


class Shared:
    """A pipeline of three topics in one table."""

    def __init__(self, folder, broker):
        self.folder = folder
        self.broker = broker
        self.file = folder / "pipeline.yaml"
        (folder / "schema.json").write_text(json.dumps(SCHEMA))
        self.write("kafka-topics: [a, b, c]")

    def write(self, topics, more="", table="all"):
        self.file.write_text(
            f"connector:\n  kafka: {{bootstrap-servers: '{self.broker.bootstrap_servers}'}}\n"
            f"  topics:\n    all:\n      {topics}\n      schema-file: schema.json\n{more}"
            f"      destination:\n        table-path: {table}\n"
            "        delta-config: {enable-schema-evolution: true}\n"
        )

    @property
    def configuration(self):
        return with_matching_topics(load_configuration(self.file, environment={}))

    @property
    def table(self):
        return bayou.table(str(self.folder / "all"))

    def produce(self, topic, *values):
        records = [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
        self.broker.produce(topic, records)

    def rows(self):
        columns = ["_kafka_topic", "id"]
        return sorted(tuple(row.values()) for row in self.table.to_arrow(columns).to_pylist())

    def verified(self):
        proofs = [prove_offsets(self.configuration, t) for t in self.configuration.topics]
        return [proof.holds for proof in proofs]


@pytest.fixture
def shared(tmp_path):
    with EmbeddedBroker({"a": 2, "b": 2, "c": 1}) as broker:
        yield Shared(tmp_path, broker)


def test_each_topic_has_its_rows_and_offsets_in_the_table(shared):
    for n in range(3):
        for topic in "abc":
            shared.produce(topic, {"id": 10 * n + ord(topic) - 97}, {"id": n})
        take_in(shared.file)
    assert len(shared.rows()) == 18
    transactions = shared.table.snapshot().transactions
    assert {application.split("/")[2] for application in transactions} == {"a", "b", "c"}
    assert shared.verified() == [True] * 3
    take_in(shared.file)  # reads nothing again
    assert len(shared.rows()) == 18


def test_columns_of_one_topic_are_columns_of_all(shared):
    shared.produce("a", {"id": 1, "only_a": "x"})
    shared.produce("b", {"id": 2, "only_b": 5})
    take_in(shared.file)
    shared.produce("a", {"id": 3, "only_b": "not a number"}, {"id": 4, "only_b": 6})
    take_in(shared.file)
    rows = shared.table.to_arrow(["id", "only_a", "only_b"]).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "x", None), (2, None, 5), (4, None, 6)]
    (letter,) = group_letters(TopicTables.of(shared.configuration, shared.configuration.topics[0]))
    assert "only_b" in letter.reason


def test_dead_letters_are_those_of_their_topic(shared):
    a, b, c = shared.configuration.topics
    shared.produce("a", {"id": "x"}, b"{")
    shared.produce("b", {"id": "y"}, {"id": 1})
    take_in(shared.file)
    letters = {t.key: list_letters(TopicTables.of(shared.configuration, t)) for t in (a, b, c)}
    assert [len(found) for found in letters.values()] == [2, 1, 0]
    offset = letters["all/b"][0].offset
    where = f"offset = {offset} OR offset <> {offset}"
    assert len(list_letters(TopicTables.of(shared.configuration, b), where=where)) == 1
    assert [r.dead_letters for r in topic_status_reports(shared.configuration, (a, b, c))] == [
        2,
        1,
        0,
    ]
    assert shared.verified() == [True] * 3
    wider = {**SCHEMA, "properties": {"id": {"type": ["integer", "string"]}}}
    assert wider != SCHEMA
    assert delete_dead_letters(shared.configuration, a) == 2
    assert replay_dead_letters(shared.configuration, b).refused == 1
    assert [len(list_letters(TopicTables.of(shared.configuration, t))) for t in (a, b, c)] == [
        0,
        1,
        0,
    ]


def test_a_pattern_takes_in_topics_that_appear_later(shared):
    shared.write("kafka-topic-pattern: '[ab]'")
    shared.produce("a", {"id": 1})
    shared.produce("c", {"id": 2})
    take_in(shared.file)
    assert shared.rows() == [("a", 1)]
    shared.write("kafka-topic-pattern: '[abc]'")
    shared.produce("b", {"id": 3})
    take_in(shared.file)
    assert shared.rows() == [("a", 1), ("b", 3), ("c", 2)]
    assert shared.verified() == [True] * 3


def test_another_topic_that_created_the_table_first_is_no_conflict(shared):
    configuration, heard = shared.configuration, Failures()
    tables = SharedTables(configuration, heard, nullcontext())
    runs = [new_topic_run(configuration, topic, heard, tables) for topic in configuration.topics]
    for run, name in zip(runs, "abc", strict=True):
        shared.produce(name, {"id": 1}, {"id": 2})
        run.prepare(once=False)  # none of them sees a table
    for run in runs:
        ends = {p: span.end for p, span in run._prepared.kafka.bounds.items()}
        spans = ranges_between(run.position, ends)
        report = run._prepared.writer.process(InProcessContext(), spans)
        assert (report.rows, report.retries) == (2, 0)
        run.finish()
    assert heard.failed == []
    assert len(shared.rows()) == 6
    assert shared.verified() == [True] * 3


def maintenance(run):
    (found,) = run._upkeep._maintenance.values()
    return found


def test_the_maintenance_of_a_shared_table_ends_with_its_last_topic(shared):
    configuration, heard = shared.configuration, Failures()
    tables = SharedTables(configuration, heard, nullcontext())
    runs = [new_topic_run(configuration, topic, heard, tables) for topic in configuration.topics]
    for run in runs:
        run.prepare(once=False)
    first = maintenance(runs[0])
    assert {id(maintenance(run)) for run in runs} == {id(first)}
    for run in runs[:2]:
        run.finish()
    assert not first._stopped.is_set()
    runs[2].finish()
    assert first._stopped.is_set()
    again = new_topic_run(configuration, configuration.topics[0], heard, tables)
    again.prepare(once=False)
    assert maintenance(again) is not first
    again.finish()


def test_a_topic_whose_table_is_taken_stops_only_itself(tmp_path):
    names = {"t": 1, "t_dead_letters": 1}
    with EmbeddedBroker(names) as broker:
        pipeline = Shared(tmp_path, broker)
        text = pipeline.file.read_text().replace(
            "kafka-topics: [a, b, c]", "kafka-topic-pattern: t.*"
        )
        pipeline.file.write_text(text.replace("table-path: all", "table-path: 'lake/{topic}'"))
        for name in names:
            pipeline.produce(name, {"id": 1}, b"{")
        configuration, heard = pipeline.configuration, Failures()
        tables = SharedTables(configuration, heard, nullcontext())
        good, taken = [new_topic_run(configuration, t, heard, tables) for t in configuration.topics]
        for run in (good, taken):
            run.prepare(once=False)
        assert (good.has_work, taken.has_work) == (True, False)
        good._prepared.writer.process(InProcessContext(), {0: OffsetSpan(start=0, end=2)})
        assert "is the dead letter table of topic 'all/t'" in taken.finish().error.message
        plans = plan_run(configuration, configuration.topics)
        statuses = topic_status_reports(configuration, configuration.topics)
        for reports in (plans, statuses):
            assert [report.error is None for report in reports] == [True, False]
        assert [
            letter.value for letter in list_letters(TopicTables.of(configuration, good.topic))
        ] == [b"{"]


def test_topics_that_start_together_change_their_table_once(shared):
    for name in "abc":
        shared.produce(name, {"id": 1})
    take_in(shared.file)
    text = shared.file.read_text()
    definition = "        comment: the orders\n        apply-table-changes: true\n"
    more = "{enable-schema-evolution: true, table-properties: {owner: shop}}"
    text = text.replace("{enable-schema-evolution: true}", more)
    shared.file.write_text(text + definition)
    version = shared.table.snapshot().version
    configuration, heard = shared.configuration, Failures()
    tables = SharedTables(configuration, heard, nullcontext())
    runs = [new_topic_run(configuration, topic, heard, tables) for topic in configuration.topics]
    run_parallel(lambda run: run.prepare(once=False), runs)
    assert [run.finish().error for run in runs] == [None] * 3
    assert shared.table.snapshot().version == version + 1
    assert shared.table.snapshot().kernel.properties["owner"] == "shop"


def test_a_change_of_the_table_is_repeated_after_a_conflict(shared):
    shared.produce("a", {"id": 1})
    take_in(shared.file)
    definition = "        comment: the orders\n        column-comments: {id: the number}\n"
    shared.file.write_text(shared.file.read_text() + definition)
    topic = shared.configuration.topics[0]
    target = TargetTable(for_path(topic.table_path), topic, None)
    target.open()
    shared.table.alter.set_table_properties({"owner": "another process"})
    target.apply_definition()
    assert target.differences() == ()
    assert shared.table.snapshot().kernel.properties["owner"] == "another process"


@pytest.mark.parametrize("name", ["all", "all/b"])
def test_files_are_not_migrated_into_a_table_of_several_topics(shared, name):
    """The files may have records of all topics, but the migration knows the offsets of one."""
    shared.produce("b", {"id": 1})
    take_in(shared.file)
    at = {"_kafka_topic": "b", "_kafka_partition": 0, "_kafka_offset": 0}
    (shared.folder / "old.json").write_text(json.dumps([{"id": 1, **at}]))
    table = TopicTable(shared.configuration, name)
    with pytest.raises(PipelineError, match="has records of several Kafka topics"):
        table.migrate(str(shared.folder / "old.json"))
    assert shared.rows() == [("b", 1)]


def test_a_topic_of_a_pattern_gets_no_table_in_a_folder_of_others(tmp_path):
    with EmbeddedBroker({"raw": 1, "orders": 1}) as broker:
        pipeline = Shared(tmp_path, broker)
        text = pipeline.file.read_text().replace(
            "kafka-topics: [a, b, c]", "kafka-topic-pattern: .*"
        )
        pipeline.file.write_text(text.replace("table-path: all", "table-path: 'lake/{topic}'"))
        (tmp_path / "lake" / "raw").mkdir(parents=True)
        (tmp_path / "lake" / "raw" / "old.csv").write_text("x")
        configuration, heard = pipeline.configuration, Failures()
        tables = SharedTables(configuration, heard, nullcontext())
        orders, raw = [new_topic_run(configuration, t, heard, tables) for t in configuration.topics]
        for run in (orders, raw):
            run.prepare(once=False)
        assert orders.has_work
        assert "raw isn't a Delta table, but contains files" in raw.finish().error.message
        plans = plan_run(configuration, configuration.topics)
        assert [plan.error is None for plan in plans] == [True, False]
        orders.finish()


def test_a_topic_of_a_pattern_does_not_write_to_the_table_of_another_topic(tmp_path):
    with EmbeddedBroker({"a": 1, "orders": 1}) as broker:
        pipeline = Shared(tmp_path, broker)
        pipeline.write("kafka-topic: a", table="lake/orders")
        pipeline.produce("a", {"id": 1})
        take_in(pipeline.file)
        pipeline.write("kafka-topic-pattern: 'o.*'", table="'lake/{topic}'")
        pipeline.produce("orders", {"id": 2})
        with pytest.raises(PipelineError, match="lake/orders is the table of Kafka topic 'a'"):
            take_in(pipeline.file)


@pytest.mark.parametrize("accepted_by", ["pipeline", "program"])
def test_each_pipeline_of_a_table_accepts_a_restore_for_its_topic(shared, accepted_by):
    """The RESTORE removes rows of both topics; only the pipeline of topic a accepts it."""

    def run(topic, more=""):
        shared.write(f"kafka-topic: {topic}", more)
        return take_in(shared.file)

    for n in range(2):
        for topic in "ab":
            shared.produce(topic, {"id": n})
            run(topic)
    shared.table.restore(1)  # version 4
    accepts = "      accept-restore: 4\n"
    if accepted_by == "program":
        shared.write("kafka-topic: a", accepts)
        TopicTable(shared.configuration, "all").write([{"id": 7}])
    shared.produce("a", {"id": 2})
    run("a", accepts)
    shared.produce("a", {"id": 3})
    run("a")  # an earlier commit has accepted it
    shared.produce("b", {"id": 2})
    for _ in range(2):
        with pytest.raises(PipelineError, match="version 4 of .* is a RESTORE"):
            run("b")
    run("b", accepts)
    shared.produce("b", {"id": 3})
    run("b")
    shared.produce("c", {"id": 1})
    run("c")  # a new topic: the RESTORE removed none of its rows
    assert {row[0] for row in shared.rows()} >= {"a", "b", "c"}
    shared.table.restore(shared.table.snapshot().version - 1)
    for topic in "abc":
        with pytest.raises(PipelineError, match="is a RESTORE"):
            run(topic, accepts)
