"""Table paths: one table for each topic, and no other table in its place."""

from __future__ import annotations

import pytest

from support.configuration_files import MINIMAL, load, problem


def test_a_table_cannot_be_where_dead_letters_of_another_topic_go(tmp_path):
    text = MINIMAL + (
        "    more:\n      kafka-topic: more\n"
        "      destination: {table-path: lake/events_dead_letters}\n"
    )
    assert "the dead letter table of topic" in problem(tmp_path, text).message


def test_two_topics_cannot_share_a_table(tmp_path):
    text = MINIMAL + (
        "    more:\n      kafka-topic: more\n      destination: {table-path: lake/events}\n"
    )
    error = problem(tmp_path, text)
    assert error.line == 11
    assert "already writes to" in error.message
    for path, said in (
        ("s3a://b/t", "already writes to"),
        ("s3a://b/t_dead_letters", "; choose"),
    ):
        on_s3 = text.replace('"lake/events"', "s3://b/t").replace("lake/events", path)
        assert said in problem(tmp_path, on_s3).message


@pytest.mark.parametrize(
    "path", ["s3:/b/t", "dbfs:/t", "ftp://b/t", "s3://AKIAKEY:12/hunter2@b/t", "s3://b/../t"]
)
def test_a_table_path_that_is_no_uri_of_a_store_is_no_local_folder(tmp_path, path):
    error = problem(tmp_path, MINIMAL.replace("lake/events", path))
    assert error.key == "connector.topics.events.destination.table-path"
    assert "hunter2" not in error.message


@pytest.mark.parametrize("path", ["s3:/b/json", "s3//b/json", "dbfs:/json"])
def test_a_path_of_json_files_that_is_no_uri_of_a_store_is_no_local_folder(tmp_path, path):
    migration = f"  migration: {{enabled: true, json-path: {{events: '{path}'}}}}\n"
    error = problem(tmp_path, MINIMAL.replace("connector:\n", f"connector:\n{migration}"))
    assert error.key == "connector.migration.json-path.events"
    assert path in error.message


def test_two_topics_cannot_share_a_table_by_two_names_of_it(tmp_path):
    text = MINIMAL + "    more:\n      kafka-topic: more\n      destination: {table-path: MORE}\n"
    for path, more in (
        ("gs://b/t", "gcs://b//t/"),
        ("s3://b/t", "S3A://b/t"),
        ("lake/t", f"file:{tmp_path}/lake/t"),
    ):
        same = text.replace("lake/events", path).replace("MORE", more)
        assert "already writes to" in problem(tmp_path, same).message


def test_a_table_cannot_be_where_the_ledger_of_another_topic_goes(tmp_path):
    text = MINIMAL + (
        "    other:\n      kafka-topic: o\n      destination: {table-path: lake/events_migration}\n"
    )
    assert "is the migration ledger of topic 'events'" in problem(tmp_path, text).message


@pytest.mark.parametrize("path", ["file:/data/lake", "file:///data/lake"])
def test_a_local_table_may_be_a_uri(tmp_path, path):
    configuration = load(tmp_path, MINIMAL.replace("lake/events", path))
    assert configuration.topics[0].table_path == "/data/lake"


@pytest.mark.parametrize("other", ["s3a://b//x/y", "s3://b/x///y/"])
def test_a_table_has_one_name_in_a_store(tmp_path, other):
    text = MINIMAL.replace("lake/events", "s3://b/x/y") + (
        f"    other:\n      kafka-topic: o\n      destination: {{table-path: '{other}'}}\n"
    )
    assert "already writes to" in problem(tmp_path, text).message
