"""Credentials of storage options aren't mixed with those of the environment."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow.storage.assumed_role import take_role
from bayou.engines.arrow.storage.option_credentials import option_credentials
from bayou.errors import ArgumentError
from support.scripted_s3 import scripted_s3

KEY = {"aws_access_key_id": "OPTION", "aws_secret_access_key": "secret"}
TOKEN = {"AWS_ACCESS_KEY_ID": "OTHER", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
ACCOUNT = {"azure_storage_account_key": "a2V5"}
SIGNATURE = {"azure_storage_sas_token": "?sv=2020&sig=a%2Bb+c%3D"}
PRINCIPAL = {"azure_client_id": "c", "azure_client_secret": "s", "azure_tenant_id": "t"}


def test_a_session_token_of_the_environment_is_not_sent_with_a_key_of_the_options(monkeypatch):
    for name, value in TOKEN.items():
        monkeypatch.setenv(name, value)
    with scripted_s3() as s3:
        bayou.write("s3://bucket/t", pa.table({"id": [1]}), storage_options=s3.options)
        assert s3.headers
        assert not [h for h in s3.headers.values() if "x-amz-security-token" in h]
        assert all("Credential=test/" in h["authorization"] for h in s3.headers.values())


def test_an_access_key_of_the_options_replaces_the_session_token_of_the_environment():
    provider = option_credentials("s3", KEY, TOKEN)
    assert provider is not None
    assert provider() == {
        "access_key_id": "OPTION",
        "secret_access_key": "secret",
        "token": None,
        "expires_at": None,
    }


@pytest.mark.parametrize(
    ("config", "variables"),
    [
        (KEY, {}),
        ({}, TOKEN),
        ({**KEY, "aws_session_token": "own"}, TOKEN),
        (KEY, {**TOKEN, "AWS_ACCESS_KEY_ID": "OPTION"}),  # the same key, and its token
    ],
)
def test_obstore_chooses_where_nothing_of_two_sources_is_mixed(config, variables):
    assert option_credentials("s3", config, variables) is None


def test_a_role_is_assumed_without_the_session_token_of_another_key():
    role = take_role({"aws_role_arn": "arn", **KEY}, TOKEN)
    assert role is not None
    assert (role.access_key, role.token) == ("OPTION", None)
    same = take_role({"aws_role_arn": "arn", **KEY}, {**TOKEN, "AWS_ACCESS_KEY_ID": "OPTION"})
    assert same is not None
    assert same.token == "t"


@pytest.mark.parametrize(
    "variables",
    [
        {"AZURE_STORAGE_TOKEN": "bearer"},
        {"AZURE_STORAGE_ACCOUNT_KEY": "b3RoZXI="},
        {"AZURE_CLIENT_ID": "e", "AZURE_CLIENT_SECRET": "x", "AZURE_TENANT_ID": "t"},
        {"AZURE_CLIENT_ID": "e", "AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_TENANT_ID": "t"},
    ],
)
@pytest.mark.parametrize(
    ("config", "credential"),
    [
        (ACCOUNT, {"access_key": "a2V5", "expires_at": None}),
        (SIGNATURE, {"sas_token": [("sv", "2020"), ("sig", "a+b+c=")], "expires_at": None}),
        ({"azure_storage_token": "own"}, {"token": "own", "expires_at": None}),
    ],
)
def test_credentials_of_azure_in_the_options_replace_those_of_the_environment(
    config, credential, variables
):
    provider = option_credentials("abfss", config, variables)
    assert provider is not None
    assert provider() == credential
    assert option_credentials("abfss", config, {}) is None


def test_a_service_principal_is_not_replaced_by_a_variable_that_obstore_prefers():
    with pytest.raises(ArgumentError, match="^environment variable AZURE_STORAGE_TOKEN: .* Unset"):
        option_credentials("az", PRINCIPAL, {"AZURE_STORAGE_TOKEN": "bearer"})
    assert option_credentials("az", PRINCIPAL, {"AZURE_STORAGE_SAS_TOKEN": "sig=x"}) is None
