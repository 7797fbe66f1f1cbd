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
