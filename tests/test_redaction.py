"""Secrets in text."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import BayouError, StorageError
from bayou.redaction import is_secret_name, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET http://u:SECRET@host:9000/b failed", "GET http://***@host:9000/b failed"),
        ("http://u:SEC/RET@host/b", "http://***@host/b"),
        ("http://u:SEC@RET@host/b", "http://***@host/b"),
        ("https://SEC@RET@host/b", "https://***@host/b"),
        ("https://SECRET@host/b", "https://***@host/b"),
        ("nonnumeric port: 'SECRET@host'. Check", "nonnumeric port: '***'. Check"),
        ("Invalid port: 'SECRET'", "Invalid port: '***'"),
        ('Invalid port: "SEC\'RET"', "Invalid port: '***'"),
        (r"Invalid port: 'SEC\'.RE\"T'. Check", "Invalid port: '***'. Check"),
        ('cast to integer value as "SEC\'RET", see', "cast to integer value as '***', see"),
        (
            "could not be cast to integer value as 'SEC'R ET'",
            "could not be cast to integer value as '***'",
        ),
        ("jdbc:kafka://u:SECRET@h", "jdbc:kafka://***@h"),
        ("s3a://AKIA:SECRET@bucket/t", "s3a://***@bucket/t"),
        ("path: AKIAIOSFODNN7EXAMPLE:SEC/SECRET+SECRETSECRET@bucket/t", "path: ***@bucket/t"),
        ("?X-Amz-Signature=SECRET&a=1", "?X-Amz-Signature=***&a=1"),
        ("sig=SECRET&se=2024", "sig=***&se=2024"),
        ("ssl.key.password=SECRET,a", "ssl.key.password=***,a"),
        ('username="u" password="SEC RET";', 'username="u" password=***;'),
        ("AWS_SECRET_ACCESS_KEY=SECRET", "AWS_SECRET_ACCESS_KEY=***"),
        ("AccountKey=SECRET==;x", "AccountKey=***;x"),
        ("Authorization: Basic SECRET", "Authorization: Basic ***"),
        ("'Authorization': 'Bearer SECRET'", "'Authorization': 'Bearer ***'"),
        ("invalid authentication Bearer ya29.a0-SEC_RET", "invalid authentication Bearer ***"),
        ("refused (Basic dXNlcjpTRUNSRVQ=)", "refused (Basic ***)"),
        ("x-amz-security-token: SECRET", "x-amz-security-token: ***"),
        ('{"password": "SEC RET", "a": 1}', '{"password": ***, "a": 1}'),
        ('{"sasl.password":"SECRET"}', '{"sasl.password":***}'),
        ("{'aws_secret_access_key': 'SECRET'}", "{'aws_secret_access_key': ***}"),
        (r"{\"token\": \"SECRET\"}", r"{\"token\": ***}"),
        ('password = "SECRET"', "password = ***"),
        ("OPTIONS ('fs.s3a.secret.key' 'SECRET')", "OPTIONS ('fs.s3a.secret.key' ***)"),
        ("OPTIONS (AWS_SECRET_ACCESS_KEY 'SEC RET')", "OPTIONS (AWS_SECRET_ACCESS_KEY ***)"),
        ("('password' \"SECRET\", 'a' 'b')", "('password' ***, 'a' 'b')"),
        ("(`sasl.password` 'SECRET", "(`sasl.password` ***"),
        ("password='it''s SECRET'", "password=***"),
        (
            "Map(a -> 1, aws_secret_access_key -> SECRET)",
            "Map(a -> 1, aws_secret_access_key -> ***)",
        ),
        ("-Dapp.credentials.value=SECRET", "-Dapp.credentials.value=***"),
        ("fs.credential.json = 'SECRET'", "fs.credential.json = ***"),
        ("{'app.credential.value': 'SECRET'}", "{'app.credential.value': ***}"),
        ("api_key=SECRET&access-key=SECRET", "api_key=***&access-key=***"),
        (
            "OPTIONS ('azure_storage_master_key' 'SECRET')",
            "OPTIONS ('azure_storage_master_key' ***)",
        ),
        (
            "OPTIONS ('aws_sse_customer_key_base64' 'SECRET')",
            "OPTIONS ('aws_sse_customer_key_base64' ***)",
        ),
        (
            "fs.azure.account.key.a.dfs.core.windows.net=SECRET",
            "fs.azure.account.key.a.dfs.core.windows.net=***",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nSECRET\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_secrets_are_removed(text, shown):
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown
    assert str(BayouError(text)) == BayouError(text).message == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://host:9000/a@b",
        "s3://bucket/user@domain/x",
        "abfss://container@account.dfs.core.windows.net/t",
        "connector.kafka.security.password: is missing. Write it.",
        "http://127.0.0.1:8710/, and bob@host",
        "a = 1 and tokens=3",
        "the key 'token': write it as 'a: b'",
        "unexpected token: 'x'",
        "unexpected token 'x' after it",
        "the columns 'token', 'password' and 'a' 'b'",
        '{"name": "password", "type": "string"}',
        "Authorization: is missing",
        "the server wants Bearer authentication, not Basic authentication",
        "a basic understanding",
        "--set connector.storage.secret-key=... --set a=b",
        "s3://b/t/customer_key=42/part-1.parquet: can't read",
        "-Dfs.s3a.aws.credentials.provider=org.example.PlainCredentialsProvider",
        "hadoop.security.credential.provider.path = 'jceks://file/a'",
        "credentials of main.orders: the catalog vends none",
    ],
)
def test_other_text_stays(text):
    assert without_secrets(text) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Z", "C"])))
def test_no_password_of_a_url_is_shown(password):
    secret = f"a{password}zzz"
    assert secret not in without_secrets(f"can't reach http://bob:{secret}@host:1/path")


def test_known_values_are_removed():
    assert without_secrets("parsing 'hunter2' as b", ["hunter2", "b"]) == "parsing '***' as b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the latest of test_1", "the latest of ***_1"),
        ("contest, testé and 1test", "contest, testé and 1test"),
        ("x=%3Dtest\\ntest", "x=%3D***\\n***"),
        ("xverylongsecretx", "x***x"),
    ],
)
def test_short_values_are_removed_as_whole_words_only(text, shown):
    assert without_secrets(text, ["test", "verylongsecret"]) == shown


def test_an_error_that_was_pickled_shows_no_secret():
    error = pickle.loads(pickle.dumps(StorageError("http://u:SECRET@h/", path="p")))
    assert str(error) == "http://***@h/"


@pytest.mark.parametrize(
    "text",
    [
        "GET https://host/c/x%3Fsv%3D2022%26sig%3Dhunter2%253D%26se%3D1/_delta_log",
        "GET http://127.0.0.1:1/b/x%3fsig%3dhunter2%2Fz/_delta_log",
        "c/x%3Fsig=hunter2",
        "c/x%3Fsv=1%26sig=hunter2",
        "c/x%253Fsv%253D1%2526sig%253Dhunter2%2526se%253D1",
        "/b%2Fx%3Ftoken%3Dhunter2",
        "x%3FX-Amz-Credential%3DAK%26X-Amz-Signature%3Dhunter2/_d",
        "AccountKey%3Dhunter2%2Fhunter2%3D%3D%3BEndpoint%3Dx",
        "http%3A%2F%2Fuser%3Ahunter2%40host%3A90",
    ],
)
def test_a_secret_in_a_percent_encoded_url_is_masked(text):
    shown = without_secrets(text)
    assert "hunter2" not in shown
    assert "***" in shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "text", ["100% of a%20b", "/lake/day=2024-01-05/x%3Dy.parquet", "c/x%3Fsv%3D2022/_delta_log"]
)
def test_percent_encoding_without_a_secret_is_shown(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.app.credential", True),
        ("app.credentials.json", True),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
        ("hadoop.security.credential.provider.path", False),
        ("fs.s3a.credentialsProvider", False),
        ("credentials.provider.password", True),
    ],
)
def test_the_name_of_a_credential_provider_is_not_secret(name, is_secret):
    assert is_secret_name(name) is is_secret
