"""From an empty folder to a configuration that a run takes as it stands."""

from __future__ import annotations

import json
import shlex

import pytest

import bayou
from bayou.ingest.config import load_configuration
from bayou.ingest.schema.inference import inferred_schema
from support.in_process_pipeline import take_in


def test_a_topic_becomes_a_table_with_what_init_wrote(small_pipeline, events, tmp_path):
    small_pipeline.produce(
        {"id": 1, "at": "2024-01-05T10:00:00Z", "tags": ["a"], "place": {"city": "x"}},
        {"id": 2, "at": "2024-01-06T10:00:00+01:00", "price": 1.5},
    )
    folder = tmp_path / "new"
    servers = small_pipeline.broker.bootstrap_servers
    code, (facts, _) = events(
        "init", small_pipeline.kafka_topic, "--bootstrap-servers", servers, "--folder", folder
    )
    assert code == 0
    assert facts["columns"] == "id, at, tags, place, price"
    file = folder / "pipeline.yaml"
    assert load_configuration(file).notices == ()
    assert [r.rows for r in take_in(file)] == [2]
    table = bayou.table(load_configuration(file).topics[0].table_path)
    types = {f.name: str(f.data_type) for f in table.snapshot().schema}
    assert (types["id"], types["at"], types["price"]) == ("long", "timestamp", "double")


def test_commented_keys_are_keys(small_pipeline, invoke, tmp_path):
    invoke("init", "any.topic", "--samples", 0, "--folder", tmp_path / "new")
    file = tmp_path / "new" / "pipeline.yaml"
    lines = []
    for line in file.read_text().splitlines():
        bare = line.lstrip()
        is_key = bare.startswith("# ") and (":" in bare) and (" " * 2 in line[:2])
        words = bare.removeprefix("# ").split(":")[0].split()
        lines.append(line.replace("# ", "", 1) if is_key and len(words) == 1 else line)
    (tmp_path / "new" / "schemas").mkdir()
    (tmp_path / "new" / "schemas" / "any-topic.json").write_text("{}")
    file.write_text("\n".join(lines))
    configuration = load_configuration(file, environment={"KAFKA_PASSWORD": "x"})
    (topic,) = configuration.topics
    assert topic.config.slo.freshness_seconds == 120
    assert topic.config.event_time == "created_at"
    assert topic.config.destination.partition_columns == ("year", "month", "day")
    assert configuration.connector.monitoring.port == 8710
    assert configuration.connector.kafka.security.mechanism == "SCRAM-SHA-512"


@pytest.mark.parametrize("topic", ["null", "true", "on", "123", "1e3", "0x1f", "2024-01-05", "a.b"])
def test_a_topic_may_be_called_what_yaml_takes_for_something_else(invoke, tmp_path, topic):
    assert invoke("init", topic, "--samples", 0, "--folder", tmp_path).exit_code == 0
    (found,) = load_configuration(tmp_path / "pipeline.yaml", environment={}).topics
    assert (found.key, found.config.kafka_topic) == (topic.replace(".", "-"), topic)


def test_a_table_may_stand_anywhere(invoke, tmp_path):
    path = str(tmp_path / 'a "b" \\new {c} ü')
    result = invoke("init", "t", "--samples", 0, "--folder", tmp_path, "--table", path)
    assert result.exit_code == 0
    (found,) = load_configuration(tmp_path / "pipeline.yaml", environment={}).topics
    assert found.table_path == path


def test_what_makes_no_configuration_leaves_no_file(invoke, tmp_path):
    for _ in range(2):
        result = invoke("init", "no topic!", "--samples", 0, "--folder", tmp_path)
        assert result.exit_code == 2
        assert "'no topic!' isn't a valid Kafka topic name" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_to_try_next_can_be_copied_into_a_shell(invoke, tmp_path):
    folder = tmp_path / "Ana's files"
    result = invoke("init", "t", "--samples", 0, "--folder", folder)
    _, _, commands = result.stdout.partition("Try next\n")
    file = str(folder / "pipeline.yaml")
    assert [shlex.split(command) for command in commands.splitlines()] == [
        ["bayou", "plan", file],
        ["bayou", "run", file, "--once"],
        ["bayou", "read", str(folder / "lake" / "t")],
    ]


def test_files_that_are_there_stay(invoke, tmp_path):
    (tmp_path / "pipeline.yaml").write_text("mine")
    result = invoke("init", "t", "--samples", 0, "--folder", tmp_path)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (tmp_path / "pipeline.yaml").read_text() == "mine"
    assert invoke("init", "t", "--samples", 0, "--folder", tmp_path, "--force").exit_code == 0


def test_files_that_are_there_stay_if_the_new_configuration_is_invalid(invoke, tmp_path):
    options = ("init", "t", "--samples", 0, "--folder", tmp_path, "--table", "~nobody-x/t")
    (tmp_path / "pipeline.yaml").write_text("mine")
    assert invoke(*options, "--force").exit_code == 2
    assert (tmp_path / "pipeline.yaml").read_text() == "mine"
    (tmp_path / "pipeline.yaml").unlink()
    assert invoke(*options).exit_code == 2
    assert not (tmp_path / "pipeline.yaml").exists()


def test_a_topic_that_is_not_there_is_said_with_those_that_are(small_pipeline, invoke, tmp_path):
    servers = small_pipeline.broker.bootstrap_servers
    result = invoke("init", "nope", "-b", servers, "--folder", tmp_path / "new")
    assert result.exit_code == 1
    assert "no topic 'nope'; they have" in result.stderr


def test_records_that_are_no_json_are_said(small_pipeline, invoke, tmp_path):
    small_pipeline.produce(b"\x00avro?", b"1,2,3")
    result = invoke(
        "init",
        small_pipeline.kafka_topic,
        "-b",
        small_pipeline.broker.bootstrap_servers,
        "--folder",
        tmp_path / "new",
    )
    assert result.exit_code == 1
    assert "none of the 2 sampled records" in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_record_that_is_nested_too_deeply_is_no_sample(small_pipeline, events, tmp_path):
    small_pipeline.produce({"id": 1}, b'{"a":' * 700 + b"1" + b"}" * 700)
    code, (facts, _) = events(
        "init",
        small_pipeline.kafka_topic,
        "-b",
        small_pipeline.broker.bootstrap_servers,
        "--folder",
        tmp_path / "new",
    )
    assert (code, facts["columns"]) == (0, "id")
    assert facts["sampled"] == "2 records, 1 of them JSON objects"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([{"a": 1}, {"a": 2.5}], {"type": "number"}),
        ([{"a": 1}, {"a": None}], {"type": ["integer", "null"]}),
        ([{"a": 1}, {"a": "x"}], {"type": ["integer", "string"]}),
        ([{"a": None}], {}),
        ([{"a": "2024-01-05"}], {"type": "string", "format": "date"}),
        ([{"a": "2024-01-05"}, {"a": "soon"}], {"type": "string"}),
        ([{"a": []}, {"a": [1]}], {"type": "array", "items": {"type": "integer"}}),
        (
            [{"a": {"b": True}}],
            {"type": "object", "properties": {"b": {"type": "boolean"}}},
        ),
    ],
)
def test_a_schema_is_what_records_have_in_common(records, expected):
    schema = inferred_schema(records, "t")
    assert schema["properties"]["a"] == expected
    json.dumps(schema)


def test_other_keys_of_security_are_written_without_the_secrets(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_SECRET", "hunter2")
    arguments = ["init", "t", "--samples", 0, "--folder", tmp_path]
    arguments += ["--security-protocol", "SASL_SSL", "--sasl-mechanism", "OAUTHBEARER"]
    for setting in (
        "oauth.token-endpoint-url=https://idp/token?a=b",
        "oauth.client-id=bayou",
        "oauth.client-secret=${OWN_SECRET}",
    ):
        arguments += ["--security", setting]
    assert invoke(*arguments).exit_code == 0
    file = tmp_path / "pipeline.yaml"
    assert "hunter2" not in file.read_text()
    configuration = load_configuration(file, environment={"OWN_SECRET": "hunter2"})
    assert configuration.notices == ()
    oauth = configuration.connector.kafka.security.oauth
    assert oauth.token_endpoint_url == "https://idp/token?a=b"
    assert oauth.client_secret.get_secret_value() == "hunter2"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("key-location", "must have the form KEY=VALUE"),
        ("password=hunter2", "read from KAFKA_PASSWORD"),
        ("oauth.client-secret=${NOT_SET_HERE}", "variable NOT_SET_HERE isn't set"),
        ("key-locatoin=x", "--security key-locatoin: unknown key; did you mean 'key-location'?"),
    ],
)
def test_a_setting_of_security_that_is_none_is_refused(invoke, tmp_path, setting, said):
    result = invoke("init", "t", "--samples", 0, "--folder", tmp_path, "--security", setting)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "hunter2" not in result.stderr
    assert list(tmp_path.iterdir()) == []
