"""The section of the schema registry: what is refused, and what its client gets."""

from __future__ import annotations

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration

CONFIG = """\
connector:
  kafka: {{bootstrap-servers: "h:1"}}
  schema-registry: {{{registry}}}
  topics:
    events: {{kafka-topic: events, decode: avro, destination: {{table-path: lake/events}}}}
"""
URL = 'url: "https://registry:8081"'
OAUTH = 'oauth: {token-endpoint-url: "https://idp/token", client-id: b, client-secret: "${SECRET}"}'


@pytest.fixture
def load(tmp_path):
    def load(*settings):
        file = tmp_path / "p.yaml"
        file.write_text(CONFIG.format(registry=", ".join(settings)))
        return load_configuration(file, environment={"SECRET": "hunter2"})

    return load


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("url: registry:8081",), "the URL must begin with http:// or https://"),
        (('url: "https://a,ftp://b"',), "the URL must begin with http:// or https://"),
        (('url: "https://a,https://u:hunter2@b"',), "the URL contains credentials"),
        (('url: "http://registry:8081x"',), "the URL has no host or an invalid port"),
        (('url: "http://registry:80810"',), "the URL has no host or an invalid port"),
        (('url: "http://[::1"',), "the URL has no host or an invalid port"),
        ((URL, "username: a", "token: hunter2"), "username and token exclude each other"),
        ((URL, "token: hunter2", OAUTH), "token and oauth exclude each other"),
        ((URL, "username: 'a:b'"), "username can't contain a colon"),
        ((URL, "key-location: k"), "need certificate-location"),
        ((URL, "logical-cluster: c"), "logical-cluster is only allowed with token or oauth"),
        ((URL, 'oauth: {token-endpoint-url: "https://x"}'), "'client-id' is missing"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_at_once(load, settings, said):
    with pytest.raises(ConfigurationError, match=said) as error:
        load(*settings)
    assert "connector.schema-registry" in error.value.message
    assert "hunter2" not in error.value.message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("ca-location: gone.pem",), r"schema-registry\.ca-location: the file gone.pem doesn't"),
        (("ca-location: '{here}'",), r"schema-registry\.ca-location: not a usable PEM file"),
        (
            ("certificate-location: '{here}'", 'key-password: "${SECRET}"'),
            r"certificate-location: not a usable PEM file",
        ),
    ],
)
def test_a_certificate_that_cannot_be_used_is_one_error_before_a_run(
    load, tmp_path, settings, said
):
    here = tmp_path / "no.pem"
    here.write_text("no certificate")
    configuration = load(URL, *(line.replace("{here}", str(here)) for line in settings))
    with pytest.raises(ConfigurationError, match=said) as error:
        configuration.check_runnable()
    assert "hunter2" not in error.value.message


def test_all_settings_reach_the_client(load):
    cloud = ("logical-cluster: lsrc-1", "identity-pool: pool-1")
    configuration = load(URL, OAUTH, *cloud, "certificate-location: c")
    address = configuration.connector.schema_registry.address()
    client = address.client_settings()
    client.pop("ssl.ca.location", None)  # that of the system
    assert client == {
        "url": "https://registry:8081",
        "timeout": 10,
        "max.retries": 0,
        "ssl.certificate.location": "c",
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": "https://idp/token",
        "bearer.auth.client.id": "b",
        "bearer.auth.client.secret": "hunter2",
        "bearer.auth.scope": "",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }


def test_an_empty_user_of_the_environment_is_no_login(load):
    configuration = load(URL, 'username: "${REGISTRY_USER:-}"', 'password: "${PASSWORD:-}"')
    configuration.check_runnable()
    address = configuration.connector.schema_registry.address()
    assert "basic.auth.user.info" not in address.client_settings()
