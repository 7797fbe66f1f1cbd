"""The entry of a topic's table in Unity Catalog; for Hive, see the integration tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.errors import CatalogError, PipelineError
from bayou.ingest.config import load_configuration
from bayou.ingest.runtime.catalog_registration import UnityRegistration, registration
from support.unity_double import UnityDouble

NO_SPARK: Any = None
ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def double(tmp_path):
    with UnityDouble(str(tmp_path / "managed")) as server:
        yield server


@pytest.fixture
def topic(tmp_path, double):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'localhost:9092'}\n"
        f"  catalog: {{unity: {{uri: '{double.url}', catalog: lake, schema: shop}}}}\n"
        "  topics:\n    a: {kafka-topic: a, destination: {table-path: lake/events}}\n"
    )
    configuration = load_configuration(file, environment={})
    return configuration.topics[0], configuration.connector


def test_the_entry_is_created_with_the_table_and_follows_its_changes(topic, double):
    events, connector = topic
    entry = registration(events, connector)
    assert isinstance(entry, UnityRegistration)
    entry.update(NO_SPARK)
    assert double.tables == {}
    bayou.write(events.table_path, ROWS)
    entry.update(NO_SPARK)
    registered = double.tables["lake.shop.events"]
    assert (registered.kind, registered.location) == ("EXTERNAL", f"file://{events.table_path}")
    requests = len(double.requests)
    bayou.write(events.table_path, ROWS)
    entry.update(NO_SPARK)
    assert len(double.requests) == requests
    table = bayou.table(events.table_path)
    table.alter.add_columns({"w": "map<string, array<struct<a: int>>>"})
    table.alter.set_table_properties({"owner": "shop"})
    registered.properties["of the catalog"] = "kept"
    entry.update(NO_SPARK)
    (_, added) = registered.columns["fields"]
    assert added["type"]["value-type"]["element-type"]["fields"][0]["name"] == "a"
    assert registered.properties["owner"] == "shop"
    assert registered.properties["of the catalog"] == "kept"
    assert registered.properties["delta.lastUpdateVersion"] == "3"
    sent = double.sent("set-columns")
    registration(events, connector).update(NO_SPARK)  # after a restart
    assert double.sent("set-columns") == sent


def test_a_name_of_another_table_stops_the_topic(topic, double, tmp_path):
    events, connector = topic
    bayou.write(events.table_path, ROWS)
    options = {"UC_URI": double.url}
    bayou.write("uc://lake.shop.events", ROWS, storage_options=options)
    with pytest.raises(PipelineError, match="topic 'a': .* has a managed table with this name"):
        registration(events, connector).update(NO_SPARK)
    double.tables.clear()
    other = str(tmp_path / "other")
    bayou.write("uc://lake.shop.events", ROWS, storage_options=options, location=other)
    with pytest.raises(PipelineError, match="topic 'a': .* has this table at file:///.*other"):
        registration(events, connector).update(NO_SPARK)


def test_an_entry_that_is_not_accepted_is_written_by_the_next_update(topic, double):
    events, connector = topic
    bayou.write(events.table_path, ROWS)
    entry = registration(events, connector)
    double.fail('"table-type"', "PermissionDeniedException")
    with pytest.raises(CatalogError, match="status 403"):
        entry.update(NO_SPARK)
    entry.update(NO_SPARK)
    assert "lake.shop.events" in double.tables
