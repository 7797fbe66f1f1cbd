"""What storage options and the environment come to."""

from __future__ import annotations

import base64
import datetime as dt
import json
import traceback

import pytest

import bayou
from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles
from bayou.engines.arrow.storage.storage_options import store_settings
from bayou.errors import ArgumentError, BayouError


def test_an_http_endpoint_of_the_environment_allows_http():
    settings = store_settings("s3", {}, {"AWS_ENDPOINT_URL": "http://localhost:9000"})
    assert settings.client_options == {"allow_http": "true"}
    assert settings.config == {}


def test_options_come_before_the_environment():
    environment = {"AWS_ENDPOINT_URL": "http://localhost:9000", "AWS_ALLOW_HTTP": "true"}
    options = {"aws_endpoint_url": "https://localhost:9000", "aws_allow_http": "false"}
    assert store_settings("s3", options, environment).client_options == {"allow_http": "false"}


def test_http_is_allowed_where_the_environment_says_so():
    assert store_settings("s3", {}, {"AWS_ALLOW_HTTP": "true"}).client_options == {
        "allow_http": "true"
    }


@pytest.mark.parametrize(
    "endpoint",
    [
        "localhost:9000",
        "http://",
        "https:///x",
        "s3.example.com",
        "http://u:secret@[::",
        "http://u@",
        "http://host:9000x",
        "http://host:99999",
        "http://my host:9000",
    ],
)
def test_an_endpoint_that_is_no_url_is_an_error_that_names_the_option(endpoint):
    with pytest.raises(ArgumentError, match=r"'aws_endpoint_url': not a URL"):
        store_settings("s3", {"AWS_ENDPOINT_URL": endpoint}, {})
    with pytest.raises(ArgumentError, match=r"not a URL"):
        store_settings("s3", {}, {"AWS_ENDPOINT_URL": endpoint})


def test_a_variable_that_obstore_prefers_to_the_endpoint_of_the_options_is_refused():
    variables = {"AWS_ENDPOINT_URL_S3": "https://other:9000"}
    options = {"AWS_ENDPOINT_URL": "https://host:9000"}
    with pytest.raises(ArgumentError, match="^environment variable AWS_ENDPOINT_URL_S3: "):
        store_settings("s3", options, variables)
    store_settings("s3", options, {"AWS_ENDPOINT_URL_S3": "https://host:9000/"})
    store_settings("s3", {}, variables)


def test_options_that_only_sound_like_an_endpoint_are_none():
    options = {"azure_use_fabric_endpoint": "true"}
    assert store_settings("abfss", options, {}).config == options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_retries", "-1"),
        ("max_retries", "99999999999999999999"),
        ("retry_timeout", "99999999999999999m"),
        ("retry_timeout", "2000m"),
    ],
)
def test_a_number_that_no_client_takes_is_an_error_that_names_the_option(name, value):
    with pytest.raises(ArgumentError, match=f"^storage option '{name}': not a"):
        store_settings("s3", {name: value}, {})


def test_retries_end():
    assert store_settings("s3", {}, {}).retry_config == {"retry_timeout": dt.timedelta(minutes=1)}
    settings = store_settings("s3", {"retry_timeout": "5s", "max_retries": "2"}, {})
    assert settings.retry_config == {"retry_timeout": dt.timedelta(seconds=5), "max_retries": 2}


KEY = base64.b64encode(b"key").decode()
SERVICE_ACCOUNT = json.dumps(
    {"client_email": "a", "private_key": "x", "private_key_id": "1", "disable_oauth": True}
)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (
            "s3://bucket",
            {
                "AWS_ACCESS_KEY_ID": "a",
                "AWS_SECRET_ACCESS_KEY": "b",
                "AWS_SESSION_TOKEN": "c",
                "AWS_REGION": "eu-west-1",
                "AWS_ENDPOINT_URL": "http://localhost:9000",
                "AWS_ALLOW_HTTP": "true",
                "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
                "AWS_CONDITIONAL_PUT": "etag",
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
                "timeout": "60s",
            },
        ),
        ("s3a://bucket", {"access_key_id": "a", "secret_access_key": "b", "region": "r"}),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_NAME": "acc", "AZURE_STORAGE_ACCOUNT_KEY": KEY}),
        ("azure://box", {"account_name": "acc", "account_key": KEY}),
        ("az://box", {"AZURE_STORAGE_ACCOUNT_NAME": "acc", "AZURE_STORAGE_SAS_TOKEN": "sig=2"}),
        ("az://box", {"account_name": "acc", "use_azure_cli": "true"}),
        ("abfss://box@acc.dfs.core.windows.net", {"AZURE_STORAGE_ACCOUNT_KEY": KEY}),
        (
            "abfs://box@acc.dfs.core.windows.net",
            {"azure_client_id": "i", "azure_client_secret": "s", "azure_tenant_id": "t"},
        ),
        ("gs://bucket", {"google_service_account_key": SERVICE_ACCOUNT}),
        ("gcs://bucket", {"google_skip_signature": "true"}),
    ],
)
def test_the_names_known_from_deltalake_open_stores_of_every_service(path, options):
    files = ObjectStoreFiles(options)
    root = files.resolve_path(path)
    assert files._store(root) is files._store(root)
    assert files.resolve_path(f"{path}/table/") == f"{root}/table"


LEAKING = {
    "an Azure key": ("az://c/t", {"azure_storage_account_key": "SECRET!!notbase64"}),
    "a key of Google": ("gs://b/t", {"google_service_account_key": '{"private_key":"SECRETKEY"}'}),
    "broken JSON": ("gs://b/t", {"google_service_account_key": '{"SECRET": broken'}),
    "a file of Google": ("gs://b/t", {"google_service_account": "/no/such/SECRETfile"}),
    "a signature": ("az://c/t", {"azure_storage_sas_key": "sig=SECRET&se"}),
    "an endpoint": ("s3://b/t", {"AWS_ENDPOINT_URL": "http://user:SECRET@127.0.0.1:1/"}),
    "a bad proxy": ("s3://b/t", {"proxy_url": "http://u:SECRET@[bad"}),
    "a proxy": ("s3://b/t", {"proxy_url": "http://u:SECRET@127.0.0.1:2"}),
    "no URL": ("s3://b/t", {"AWS_ENDPOINT_URL": "htp://SECRET"}),
    "a line break": ("s3://b/t", {"AWS_SESSION_TOKEN": "SECRET\ntoken"}),
    "a duration": ("s3://b/t", {"timeout": "SECRET"}),
    "retries": ("s3://b/t", {"max_retries": "SECRET"}),
    "a time": ("s3://b/t", {"retry_timeout": "SECRET"}),
    "an unknown option": ("s3://b/t", {"AWS_SECRET_ACESS_KEY": "SECRET"}),
    "locking": ("s3://b/t", {"AWS_S3_LOCKING_PROVIDER": "SECRET"}),
}


@pytest.mark.parametrize("case", LEAKING)
def test_no_error_shows_the_value_of_an_option(case):
    path, special = LEAKING[case]
    usual = {
        "s3": {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1/",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
        },
        "az": {"azure_storage_account_name": "a"},
        "gs": {},
    }[path[:2]]
    quick = {"retry_timeout": "1s", "max_retries": "0"}
    with pytest.raises(BayouError) as caught:
        bayou.table(path, {**usual, **quick, **special}).to_arrow()
    error = caught.value
    shown = "".join(traceback.format_exception_only(error))
    while error is not None:
        shown += f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert "SECRET" not in shown


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x00", "\x7f"])
@pytest.mark.parametrize(
    "name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"]
)
def test_a_control_character_in_a_credential_is_an_error_that_names_the_option(name, end):
    with pytest.raises(
        ArgumentError, match=f"storage option '{name.lower()}': the value has a line break"
    ):
        store_settings("s3", {name: f"abc{end}"}, {})
    with pytest.raises(ArgumentError, match=f"environment variable {name}: the value has a line"):
        store_settings("s3", {}, {name: f"abc{end}"})
    store_settings("s3", {name: "abc"}, {name: f"abc{end}"})


def test_options_that_hold_a_document_may_have_lines():
    store_settings("gs", {"google_service_account_key": '{\n"a": 1}'}, {})
    store_settings("s3", {"proxy_ca_certificate": "-----BEGIN\nx"}, {})


@pytest.mark.parametrize("name", ["AWS_CONDITIONAL_PUT", "aws_conditional_put", "conditional_put"])
def test_conditional_puts_cannot_be_turned_off(name):
    with pytest.raises(ArgumentError, match="without conditional puts"):
        store_settings("s3", {name: "disabled"}, {})
    if name.lower().startswith("aws"):
        with pytest.raises(ArgumentError, match=f"environment variable {name}"):
            store_settings("s3", {}, {name: "disabled"})
    assert store_settings("s3", {name: "etag"}, {}).config == {name.lower(): "etag"}
