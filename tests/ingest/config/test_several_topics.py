"""Sections with several Kafka topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter

import bayou
from bayou.errors import ConfigurationError, PipelineError
from bayou.ingest import TopicTable
from bayou.ingest.config import load_configuration
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.config.topic import TopicConfig


def load(tmp_path, *sections, more=""):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n"
        + more
        + "  topics:\n"
        + "".join(f"    {section}\n" for section in sections)
    )
    return load_configuration(file, environment={})


def problem(tmp_path, *sections, more=""):
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, *sections, more=more)
    return raised.value.message


ONE_TABLE = "orders: {kafka-topics: [eu, us], destination: {table-path: lake/orders}}"
TEMPLATE = "orders: {kafka-topics: [o.eu, o.us], destination: {table-path: 'lake/{topic}'}}"
PATTERN = "orders: {kafka-topic-pattern: 'o[.].*', destination: {table-path: 'lake/{topic}'}}"


def test_topics_of_a_section_share_its_table(tmp_path):
    configuration = load(tmp_path, ONE_TABLE)
    eu, us = configuration.topics
    assert (eu.key, us.key) == ("orders/eu", "orders/us")
    assert (eu.config.kafka_topic, us.config.kafka_topic) == ("eu", "us")
    assert eu.table_path == us.table_path == str(tmp_path / "lake" / "orders")
    assert eu.section == eu.table_key == us.table_key == "orders"
    assert eu.shares_table
    assert configuration.find_topics("orders") == (eu, us)
    assert configuration.find_topics("orders/us") == (us,)
    assert configuration.topic("orders") == eu


def test_with_a_template_each_topic_has_its_own_table(tmp_path):
    configuration = load(tmp_path, TEMPLATE, more="  catalog: {type: session}\n")
    eu, us = configuration.topics
    assert [t.table_path for t in (eu, us)] == [f"{tmp_path}/lake/o.eu", f"{tmp_path}/lake/o.us"]
    assert [t.config.destination.name for t in (eu, us)] == ["o_eu", "o_us"]
    assert [t.table_key for t in (eu, us)] == ["orders/o.eu", "orders/o.us"]
    assert not eu.shares_table
    bucket = "a: {kafka-topic: t.1, destination: {bucket: b, table-name: 'raw_{topic}'}}"
    (only,) = load(tmp_path, bucket).topics
    assert (only.table_path, only.config.destination.name) == ("s3a://b/raw_t.1", "raw_t_1")


def test_a_pattern_has_the_topics_that_the_brokers_have(tmp_path):
    configuration = load(tmp_path, PATTERN)
    assert configuration.topics == ()
    found = configuration.with_matching({"o.us", "other", "o.eu", "xo.eu"})
    assert [topic.key for topic in found.topics] == ["orders/o.eu", "orders/o.us"]
    assert all(topic.from_pattern for topic in found.topics)
    assert found.with_matching({"o.us"}) == found
    # A topic that wasn't listed yet is known by its key.
    assert configuration.topic("orders/o.new").table_path == f"{tmp_path}/lake/o.new"
    assert configuration.find_topic("orders/other") is None


def test_the_shared_table_of_a_pattern_is_known_without_brokers(tmp_path):
    shared = "orders: {kafka-topic-pattern: 'o.*', destination: {table-path: lake/orders}}"
    assert load(tmp_path, shared).find_table("orders") == str(tmp_path / "lake" / "orders")
    configuration = load(tmp_path, PATTERN)
    assert configuration.find_table("orders") is None
    assert configuration.find_table("orders/o.x") == str(tmp_path / "lake" / "o.x")


def test_internal_topics_match_only_a_pattern_that_names_them(tmp_path):
    every = "a: {kafka-topic-pattern: '.*', destination: {table-path: lake/a}}"
    names = {"__consumer_offsets", "_schemas", "t"}
    keys = [t.key for t in load(tmp_path, every).with_matching(names).topics]
    assert keys == ["a/_schemas", "a/t"]
    internal = "a: {kafka-topic-pattern: '__c.*', destination: {table-path: lake/a}}"
    (topic,) = load(tmp_path, internal).with_matching(names).topics
    assert topic.key == "a/__consumer_offsets"


def test_a_topic_whose_table_is_taken_does_not_refuse_the_configuration(tmp_path):
    """Anyone who may create a topic could stop all topics otherwise."""
    configuration = load(tmp_path, PATTERN).with_matching({"o.a", "o.a_dead_letters", "o.b"})
    a, taken, b = configuration.topics
    assert (a.table_problem, b.table_problem) == (None, None)
    with pytest.raises(PipelineError, match="'orders/o.a_dead_letters': .* is the dead letter"):
        taken.check_table()
    with pytest.raises(PipelineError, match="is the dead letter table of topic 'orders/o.a'"):
        configuration.topic("orders/o.a_dead_letters")
    assert configuration.topic("orders/o.a") == a
    two = load(tmp_path, PATTERN, "x: {kafka-topic: x, destination: {table-path: lake/o.x}}")
    x, other = two.with_matching({"o.x"}).topics
    assert x.table_problem is None
    assert "topic 'x' already writes to" in other.table_problem


def test_a_topic_that_has_written_its_table_keeps_it_after_a_conflicting_topic_is_created(tmp_path):
    configuration = load(tmp_path, PATTERN).with_matching({"o.a_dead_letters"})
    TopicTable(configuration, "orders/o.a_dead_letters").write([{"id": 1}])
    new, old = load(tmp_path, PATTERN).with_matching({"o.a", "o.a_dead_letters"}).topics
    assert old.table_problem is None
    with pytest.raises(PipelineError, match="it conflicts with topic 'orders/o.a_dead_letters'"):
        new.check_table()


def test_a_dead_letter_table_is_not_the_table_of_a_topic_with_this_name(tmp_path):
    configuration = load(tmp_path, PATTERN).with_matching({"o.a"})
    table = TopicTable(configuration, "orders/o.a")
    table.write([{"id": 1}])
    table.write([{"id": "x"}])
    assert bayou.table(dead_letters_path(table.topic.table_path)).exists()
    old, new = load(tmp_path, PATTERN).with_matching({"o.a", "o.a_dead_letters"}).topics
    assert old.table_problem is None
    assert "is the dead letter table of topic 'orders/o.a'" in new.table_problem


UPSERT_INTO_ONE = (
    "a: {kafka-topics: [x, y], destination: {table-path: t, key-columns: [id], "
    "delta-config: {enable-upsert: true}}}"
)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("a: {destination: {table-path: t}}", "the key 'kafka-topic' is missing"),
        ("a: {kafka-topic: '', destination: {table-path: t}}", "isn't a valid Kafka topic name"),
        ("a: {kafka-topics: [], destination: {table-path: t}}", "'kafka-topic' is missing"),
        ("a: {kafka-topics: [x, x], destination: {table-path: t}}", "'x' is listed 2 times"),
        ("a: {kafka-topics: [x, 'y z'], destination: {table-path: t}}", "'y z' isn't a valid"),
        ("a: {kafka-topic: .., destination: {table-path: 't/{topic}'}}", "'..' isn't a valid"),
        (
            "a: {kafka-topic: x, kafka-topic-pattern: y, destination: {table-path: t}}",
            "kafka-topic and kafka-topic-pattern exclude each other",
        ),
        ("a: {kafka-topic-pattern: '(', destination: {table-path: t}}", "isn't a regular expr"),
        (
            "a: {kafka-topics: [x, y], starting-offsets: {0: 5}, destination: {table-path: t}}",
            "starting-offsets by partition aren't possible with kafka-topics",
        ),
        (
            UPSERT_INTO_ONE,
            "enable-upsert isn't possible for several topics in one table",
        ),
        ("a/b: {kafka-topic: x, destination: {table-path: t}}", "the key 'a/b' contains a '/'"),
    ],
)
def test_topics_that_cannot_be_are_refused(tmp_path, section, message):
    assert message in problem(tmp_path, section)


def test_upserts_have_a_table_for_each_topic(tmp_path):
    upsert = "key-columns: [id], delta-config: {enable-upsert: true}"
    section = f"a: {{kafka-topics: [x, y], destination: {{table-path: 't/{{topic}}', {upsert}}}}}"
    assert [t.upsert_keys.columns for t in load(tmp_path, section).topics] == [("id",), ("id",)]


def test_what_does_not_go_with_several_topics_is_said(tmp_path):
    migration = "  migration: {enabled: true}\n"
    assert "can't be migrated" in problem(tmp_path, ONE_TABLE, more=migration)
    other = "x: {kafka-topic: x, destination: {table-path: lake/orders}}"
    assert "list the topics of one table in kafka-topics" in problem(tmp_path, ONE_TABLE, other)
    catalog = "  catalog: {type: session}\n"
    named = TEMPLATE.replace("table-path", "table-name: t, table-path")
    assert "write {topic} in table-name" in problem(tmp_path, named, more=catalog)


def test_the_example_has_both_ways(tmp_path):
    example = Path(__file__).parents[3] / "examples" / "local" / "topics.yaml"
    configuration = load_configuration(example, environment={})
    assert [topic.key for topic in configuration.topics] == [
        "users/users.eu.v1",
        "users/users.us.v1",
    ]
    names = {"orders.eu.v1", "orders.us.v1", "orders.us.v2", "orders.eu.v1.dlq"}
    orders = configuration.matching(names)
    assert [topic.config.kafka_topic for topic in orders] == ["orders.eu.v1", "orders.us.v1"]
    assert len({topic.table_path for topic in (*orders, *configuration.topics)}) == 3


def test_every_setting_is_that_of_the_section():
    config = TypeAdapter(TopicConfig).validate_python(
        {
            "kafka-topics": ["x", "y"],
            "masks": {"a": "hash"},
            "destination": {"table-path": "t", "comment": "c"},
        }
    )
    one = config.for_topic("y")
    assert (one.kafka_topic, one.kafka_topics) == ("y", ())
    same = {"kafka_topic", "kafka_topics"}
    assert one.model_dump(exclude=same) == config.model_dump(exclude=same)
