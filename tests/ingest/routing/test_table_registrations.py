"""The registered tables in the transaction identifiers of the default table."""

from __future__ import annotations

import pytest

from bayou.errors import PipelineError
from bayou.ingest.config import load_configuration
from bayou.ingest.offsets import KafkaTopic, covered_offsets, next_offsets
from bayou.ingest.routing.table_registrations import (
    RegisteredTable,
    absolute_path,
    check_table,
    registered_tables,
    registration_id,
    relative_path,
    version_id,
    written_id,
)

TOPIC = KafkaTopic(name="t.1", cluster_id="c", topic_id="x/y", bounds={})
OTHER = KafkaTopic(name="u", cluster_id="c", topic_id="z", bounds={})
ID = "0d0b3c9e-1111-4d5e-8f00-000000000005"


def test_tables_of_all_topics_are_found_with_their_last_versions():
    transactions = {
        registration_id(TOPIC, "e_a"): 7,
        version_id(TOPIC, "e_a", ID): 3,
        version_id(OTHER, "e_a", ID): 5,
        registration_id(OTHER, "../5"): 0,
        written_id(TOPIC): 4,
        "kafka/c/t.1/x/y/0": 41,
    }
    assert registered_tables(transactions) == {
        "e_a": RegisteredTable(path="e_a", fingerprint=7, versions={ID: 5}),
        "../5": RegisteredTable(path="../5"),
    }


@pytest.mark.parametrize("path", ["5", "a/5", "s3://b/5", "x/start"])
def test_no_identifier_is_mistaken_for_an_offset(path):
    transactions = {
        registration_id(TOPIC, path): 9,
        version_id(TOPIC, path, ID): 9,
        written_id(TOPIC): 9,
    }
    assert next_offsets(TOPIC, transactions) == {}
    assert next_offsets(KafkaTopic(**{**_fields(TOPIC), "topic_id": None}), transactions) == {}
    assert covered_offsets("t.1", transactions) == {}


def _fields(topic):
    return {n: getattr(topic, n) for n in ("name", "cluster_id", "topic_id", "bounds")}


@pytest.mark.parametrize(
    ("path", "default", "relative"),
    [
        ("/lake/events_a", "/lake/events", "events_a"),
        ("/other/a", "/lake/events", "../other/a"),
        ("s3://b/lake/a", "s3://b/lake/events", "a"),
        ("s3://b/x/a", "s3://b/events", "x/a"),
        ("s3://c/a", "s3://b/lake/events", "s3://c/a"),
        ("s3://c/a", "/lake/events", "s3://c/a"),
        ("gs://b/über/a b", "gs://b/lake/events", "../über/a b"),
    ],
)
def test_paths_are_relative_to_the_folder_of_the_default_table(path, default, relative):
    assert relative_path(path, default) == relative
    assert absolute_path(relative, default) == path


def test_a_table_without_a_recorded_version_may_be_missing(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "connector: {kafka: {bootstrap-servers: h}, topics: {t: {kafka-topic: t, destination: "
        "{table-path: e, route-by: {expression: k, tables: {a: /p, b: /q}, accept-deleted: [q]}}}}}"
    )
    topic = load_configuration(tmp_path / "p.yaml", environment={}).topics[0]
    p, q = (topic.routed(topic.routes.table(value)) for value in "ab")
    check_table(p, RegisteredTable(path="p"), None, None)
    known = RegisteredTable(path="p", versions={ID: 3})
    check_table(p, known, ID, 3)
    for table_id, version, change in (
        (None, None, "was deleted or moved"),
        ("other", 9, "was replaced by another table"),
        (ID, 2, "was rolled back from version 3 to 2"),
    ):
        with pytest.raises(PipelineError, match=f"/p {change}") as raised:
            check_table(p, known, table_id, version)
        assert ("route-by.accept-deleted: [p]" in raised.value.message) == (table_id != ID)
    check_table(q, known, None, None)
    check_table(q, known, "other", 0)
    with pytest.raises(PipelineError, match="was rolled back"):
        check_table(q, known, ID, 2)
