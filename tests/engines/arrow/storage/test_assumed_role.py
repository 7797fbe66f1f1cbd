"""Roles of S3 that an access key assumes: which options name them, and how requests are signed."""

from __future__ import annotations

import datetime as dt

import pytest

from bayou.engines.arrow.storage.assumed_role import AssumedRole, take_role
from bayou.errors import ArgumentError, StorageError

ROLE = "arn:aws:iam::111122223333:role/writer"
KEYS = {"aws_access_key_id": "AK", "aws_secret_access_key": "secret"}


@pytest.mark.parametrize(
    ("token", "signature"),
    [
        (None, "6a20f798880aa7f64f8c9ba81a30d454c0a9ed8d2f911d75f1c5b78715bdc330"),
        ("the-token", "220e758acc8b4a93127de8817e3bf9671a732a81f4ee6b90c7c0452fd7011053"),
    ],
)
def test_a_request_has_the_signature_that_botocore_computes(token, signature):
    role = AssumedRole(
        arn=ROLE,
        session_name="bayou",
        region="eu-central-1",
        endpoint="https://sts.example.com",
        access_key="AKIDEXAMPLE",
        secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        token=token,
    )
    headers = role.signed_headers(
        "sts.eu-central-1.amazonaws.com",
        b"Action=AssumeRole&Version=2011-06-15",
        dt.datetime(2026, 1, 5, 10, 20, 30, tzinfo=dt.UTC),
    )
    assert headers["authorization"].endswith(f"Signature={signature}")
    assert "wJalrXUtnFEMI" not in repr(role)
    assert "the-token" not in repr(role)


@pytest.mark.parametrize("name", ["aws_iam_role_arn", "aws_role_arn"])
def test_both_names_of_the_option_name_the_role(name):
    role = take_role({name: ROLE, **KEYS, "aws_region": "eu-west-1"}, {})
    assert role is not None
    assert (role.arn, role.region, role.session_name) == (ROLE, "eu-west-1", "bayou")
    assert role.endpoint.endswith("//sts.eu-west-1.amazonaws.com")


def test_keys_come_from_the_environment_too():
    variables = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    role = take_role({"aws_role_arn": ROLE}, variables)
    assert role is not None
    assert (role.access_key, role.secret_key, role.token) == ("AK", "s", "t")


def test_a_role_with_a_web_identity_is_left_to_obstore():
    assert take_role({"aws_role_arn": ROLE}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}) is None
    config = {"aws_role_arn": ROLE, "aws_web_identity_token_file": "/token"}
    assert take_role(config, {}) is None
    assert config["aws_role_arn"] == ROLE


def test_a_role_of_the_environment_alone_is_left_to_obstore():
    assert take_role(dict(KEYS), {"AWS_ROLE_ARN": ROLE}) is None


def test_options_that_obstore_does_not_know_are_removed():
    config = {"aws_iam_role_arn": ROLE, "aws_iam_role_session_name": "x", **KEYS}
    role = take_role(config, {})
    assert role is not None
    assert role.session_name == "x"
    assert config == KEYS


def test_a_role_without_credentials_is_refused():
    with pytest.raises(ArgumentError, match="credentials for assuming the role are missing"):
        take_role({"aws_role_arn": ROLE}, {})


@pytest.mark.parametrize(
    "response",
    [
        b"<html>Sign in</html>",
        b"",
        b"<R><AccessKeyId>A</AccessKeyId><SecretAccessKey>hunter2</SecretAccessKey></R>",
    ],
)
def test_a_response_without_credentials_is_not_a_refusal_of_the_store(monkeypatch, response):
    monkeypatch.setattr(AssumedRole, "_request", lambda _: (200, response))
    role = take_role({"aws_role_arn": ROLE, **KEYS}, {})
    assert role is not None
    with pytest.raises(StorageError, match="can't be assumed: .* has no credentials") as refused:
        role()
    assert "hunter2" not in str(refused.value)


def test_an_expiration_without_time_zone_is_in_utc(monkeypatch):
    response = (
        b"<R><AccessKeyId>A</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
        b"<SessionToken>t</SessionToken><Expiration>2026-01-05T10:20:30</Expiration></R>"
    )
    monkeypatch.setattr(AssumedRole, "_request", lambda _: (200, response))
    role = take_role({"aws_role_arn": ROLE, **KEYS}, {})
    assert role is not None
    assert role()["expires_at"] == dt.datetime(2026, 1, 5, 10, 20, 30, tzinfo=dt.UTC)
