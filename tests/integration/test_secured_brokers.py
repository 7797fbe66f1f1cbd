"""Brokers that want a password, in clear or over TLS: from `init` to rows; no secret is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Producer

import bayou
from support.in_process_pipeline import take_in


@pytest.fixture
def topic(kafka_server):
    """A topic of 20 records."""
    name = f"secured-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(name)
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    for number in range(20):
        producer.produce(name, json.dumps({"id": number}).encode())
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def command(tmp_path, kafka_server):
    """Run `bayou` in an empty folder; gives exit code and all that it said."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("KAFKA_", "AWS_"))}

    def run(*arguments, password=kafka_server.security.password):
        done = subprocess.run(
            [sys.executable, "-m", "bayou.cli", *(str(a) for a in arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**known, "KAFKA_PASSWORD": password, "BAYOU_STATE_PATH": str(tmp_path / "state")},
            timeout=400,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def over_tls(security):
    return [
        *("-b", security.tls_bootstrap_servers, "--security-protocol", "SASL_SSL"),
        *("--username", security.username, "--ca-location", security.certificate),
    ]


def test_a_topic_behind_tls_and_scram_is_taken_in(command, kafka_server, topic, tmp_path):
    security = kafka_server.security
    code, said = command("init", topic, *over_tls(security), "--sasl-mechanism", "SCRAM-SHA-512")
    assert code == 0, said
    (report,) = take_in(
        tmp_path / "pipeline.yaml", environment={"KAFKA_PASSWORD": security.password}
    )
    assert report.rows == 20
    assert security.password not in said


@pytest.mark.slow
def test_commands_on_a_topic_behind_tls_and_scram_show_no_password(
    command, kafka_server, topic, tmp_path
):
    security = kafka_server.security
    said = ""
    for arguments in (
        ("init", topic, *over_tls(security), "--sasl-mechanism", "SCRAM-SHA-512"),
        ("plan", "pipeline.yaml"),
        ("run", "pipeline.yaml", "--once"),
        ("verify", "--config", "pipeline.yaml"),
    ):
        code, text = command(*arguments)
        assert code == 0, text
        said += text
    table = bayou.table(str(tmp_path / "lake" / topic.replace("-", "_")))
    assert sorted(table.to_arrow().column("id").to_pylist()) == list(range(20))
    assert (tmp_path / "state" / "spark.log").exists()
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert security.password.encode() not in written + said.encode()


@pytest.mark.slow
def test_a_topic_behind_a_password_in_clear_is_taken_in(command, kafka_server, topic, tmp_path):
    security = kafka_server.security
    code, text = command(
        *("init", topic, "-b", security.bootstrap_servers, "--security-protocol"),
        *("SASL_PLAINTEXT", "--sasl-mechanism", "PLAIN", "--username", security.username),
    )
    assert code == 0, text
    (report,) = take_in(
        tmp_path / "pipeline.yaml", environment={"KAFKA_PASSWORD": security.password}
    )
    assert report.rows == 20


@pytest.mark.parametrize(
    "mechanism", [pytest.param("PLAIN", marks=pytest.mark.slow), "SCRAM-SHA-512"]
)
def test_a_wrong_password_is_one_sentence_without_it(command, kafka_server, topic, mechanism):
    arguments = ("init", topic, *over_tls(kafka_server.security), "--sasl-mechanism", mechanism)
    code, text = command(*arguments, password="hunter-wrong")
    assert code == 1
    assert "uthentication" in text
    assert "Traceback" not in text
    assert "hunter-wrong" not in text


@pytest.mark.slow
def test_a_certificate_that_is_not_trusted_is_said(command, kafka_server, topic):
    arguments = [a for a in over_tls(kafka_server.security) if a != "--ca-location"]
    arguments.remove(kafka_server.security.certificate)
    code, text = command("init", topic, *arguments, "--sasl-mechanism", "PLAIN")
    assert code == 1
    assert "certificate isn't trusted" in text
    assert "Traceback" not in text
