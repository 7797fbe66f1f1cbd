"""Secrets in text."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import BayouError, StorageError
from bayou.redaction import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET http://u:SECRET@host:9000/b failed", "GET http://***@host:9000/b failed"),
        ("http://u:SEC/RET@host/b", "http://***@host/b"),
        ("http://u:SEC@RET@host/b", "http://***@host/b"),
        ("https://SEC@RET@host/b", "https://***@host/b"),
        ("https://SECRET@host/b", "https://***@host/b"),
        ("jdbc:kafka://u:SECRET@h", "jdbc:kafka://***@h"),
        ("s3a://AKIA:SECRET@bucket/t", "s3a://***@bucket/t"),
        ("?X-Amz-Signature=SECRET&a=1", "?X-Amz-Signature=***&a=1"),
        ("sig=SECRET&se=2024", "sig=***&se=2024"),
        ("ssl.key.password=SECRET,a", "ssl.key.password=***,a"),
        ('username="u" password="SEC RET";', 'username="u" password=***;'),
        ("AWS_SECRET_ACCESS_KEY=SECRET", "AWS_SECRET_ACCESS_KEY=***"),
        ("AccountKey=SECRET==;x", "AccountKey=***;x"),
        ("Authorization: Basic SECRET", "Authorization: Basic ***"),
        ("'Authorization': 'Bearer SECRET'", "'Authorization': 'Bearer ***'"),
        ("x-amz-security-token: SECRET", "x-amz-security-token: ***"),
        ('{"password": "SEC RET", "a": 1}', '{"password": ***, "a": 1}'),
        ('{"sasl.password":"SECRET"}', '{"sasl.password":***}'),
        ("{'aws_secret_access_key': 'SECRET'}", "{'aws_secret_access_key': ***}"),
        (r"{\"token\": \"SECRET\"}", r"{\"token\": ***}"),
        ('password = "SECRET"', "password = ***"),
        ("password='it''s SECRET'", "password=***"),
        (
            "Map(a -> 1, aws_secret_access_key -> SECRET)",
            "Map(a -> 1, aws_secret_access_key -> ***)",
        ),
        ("api_key=SECRET&access-key=SECRET", "api_key=***&access-key=***"),
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
        '{"name": "password", "type": "string"}',
        "Authorization: is missing",
        "--set connector.storage.secret-key=... --set a=b",
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


def test_an_error_that_was_pickled_shows_no_secret():
    error = pickle.loads(pickle.dumps(StorageError("http://u:SECRET@h/", path="p")))
    assert str(error) == "http://***@h/"
