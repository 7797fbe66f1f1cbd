"""`connector.storage`: keys and roles of S3, Azure and Google Cloud Storage."""

from __future__ import annotations

import pytest

from bayou.errors import ConfigurationError
from support.configuration_files import MINIMAL, load, problem


def storage(text):
    return MINIMAL.replace("connector:\n", f"connector:\n  storage:\n{text}", 1)


def options(tmp_path, text):
    return load(tmp_path, storage(text)).connector.storage.storage_options()


def test_the_keys_of_azure_are_storage_options(tmp_path):
    assert options(tmp_path, "    azure: {account-name: lake, account-key: a2V5}\n") == {
        "AZURE_STORAGE_ACCOUNT_NAME": "lake",
        "AZURE_STORAGE_ACCOUNT_KEY": "a2V5",
    }
    text = "    azure: {tenant-id: t, client-id: c, federated-token-file: /token}\n"
    assert options(tmp_path, text) == {
        "AZURE_TENANT_ID": "t",
        "AZURE_CLIENT_ID": "c",
        "AZURE_FEDERATED_TOKEN_FILE": "/token",
    }
    assert options(tmp_path, "    azure: {use-azure-cli: true}\n") == {
        "AZURE_USE_AZURE_CLI": "true"
    }


def test_the_keys_of_google_are_storage_options(tmp_path):
    text = "    google: {service-account-file: /key.json, endpoint: 'http://localhost:1'}\n"
    assert options(tmp_path, text) == {
        "GOOGLE_SERVICE_ACCOUNT": "/key.json",
        "GOOGLE_BASE_URL": "http://localhost:1",
    }


def test_the_role_and_the_encryption_of_s3_are_storage_options(tmp_path):
    text = (
        "    role-arn: arn:aws:iam::1:role/r\n    web-identity-token-file: /token\n"
        "    encryption: aws:kms\n    kms-key-id: k\n    bucket-key: true\n"
    )
    assert options(tmp_path, text) == {
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
        "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "AWS_SSE_KMS_KEY_ID": "k",
        "AWS_SSE_BUCKET_KEY_ENABLED": "true",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    azure: {account-key: k, sas-token: s}\n", "account-key and sas-token are both set"),
        ("    azure: {client-secret: s}\n", "client-secret needs client-id and tenant-id"),
        ("    azure: {account: a}\n", "account"),
        (
            "    google: {service-account-key: k, bearer-token: t}\n",
            "service-account-key and bearer-token are both set",
        ),
        ("    web-identity-token-file: f\n", "web-identity-token-file needs role-arn"),
        (
            "    role-arn: r\n    web-identity-token-file: f\n    access-key: a\n",
            "access-key and web-identity-token-file are both set",
        ),
        ("    kms-key-id: k\n", "set encryption to aws:kms or"),
        ("    encryption: AES256\n    kms-key-id: k\n", "set encryption to aws:kms or"),
        ("    encryption: kms\n", "encryption"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path, text, said):
    error = problem(tmp_path, storage(text))
    assert said in error.message
    assert error.key.startswith("connector.storage")


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("az://c/t", "    azure: {account-key: a2V5}\n", "the storage account is missing"),
        ("gs://b/t", "    google: {service-account-file: /no/file}\n", "GOOGLE_SERVICE_ACCOUNT"),
        ("s3://b/t", "    endpoint: localhost:9000\n", "not a URL"),
        ("s3://b/t", "    role-arn: r\n", "credentials for assuming the role are missing"),
    ],
)
def test_settings_that_open_no_store_are_refused_before_a_run(
    tmp_path, monkeypatch, path, text, said
):
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    configuration = load(tmp_path, storage(text).replace("lake/events", path))
    with pytest.raises(ConfigurationError) as raised:
        configuration.check_supported()
    assert said in raised.value.message
    assert raised.value.key == "connector.storage"


def test_secrets_of_stores_are_not_shown(tmp_path):
    text = "    azure: {account-name: a, account-key: hunter2hunter2}\n"
    configuration = load(tmp_path, storage(text))
    assert "hunter2" not in repr(configuration)
    assert any("account-key" in notice.text for notice in configuration.notices)


@pytest.mark.parametrize(
    ("conf", "section"),
    [
        ("spark.hadoop.fs.azure.account.key.lake.dfs.example.com", "azure"),
        ("spark.hadoop.fs.gs.auth.service.account.json.keyfile", "google"),
    ],
)
def test_settings_of_hadoop_for_other_stores_are_said_not_to_be_used(tmp_path, conf, section):
    text = MINIMAL.replace("connector:\n", f"connector:\n  spark: {{{conf}: x}}\n", 1)
    (notice,) = load(tmp_path, text).notices
    assert notice.key == f"connector.spark.{conf}"
    assert f"connector.storage.{section}" in notice.text
