"""Topics that commands are given by name."""

from __future__ import annotations

import pytest

from bayou.cli.shared_arguments import select_topics
from bayou.errors import ArgumentError
from bayou.ingest.config import load_configuration


def test_topics_are_selected_by_section_key_or_table(tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n  topics:\n"
        "    orders: {kafka-topics: [eu, us], destination: {table-path: lake/orders}}\n"
        "    users: {kafka-topic: u, destination: {table-path: lake/u, table-name: people}}\n"
    )
    configuration = load_configuration(file, environment={})

    def keys(*names):
        return [topic.key for topic in select_topics(configuration, names)]

    assert keys() == ["orders/eu", "orders/us", "users"]
    assert keys("orders") == ["orders/eu", "orders/us"]
    assert keys("orders/us", "orders", "people") == ["orders/us", "orders/eu", "users"]
    with pytest.raises(ArgumentError, match="'orders/eu', 'orders/us', 'users'"):
        keys("orders/uk")


@pytest.fixture
def two_named_events(tmp_path):
    """Two topics whose tables have the same name, and a section with one table for two topics."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n  topics:\n"
        "    a: {kafka-topic: a, destination: {table-path: shop/events}}\n"
        "    b: {kafka-topic: b, destination: {table-path: web/events}}\n"
        "    c: {kafka-topics: [c1, c2], destination: {table-path: lake/clicks}}\n"
    )
    return load_configuration(file, environment={})


@pytest.mark.parametrize("find", ["find_table", "find_topic", "find_topics", "topic"])
def test_a_name_of_two_tables_is_an_error_that_names_both(two_named_events, tmp_path, find):
    with pytest.raises(ArgumentError, match="several tables have the name 'events'") as error:
        getattr(two_named_events, find)("events")
    assert f"{tmp_path}/shop/events, {tmp_path}/web/events" in str(error.value)


@pytest.mark.parametrize("name", ["b", "web/events"])
def test_a_table_is_found_by_its_topic_or_path_even_if_another_has_its_name(
    two_named_events, tmp_path, name
):
    assert two_named_events.find_table(name) == f"{tmp_path}/web/events"
    assert two_named_events.topic(name).key == "b"


def test_all_topics_of_a_table_are_selected_by_its_name(two_named_events):
    assert [t.key for t in select_topics(two_named_events, ["clicks"])] == ["c/c1", "c/c2"]
