"""Brokers that want a password, in clear or over TLS: from `init` to rows; no secret is told."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka import Producer

import bayou
from bayou.errors import ConfigurationError, KafkaError
from bayou.ingest.config import load_configuration
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

    def run(*arguments, password=kafka_server.security.password):
        known = {k: v for k, v in os.environ.items() if not k.startswith(("KAFKA_", "AWS_"))}
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


CONFIG = """\
connector:
  kafka:
    bootstrap-servers: "{servers}"
    security:
{security}
  topics:
    events:
      kafka-topic: {topic}
      destination: {{table-path: lake/events}}
      processing: {{max-retries: 0}}
"""


@pytest.fixture
def configured(tmp_path, topic):
    """Write a configuration with these lines of `security`; return its file."""

    def write(servers, *lines):
        file = tmp_path / "pipeline.yaml"
        security = "\n".join(f"      {line}" for line in lines)
        file.write_text(CONFIG.format(servers=servers, security=security, topic=topic))
        return file

    return write


TOKENS = """\
import base64, json, time


def encoded(part):
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def token(config):
    assert config == "audience=kafka"
    now = time.time()
    claims = {"sub": "bayou", "iat": int(now), "exp": int(now) + 3600}
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}.", now + 3600
"""
"""A token provider: the broker's test handler accepts tokens without a signature."""


def unsigned_token():
    module = {}
    exec(TOKENS, module)
    return module["token"]("audience=kafka")[0]


@pytest.fixture
def token_endpoint():
    """An OIDC token endpoint for the client `bayou` with the secret `s3cr3t`; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            login = "Basic " + base64.b64encode(b"bayou:s3cr3t").decode()
            known = self.headers["Authorization"] == login
            assert b"grant_type=client_credentials" in body
            answer = (
                {"access_token": unsigned_token(), "token_type": "bearer", "expires_in": 3600}
                if known
                else {"error": "invalid_client"}
            )
            data = json.dumps(answer).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()


def oidc(endpoint):
    return (
        "protocol: SASL_PLAINTEXT",
        "mechanism: OAUTHBEARER",
        "oauth:",
        f"  token-endpoint-url: {endpoint}",
        "  client-id: bayou",
        '  client-secret: "${CLIENT_SECRET}"',
        "  scope: kafka",
    )


def test_a_topic_behind_tokens_of_an_oidc_endpoint_is_taken_in(
    configured, kafka_server, token_endpoint
):
    file = configured(kafka_server.security.bootstrap_servers, *oidc(token_endpoint))
    (report,) = take_in(file, environment={"CLIENT_SECRET": "s3cr3t"})
    assert report.rows == 20


def test_a_wrong_client_secret_is_one_error_without_it(configured, kafka_server, token_endpoint):
    file = configured(kafka_server.security.bootstrap_servers, *oidc(token_endpoint))
    with pytest.raises(KafkaError, match="Failed to acquire SASL OAUTHBEARER token") as error:
        take_in(file, environment={"CLIENT_SECRET": "hunter-wrong"})
    assert "invalid_client" in error.value.message
    assert "hunter-wrong" not in error.value.message


@pytest.mark.slow
def test_tokens_of_a_function_are_used_on_driver_and_executors(
    configured, kafka_server, command, tmp_path, monkeypatch
):
    (tmp_path / "corporate_tokens.py").write_text(TOKENS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    configured(
        kafka_server.security.bootstrap_servers,
        "protocol: SASL_PLAINTEXT",
        "mechanism: OAUTHBEARER",
        "oauth: {token-provider: 'corporate_tokens:token', config: audience=kafka}",
    )
    code, text = command("run", "pipeline.yaml", "--once")
    assert code == 0, text
    assert bayou.table(str(tmp_path / "lake" / "events")).to_arrow().num_rows == 20


def mutual_tls(security):
    return (
        "protocol: SSL",
        f"ca-location: {security.certificate}",
        f"certificate-location: {security.client_certificate}",
        f"key-location: {security.client_key}",
        'key-password: "${KEY_PASSWORD}"',
    )


def test_a_topic_behind_mutual_tls_is_taken_in(configured, kafka_server):
    security = kafka_server.security
    file = configured(security.mutual_tls_bootstrap_servers, *mutual_tls(security))
    (report,) = take_in(file, environment={"KEY_PASSWORD": security.password})
    assert report.rows == 20


def test_init_writes_a_configuration_with_client_certificates(
    command, kafka_server, topic, tmp_path, monkeypatch
):
    security = kafka_server.security
    monkeypatch.setenv("OWN_KEY_PASSWORD", security.password)
    code, text = command(
        *("init", topic, "-b", security.mutual_tls_bootstrap_servers),
        *("--security-protocol", "SSL", "--ca-location", security.certificate),
        *("--security", f"certificate-location={security.client_certificate}"),
        *("--security", f"key-location={security.client_key}"),
        *("--security", "key-password=${OWN_KEY_PASSWORD}"),
    )
    assert code == 0, text
    file = tmp_path / "pipeline.yaml"
    assert security.password not in file.read_text()
    (report,) = take_in(file, environment={"OWN_KEY_PASSWORD": security.password})
    assert report.rows == 20


def test_a_wrong_password_of_the_key_is_refused_before_a_run(configured, kafka_server):
    security = kafka_server.security
    file = configured(security.mutual_tls_bootstrap_servers, *mutual_tls(security))
    configuration = load_configuration(file, environment={"KEY_PASSWORD": "hunter-wrong"})
    with pytest.raises(
        ConfigurationError,
        match=r"security\.key-location: the private key can't be read. .*security\.key-password",
    ) as error:
        configuration.check_runnable()
    assert "hunter-wrong" not in error.value.message


def test_brokers_that_want_a_certificate_say_so(configured, kafka_server):
    security = kafka_server.security
    file = configured(security.mutual_tls_bootstrap_servers, *mutual_tls(security)[:2])
    with pytest.raises(KafkaError, match="they refuse this client's certificate"):
        take_in(file)
