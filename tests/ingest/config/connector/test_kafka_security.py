"""Authentication of the brokers: what is refused before a run, and what the client gets."""

from __future__ import annotations

import sys

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration

CONFIG = """\
connector:
  kafka:
    bootstrap-servers: "h:1"
    security:
{security}
  topics:
    events: {{kafka-topic: events, destination: {{table-path: lake/events}}}}
"""


@pytest.fixture
def load(tmp_path):
    def load(*lines):
        file = tmp_path / "p.yaml"
        file.write_text(CONFIG.format(security="\n".join(f"      {line}" for line in lines)))
        return load_configuration(file, environment={"SECRET": "hunter2"})

    return load


OAUTH = ("protocol: SASL_SSL", "mechanism: OAUTHBEARER")
ENDPOINT = 'token-endpoint-url: "https://idp/token", client-id: bayou, client-secret: "${SECRET}"'
MUTUAL = ("protocol: SSL", "certificate-location: own.pem", "key-location: own.key")
KERBEROS = ("protocol: SASL_SSL", "mechanism: GSSAPI")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((*OAUTH,), "mechanism OAUTHBEARER needs the section oauth"),
        ((*OAUTH, "oauth: {}"), "token-endpoint-url is missing"),
        ((*OAUTH, 'oauth: {token-endpoint-url: "https://x"}'), "client-id is missing"),
        ((*OAUTH, f"oauth: {{{ENDPOINT}, token-provider: m:f}}"), "exclude each other"),
        ((*OAUTH, f"oauth: {{{ENDPOINT}, config: a}}"), "config is only used with"),
        ((*OAUTH, f"oauth: {{{ENDPOINT}}}", "username: x"), "username isn't used"),
        (("protocol: SASL_SSL", "mechanism: PLAIN", f"oauth: {{{ENDPOINT}}}"), "oauth needs mech"),
        ((*KERBEROS,), "mechanism GSSAPI needs the section kerberos"),
        ((*KERBEROS, "kerberos: {keytab: x}"), "'principal' is missing"),
        (("protocol: PLAINTEXT", "ca-location: ca.pem"), "ca-location isn't used with protocol"),
        (("certificate-location: own.pem",), "set protocol to SSL or SASL_SSL"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_at_once(load, lines, said):
    with pytest.raises(ConfigurationError, match=said) as error:
        load(*lines)
    assert "connector.kafka.security" in error.value.message
    assert "hunter2" not in error.value.message


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (MUTUAL, r"security\.certificate-location: the file own.pem doesn't exist"),
        (("protocol: SSL", "ca-location: no.pem"), r"security\.ca-location: the file no.pem"),
        (
            ("protocol: SSL", "certificate-location: {here}"),
            r"certificate-location: a client certificate needs .*Set security\.key-location",
        ),
        (
            ("protocol: SSL", "certificate-location: {here}", "key-location: {here}"),
            r"certificate",
        ),
        (
            (*OAUTH, f"oauth: {{{ENDPOINT}, ca-location: no.pem}}"),
            r"security\.oauth\.ca-location: the file no.pem doesn't exist",
        ),
        (
            (*OAUTH, f"oauth: {{{ENDPOINT}}}".replace("https:", "ldap:")),
            r"oauth\.token-endpoint-url: the value isn't an http or https URL",
        ),
        (
            (*OAUTH, "oauth: {token-provider: 'no_such_module:token'}"),
            r"oauth\.token-provider: 'no_such_module:token' can't be imported",
        ),
        ((*OAUTH, "oauth: {token-provider: 'os:no'}"), "'os:no' can't be imported"),
        ((*OAUTH, "oauth: {token-provider: 'os:name'}"), "'os:name' isn't a function"),
        ((*OAUTH, "oauth: {token-provider: 'os'}"), "'os' isn't a function"),
        (
            (*OAUTH, "oauth: {token-provider: aws-msk-iam}"),
            r"connector\.kafka: .*pip install 'bayou\[msk\]'",
        ),
        (
            (*KERBEROS, "kerberos: {principal: a@B}"),
            r"security\.mechanism: GSSAPI \(Kerberos\) isn't built into",
        ),
        (
            (*KERBEROS, "kerberos: {principal: a@B, keytab: no.keytab}"),
            r"security\.kerberos\.keytab: the file no.keytab doesn't exist",
        ),
    ],
)
def test_what_this_machine_lacks_is_one_error_before_a_run(load, tmp_path, lines, said):
    here = tmp_path / "own.pem"
    here.write_text("no certificate")
    configuration = load(*(line.replace("{here}", str(here)) for line in lines))
    with pytest.raises(ConfigurationError, match=said) as error:
        configuration.check_runnable()
    assert len(error.value.message.splitlines()) == 1
    assert "hunter2" not in error.value.message
    assert "Option" not in error.value.message


def test_oidc_is_checked_without_asking_the_endpoint_for_a_token(load):
    configuration = load(
        *OAUTH, f"oauth: {{{ENDPOINT}, scope: kafka, extensions: {{logicalCluster: lkc-1}}}}"
    )
    configuration.check_runnable()
    assert configuration.notices == ()
    properties = configuration.connector.kafka.client_properties()
    assert {k: v for k, v in properties.items() if k.startswith("sasl")} == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.client.id": "bayou",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
    }


def test_a_client_secret_in_clear_is_said(load):
    endpoint = ENDPOINT.replace("${SECRET}", "s3cr3t")
    (notice,) = load(*OAUTH, f"oauth: {{{endpoint}}}").notices
    assert notice.key == "connector.kafka.security.oauth.client-secret"
    assert "s3cr3t" not in notice.text


def test_a_token_provider_is_a_function_of_the_users_own(load, tmp_path, monkeypatch):
    (tmp_path / "corporate_tokens.py").write_text(
        "def token(config):\n    raise AssertionError('not called for a check')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    configuration = load(*OAUTH, "oauth: {token-provider: 'corporate_tokens:token', config: a=b}")
    configuration.check_runnable()
    properties = configuration.connector.kafka.client_properties()
    assert properties["oauth_cb"] == "corporate_tokens:token"
    assert properties["sasl.oauthbearer.config"] == "a=b"
    sys.modules.pop("corporate_tokens")


def test_librdkafkas_own_names_are_checked_likewise(tmp_path):
    file = tmp_path / "p.yaml"
    text = CONFIG.replace("    security:\n{security}\n", "    ssl.ca.location: gone.pem\n")
    file.write_text(text.format())
    with pytest.raises(ConfigurationError) as error:
        load_configuration(file, environment={}).check_runnable()
    assert error.value.message.startswith(
        f"{file}:4: connector.kafka.ssl.ca.location: the file gone.pem doesn't exist"
    )


def test_a_property_beside_the_section_that_sets_it_is_refused(tmp_path):
    file = tmp_path / "p.yaml"
    security = "      protocol: SSL\n      certificate-location: x\n    ssl.certificate.location: y"
    file.write_text(CONFIG.format(security=security))
    with pytest.raises(ConfigurationError, match=r"ssl\.certificate\.location and security are"):
        load_configuration(file, environment={})
