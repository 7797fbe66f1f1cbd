"""No command, error, page or table says a secret that it was given."""

from __future__ import annotations

import http.client

import pytest
import typer

from bayou.cli.exit_on_error import exit_on_error
from bayou.cli.output import output_for
from bayou.ingest.config import load_configuration
from bayou.ingest.events import TopicStarted
from bayou.ingest.monitoring import monitored

SECRETS = {
    "KAFKA_PASSWORD": "kafka-hunter2-secret",
    "AWS_SECRET": "aws-wJalrXUt-secret",
    "STATUS_TOKEN": "status-tr0ub4dor-secret",
    "KEY_PASSWORD": "key-batterystaple-secret",
}


@pytest.fixture
def file(small_pipeline, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    small_pipeline.produce({"id": 1}, b"no json")
    small_pipeline.take_in()
    text = small_pipeline.file.read_text()
    small_pipeline.file.write_text(
        text.replace(
            "connector:\n",
            "connector:\n  storage: {access-key: AKIA, secret-key: '${AWS_SECRET}'}\n"
            "  monitoring: {port: 0, token: '${STATUS_TOKEN}'}\n",
        ).replace("bootstrap-servers:", "ssl.key.password: '${KEY_PASSWORD}', bootstrap-servers:")
    )
    return small_pipeline.file


def secrets_in(text):
    return [value for value in SECRETS.values() if value in text]


@pytest.mark.parametrize(
    "command",
    [
        ("validate", "FILE"),
        ("plan", "FILE"),
        ("status", "FILE"),
        ("topics", "FILE"),
        ("verify", "--config", "FILE"),
        ("dlq", "list", "FILE"),
        ("dlq", "show", "FILE", "events"),
        ("dlq", "replay", "FILE", "events", "--dry-run"),
        ("read", "events", "--config", "FILE"),
        ("history", "events", "--config", "FILE"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_commands_do_not_say_them(invoke, file, command, form):
    result = invoke(*(str(file) if word == "FILE" else word for word in command), *form)
    assert result.exit_code == 0, result.output
    assert secrets_in(result.output) == []


def test_errors_do_not_say_them(invoke, file):
    text = file.read_text()
    file.write_text(
        text.replace(
            "ssl.key.password:",
            "security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: bob, "
            "password: '${KAFKA_PASSWORD}'}, socket.timeout.ms: 1000, nonsense.property: 1, "
            "ssl.key.password:",
        )
    )
    for command in ("validate", "plan", "status"):
        result = invoke(command, file)
        assert result.exit_code != 0
        assert secrets_in(result.output) == []
    file.write_text(text.replace("secret-key:", "secret-kee:"))
    result = invoke("validate", file)
    assert result.exit_code == 2
    assert secrets_in(result.output) == []


def test_pages_tables_and_what_is_kept_do_not_say_them(file, small_pipeline):
    configuration = load_configuration(file)
    assert secrets_in(repr(configuration)) == []
    with monitored(configuration) as monitor:
        monitor.store.topic_started(
            TopicStarted(
                topic="events",
                kafka_topic="t",
                table_path="t",
                partitions=1,
                waiting=0,
                positions={0: 0},
            )
        )
        address = monitor.url.removeprefix("http://").rstrip("/")
        for path in ("/", "/status.json", "/metrics", "/healthz", "/readyz", "/nowhere"):
            connection = http.client.HTTPConnection(address, timeout=10)
            token = SECRETS["STATUS_TOKEN"]
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            assert secrets_in(answer.read().decode() + str(answer.headers)) == []
            connection.close()
    for written in small_pipeline.folder.rglob("*"):
        if written.is_file():
            content = written.read_bytes()
            assert [s for s in SECRETS.values() if s.encode() in content] == [], written


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_password_of_an_endpoint_is_not_said(invoke, file, form, monkeypatch):
    endpoint = "http://bob:kafka-hunter2-secret@127.0.0.1:1"
    options = ("--set", "connector.storage.endpoint=" + endpoint)
    table = ("--set", "connector.topics.events.destination.table-path=s3://bucket/events")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    result = invoke("history", "events", "--config", file, *options, *table, *form)
    assert result.exit_code == 1
    assert "http://***@" in result.output
    assert secrets_in(result.output) == []


def test_a_line_break_in_a_secret_is_an_error_that_names_its_key(invoke, file, monkeypatch):
    for name, key in (("AWS_SECRET", "storage.secret-key"), ("STATUS_TOKEN", "monitoring.token")):
        with monkeypatch.context() as patch:
            patch.setenv(name, SECRETS[name] + "\n")
            result = invoke("validate", file)
        assert result.exit_code == 2
        assert f"connector.{key}" in result.output
        assert "has a line break" in result.output
        assert secrets_in(result.output) == []


def test_a_panic_of_a_library_is_one_sentence(capsys):
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(typer.Exit), exit_on_error(output_for(as_json=False)):
        raise panic("no http://u:kafka-hunter2-secret@h/")
    shown = "".join(capsys.readouterr())
    assert "Unexpected PanicException: no http://***@h/" in shown
