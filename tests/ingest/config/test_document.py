"""YAML files as values with the lines of their keys."""

from __future__ import annotations

import traceback

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration
from support.configuration_files import MINIMAL, load, problem


@pytest.mark.parametrize(
    ("text", "line"),
    [("connector:\n  topics: [\n", 3), ("connector:\n  a: 1\n  a: 2\n", 3), ("- 1\n", 1)],
)
def test_what_is_no_yaml_mapping_is_told_with_its_line(tmp_path, text, line):
    assert problem(tmp_path, text).line == line


@pytest.mark.parametrize(
    "text",
    [
        "sasl.password: hunter2, sasl.password: hunter22",
        "sasl.password: *hunter2",
        "sasl.password: &hunter2 a, ssl.key.password: &hunter2 b, bad: [",
        "sasl.password: !!int hunter2",
        "sasl.password: !!bool hunter2",
        "sasl.password: !!omap hunter2",
        "sasl.password: !hunter2 x",
        "sasl.password: !!python/object/apply:os.system ['hunter2']",
        "sasl.password: hunter2: x",
    ],
)
def test_what_is_no_yaml_is_told_without_its_values(tmp_path, recwarn, text):
    file = tmp_path / "p.yaml"
    file.write_text(f"connector:\n  kafka: {{{text}}}\n")
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(file, environment={})
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))
    assert not recwarn.list


@pytest.mark.parametrize(
    "number", ["0123", "1_000", "1e3", "1.10", "0x1F", "5", "12345678901234567.5"]
)
def test_a_number_that_is_a_password_stays_as_it_is_written(tmp_path, number):
    text = MINIMAL.replace(
        "kafka:", f"spark: {{spark.x: {number}}}\n  kafka:\n    sasl.password: {number}"
    )
    connector = load(tmp_path, text).connector
    assert connector.kafka.client_properties()["sasl.password"] == number
    assert connector.spark.conf() == {"spark.x": number}


def test_what_looks_like_a_date_is_the_text_that_it_is(tmp_path):
    text = MINIMAL.replace('"lake/events"', "lake/events\n        table-name: 2024-13-45")
    settings = [
        "connector.storage.region=2024-13-45",
        "connector.topics.events.kafka-topic=2024-1-5",
    ]
    configuration = load(tmp_path, text, settings=settings)
    (topic,) = configuration.topics
    assert topic.config.destination.table_name == "2024-13-45"
    assert topic.config.kafka_topic == "2024-1-5"
    assert configuration.connector.storage.region == "2024-13-45"


def test_merge_keys_of_yaml_take_in_what_others_say(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n"
        "  kafka: {bootstrap-servers: 'h:1'}\n"
        "  topics:\n"
        "    a: &a\n"
        "      kafka-topic: a\n"
        "      destination: {table-path: a}\n"
        "      processing: {batch-size: 7}\n"
        "    b:\n"
        "      <<: *a\n"
        "      kafka-topic: b\n"
        "      destination: {table-path: b}\n"
    )
    first, second = load_configuration(file, environment={}).topics
    assert second.config.processing.batch_size == first.config.processing.batch_size == 7
    assert second.config.kafka_topic == "b"
    file.write_text(file.read_text().replace("batch-size: 7", "batch-sise: 7"))
    with pytest.raises(ConfigurationError, match="batch-sise"):
        load_configuration(file, environment={})


@pytest.mark.parametrize("others", ["'1'", '"1"'])
def test_a_number_and_a_text_are_one_key_which_cannot_be_there_twice(tmp_path, others):
    topic = "      kafka-topic: t\n      destination: {table-path: "
    text = f"connector:\n  topics:\n    1:\n{topic}a}}\n    {others}:\n{topic}b}}\n"
    error = problem(tmp_path, text)
    assert error.key == "connector.topics.1"
    assert "duplicate key '1'" in error.message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("hunter2\n      password: hunter3", "duplicate key 'password'"),
        ("*hunter2", "quote a string that starts with"),
        ("!hun!ter2 x", "undefined tag handle"),
        ("'${hunter 2}'", "write $${ for a literal ${"),
        ("'${hunter2!}'", "write $${ for a literal ${"),
    ],
)
def test_a_secret_that_is_no_yaml_is_not_told(tmp_path, value, said):
    text = MINIMAL.replace(
        "kafka:", f"kafka:\n    security:\n      username: u\n      password: {value}"
    )
    error = problem(tmp_path, text)
    assert said in error.message
    assert "hun" not in error.message


def test_a_list_with_a_tag_is_a_list_in_the_wrong_place(tmp_path):
    assert "must be a section" in problem(tmp_path, "connector: !tag [a]\n").message
