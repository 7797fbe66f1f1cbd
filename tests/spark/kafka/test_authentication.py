"""Tokens and checks of the Kafka client's authentication."""

from __future__ import annotations

import sys
import time
import traceback
from types import ModuleType

import pytest

from bayou.errors import ArgumentError, KafkaError
from bayou.spark.kafka.authentication import TokenCallback, check_authentication
from bayou.spark.kafka.client import ClientErrors, make_admin, make_consumer, parse_properties

TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture
def provider(monkeypatch):
    """Put functions into the module `own_tokens`."""
    module = ModuleType("own_tokens")
    monkeypatch.setitem(sys.modules, "own_tokens", module)

    def put(function):
        module.token = function
        return "own_tokens:token"

    return put


def test_the_first_token_is_used_and_later_ones_are_requested(provider):
    asked = []

    def token(config):
        asked.append(config)
        return f"token-{len(asked)}", time.time() + 100

    callback = TokenCallback(provider(token), "a=b")
    assert asked == ["a=b"]
    assert [callback("a=b")[0], callback("a=b")[0]] == ["token-1", "token-2"]


def test_a_provider_that_fails_is_one_error_at_once(provider):
    def broken(config):
        raise RuntimeError("no credentials")

    properties = parse_properties(
        {"bootstrap.servers": "h:1", **TOKENS, "oauth_cb": provider(broken)}
    )
    for make in (
        lambda: make_admin(properties, ClientErrors(properties)),
        lambda: make_consumer(properties, "g", ClientErrors(properties), 1),
    ):
        with pytest.raises(KafkaError, match="own_tokens:token: RuntimeError: no credentials"):
            make()


def test_an_error_of_a_provider_does_not_show_its_argument(provider):
    def refused(config):
        raise ValueError(f"{config!r} isn't a login")

    text = r"own_tokens:token: ValueError: '\*\*\*' isn't a login"
    with pytest.raises(KafkaError, match=text) as caught:
        TokenCallback(provider(refused), "hunter2-hunter2")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value, limit=0))


@pytest.mark.parametrize("result", [None, "token", ("token",), (b"token", 1.0)])
def test_a_provider_that_returns_no_token_is_an_error(provider, result):
    with pytest.raises(KafkaError, match="the function returned no token. Return a tuple"):
        TokenCallback(provider(lambda _: result), "")


@pytest.mark.parametrize(
    ("properties", "argument"),
    [
        (TOKENS, "kafka.sasl.mechanism"),
        (
            {**TOKENS, "sasl.oauthbearer.method": "oidc"},
            "kafka.sasl.oauthbearer.token.endpoint.url",
        ),
        ({"ssl.key.location": __file__}, "kafka.ssl.key.location"),
        ({"ssl.crl.location": "gone"}, "kafka.ssl.crl.location"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.kerberos.keytab": __file__,
                "sasl.kerberos.kinit.cmd": "no-kinit-here -t x",
            },
            "kafka.sasl.kerberos.keytab",
        ),
    ],
)
def test_a_setting_that_is_missing_is_named(properties, argument):
    with pytest.raises(ArgumentError) as error:
        check_authentication(properties)
    assert error.value.argument == argument


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.oauthbearer.metadata.authentication.type": "azure_imds"},
        {
            "sasl.oauthbearer.token.endpoint.url": "https://x",
            "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        },
        {
            "sasl.oauthbearer.token.endpoint.url": "https://x",
            "sasl.oauthbearer.client.credentials.client.id": "a",
            "sasl.oauthbearer.client.credentials.client.secret": "b",
        },
    ],
)
def test_other_ways_of_oidc_need_no_client_secret(more):
    check_authentication({**TOKENS, "sasl.oauthbearer.method": "oidc", **more})


def test_tokens_of_amazon_msk_expire_in_seconds(monkeypatch):
    asked = []

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region):
            asked.append((region,))
            return "signed", 1_800_000_000_500

        @staticmethod
        def generate_auth_token_from_profile(region, profile):
            asked.append((region, profile))
            return "signed", 1_800_000_000_500

        @staticmethod
        def generate_auth_token_from_role_arn(region, role):
            asked.append((region, role))
            return "signed", 1_800_000_000_500

    signer = ModuleType("aws_msk_iam_sasl_signer")
    signer.MSKAuthTokenProvider = MSKAuthTokenProvider
    signer.__spec__ = sys.__spec__
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", signer)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for config in ("", "region=us-east-1", "profile=ops", "role-arn=arn:aws:iam::1:role/r"):
        assert TokenCallback("aws-msk-iam", config)(config) == ("signed", 1_800_000_000.5)
    assert asked == [
        ("eu-west-1",),
        ("us-east-1",),
        ("eu-west-1", "ops"),
        ("eu-west-1", "arn:aws:iam::1:role/r"),
    ]
    provided = {**TOKENS, "oauth_cb": "aws-msk-iam"}
    with pytest.raises(ArgumentError, match="unknown setting 'role'"):
        check_authentication({**provided, "sasl.oauthbearer.config": "role=x"})
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ArgumentError, match="needs a region"):
        check_authentication(provided)
