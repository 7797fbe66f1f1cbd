from __future__ import annotations

import http.server
import logging
import pickle
import threading

import pytest

from bayou.errors import ArgumentError
from bayou.spark.kafka.client import ClientErrors, logger, make_admin, parse_properties
from support.waiting import wait_until


def _parse(**given):
    return parse_properties({"bootstrap.servers": "b:9092", **given}).values


def test_librdkafka_properties_pass_as_they_are():
    assert _parse(**{"security.protocol": "SASL_SSL"})["security.protocol"] == "SASL_SSL"


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ("fetch.max.wait.ms", "fetch.wait.max.ms"),
        ("request.timeout.ms", "socket.timeout.ms"),
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ],
)
def test_a_name_of_the_java_client_becomes_that_of_librdkafka(java, ours):
    assert _parse(**{java: "1"})[ours] == "1"


def test_user_and_password_come_out_of_the_jaas_text():
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        r'username="ann" password="se\"same";'
    )
    values = _parse(**{"sasl.jaas.config": jaas})
    assert (values["sasl.username"], values["sasl.password"]) == ("ann", 'se"same')


def test_a_jaas_text_of_another_module_is_refused_without_showing_it():
    with pytest.raises(ArgumentError, match=r"sasl\.kerberos") as caught:
        _parse(**{"sasl.jaas.config": 'Krb5LoginModule required password="sesame";'})
    assert "sesame" not in str(caught.value)


def test_a_pem_trust_store_becomes_the_ca_file_and_a_java_one_is_refused():
    values = _parse(**{"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"})
    assert values["ssl.ca.location"] == "/ca.pem"
    assert "ssl.truststore.type" not in values
    with pytest.raises(ArgumentError, match=r"Set kafka\.ssl\.ca\.location"):
        _parse(**{"ssl.truststore.location": "/store.jks"})


def test_an_empty_endpoint_algorithm_means_none():
    assert _parse(**{"ssl.endpoint.identification.algorithm": ""}) == {
        "bootstrap.servers": "b:9092",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("auto.offset.reset", "startingOffsets"),
        ("enable.auto.commit", "Remove the option"),
        ("key.deserializer", "Cast the column key"),
        ("max.poll.records", "Remove the option"),
        ("ssl.truststore.password", "ssl.ca.location"),
    ],
)
def test_a_property_that_cannot_hold_is_refused_with_what_to_do(name, advice):
    with pytest.raises(ArgumentError, match=advice) as caught:
        _parse(**{name: "x"})
    assert caught.value.argument == f"kafka.{name}"


def test_brokers_must_be_given():
    with pytest.raises(ArgumentError, match=r"kafka\.bootstrap\.servers is missing"):
        parse_properties({"bootstrap.servers": " "})


def test_brokers_with_credentials_are_refused_without_showing_them():
    with pytest.raises(ArgumentError, match="contains credentials") as raised:
        parse_properties({"bootstrap.servers": "h:9092,bob:s3cr3t@b:9092"})
    assert "s3cr3t" not in str(raised.value)


def test_secrets_are_in_no_representation_and_are_scrubbed_from_texts():
    properties = parse_properties(
        {"bootstrap.servers": "b:9092", "sasl.username": "ann", "sasl.password": "sesame"}
    )
    assert "sesame" not in repr(properties)
    assert "sasl.password" in repr(properties)
    assert properties.scrub("ann says sesame") == "ann says ***"
    assert pickle.loads(pickle.dumps(properties)) == properties


def test_a_short_password_leaves_other_words_of_a_text():
    properties = parse_properties({"bootstrap.servers": "h", "sasl.password": "a"})
    assert properties.scrub("a broker: bad 'a'") == "*** broker: bad '***'"


class _QuotingEndpoint(http.server.BaseHTTPRequestHandler):
    """A token endpoint whose error quotes the client secret."""

    def do_POST(self):
        data = b'{"error": "invalid_client", "error_description": "sesame isn\'t right"}'
        self.send_response(401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Nothing."""


def test_secrets_are_scrubbed_from_the_log_of_the_client(caplog):
    caplog.set_level(logging.DEBUG, logger.name)
    server = http.server.HTTPServer(("127.0.0.1", 0), _QuotingEndpoint)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    properties = parse_properties(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "ann",
            "sasl.oauthbearer.client.secret": "sesame",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{server.server_port}/t",
        }
    )
    admin = make_admin(properties, ClientErrors(properties))
    wait_until(lambda: admin.poll(0.01) is not None and "invalid_client" in caplog.text)
    server.shutdown()
    server.server_close()
    assert "sesame" not in caplog.text
    assert "*** isn't right" in caplog.text
