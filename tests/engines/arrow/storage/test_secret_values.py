"""Stores that quote the secrets of a request in their responses, without naming them."""

from __future__ import annotations

import http.server
import json
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

import bayou
from bayou.engines.arrow.storage.assumed_role import AssumedRole
from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles
from bayou.engines.arrow.storage.secret_values import StoreSecrets, endpoint_hosts, secret_values
from bayou.errors import StorageError

TOKEN = "FwoGZXIvYXdz/EJr+Zq=1"
RETRIES = {"max_retries": "0", "retry_timeout": "1s"}


class Quoting(http.server.BaseHTTPRequestHandler):
    """Answers each request with its secrets in the body."""

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        query = parse_qs(urlsplit(self.path).query) | parse_qs(body)
        secrets = [
            self.headers.get("x-amz-security-token", ""),
            (self.headers.get("Authorization") or "").partition(" ")[2],
            *query.get("sig", []),
            *query.get("client_secret", []),
        ]
        text = f"<Error><Code>Odd</Code><Message>{' '.join(secrets)}</Message></Error>"
        if self.server.as_json:
            text = json.dumps({"error": secrets})
        data = text.encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  # names in http.server

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(params=["xml", "json"])
def server(request):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quoting)
    server.status, server.as_json = 400, request.param == "json"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def options_of(server, scheme):
    url = f"http://127.0.0.1:{server.server_port}"
    account = {"azure_storage_account_name": "a", "azure_endpoint": url, "allow_http": "true"}
    return {
        "s3": {
            "aws_access_key_id": "AK",
            "aws_secret_access_key": "secret",
            "aws_session_token": TOKEN,
            "aws_region": "r",
            "aws_endpoint_url": url,
        },
        "token": {**account, "azure_storage_token": TOKEN},
        "signature": {**account, "azure_storage_sas_token": "sv=1&sig=FwoGZXIvYXdz%2FEJr%2BZq%3D1"},
        "client": {
            **account,
            "azure_client_id": "c",
            "azure_tenant_id": "t",
            "azure_client_secret": TOKEN,
            "azure_authority_host": url,
        },
        "google": {"google_bearer_token": TOKEN, "google_base_url": url, "allow_http": "true"},
    }[scheme] | RETRIES


@pytest.mark.parametrize(
    ("scheme", "path"),
    [
        ("s3", "s3://b/t"),
        ("token", "az://c/t"),
        ("signature", "az://c/t"),
        ("client", "az://c/t"),
        ("google", "gs://b/t"),
    ],
)
def test_no_message_has_a_secret_that_the_store_quotes(server, scheme, path):
    options = options_of(server, scheme)
    files = ObjectStoreFiles(options)

    def upload():
        with files.open_output(f"{path}/x") as output:
            output.write(b"x")

    for operation in (
        lambda: bayou.exists(path, options),
        lambda: files.put(f"{path}/x", b"x"),
        lambda: files.put_if_absent(f"{path}/_delta_log/0.json", b"x"),
        lambda: files.delete_files([f"{path}/x"]),
        lambda: files.open_input(f"{path}/x", 9).read(5),
        lambda: files.status(f"{path}/x"),
        upload,
    ):
        with pytest.raises(StorageError) as caught:
            operation()
        assert TOKEN not in str(caught.value)
        assert TOKEN.split("/")[1] not in str(caught.value)


def test_credentials_of_a_provider_are_secret_too(server):
    options = options_of(server, "s3")
    provided = {
        "access_key_id": "AK",
        "secret_access_key": "secret",
        "token": TOKEN,
        "expires_at": None,
    }
    del options["aws_session_token"]
    files = ObjectStoreFiles(options, credentials=lambda: provided)
    with pytest.raises(StorageError) as caught:
        files.put("s3://b/x", b"x")
    assert TOKEN not in str(caught.value)


def test_a_token_service_that_quotes_the_session_token(server):
    server.status = 403
    role = AssumedRole(
        arn="arn:aws:iam::1:role/r",
        session_name="bayou",
        region="r",
        endpoint=f"http://127.0.0.1:{server.server_port}",
        access_key="AK",
        secret_key="secret",
        token=TOKEN,
    )
    with pytest.raises(StorageError) as caught:
        role()
    assert TOKEN not in str(caught.value)


def test_secrets_are_the_values_of_secret_options_and_the_passwords_in_urls():
    options = {
        "AWS_REGION": "eu-west-1",
        "AWS_SECRET_ACCESS_KEY": "a/b",
        "AZURE_FEDERATED_TOKEN_FILE": "/run/token",
        "AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=x%2By",
        "proxy_url": "http://bob:p%40w@proxy:3128",
        "AWS_ENDPOINT_URL": "https://host:9000",
    }
    assert set(secret_values(options)) == {
        *("a/b", "a%2Fb", "x%2By", "x%252By", "x+y", "p%40w", "p%2540w", "p@w"),
        *("?sv=1&sig=x%2By", "%3Fsv%3D1%26sig%3Dx%252By"),
    }


@pytest.mark.parametrize(
    "options",
    [
        {"AWS_ACCESS_KEY_ID": "minio", "access_key_id": "minio"},
        {"AWS_SECRET_NAME": "orders", "AZURE_TOKEN_PAGE": "https://host/orders"},
        {"aws_endpoint_url": "http://host:9000/a@b", "azure_endpoint": "abfss://host:80"},
    ],
)
def test_ids_of_keys_and_variables_that_no_store_reads_are_not_secret(options):
    assert set(secret_values(options)) == set()


@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ({"proxy_url": "http://TOKEN@proxy"}, "TOKEN"),
        ({"proxy_url": "http://TOKEN:@proxy"}, "TOKEN"),
        ({"proxy_url": "http://bob:12345@proxy"}, "12345"),
        ({"proxy_url": "http://bob:p12/45@proxy:1"}, "p12/45"),
        ({"azure_client_secret": "x://a@b"}, "x://a@b"),
        ({"AZURE_STORAGE_TOKEN": "abcd"}, "abcd"),
        ({"account_key": "abcd"}, "abcd"),
    ],
)
def test_tokens_in_urls_and_secrets_like_urls_are_yielded_whole(options, secret):
    assert secret in set(secret_values(options))


def test_the_host_of_the_endpoint_is_not_a_secret():
    options = {
        "aws_endpoint_url": "http://bob:hunter2@s3.test:9000",
        "aws_secret_access_key": "test",
    }
    assert endpoint_hosts(options) >= {"s3.test", "test"}
    assert set(secret_values(options, endpoint_hosts(options))) == {"hunter2"}


def test_messages_keep_the_endpoint_if_the_credentials_are_its_name(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "localhost")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "localhost")
    monkeypatch.setenv("AWS_SECRET_NAME", "error")
    options = {"aws_region": "r", "aws_endpoint_url": "http://localhost:1"} | RETRIES
    with pytest.raises(StorageError) as caught:
        ObjectStoreFiles(options).put("s3://b/x", b"x")
    assert "http://localhost:1/b/x" in str(caught.value)
    assert "***" not in str(caught.value)


def test_a_role_s_error_shows_the_endpoint_if_the_secret_is_its_name(monkeypatch):
    response = b"<E><Code>Denied</Code><Message>minio: hunter2 is unknown</Message></E>"
    monkeypatch.setattr(AssumedRole, "_request", lambda _: (403, response))
    role = AssumedRole(
        arn="arn:aws:iam::1:role/r",
        session_name="bayou",
        region="r",
        endpoint="http://minio:9000",
        access_key="minio",
        secret_key="minio",
        token="hunter2",
    )
    with pytest.raises(StorageError, match=r"Denied: minio: \*\*\* is unknown"):
        role()


def test_the_secrets_of_options_and_the_latest_secrets_of_each_provider_are_retained():
    secrets = StoreSecrets()
    secrets.add_options({"aws_secret_access_key": "of-options"}, ())
    numbers = iter(range(2000))
    often = secrets.record(lambda: {"token": f"often-{next(numbers)}"}, ())
    seldom = secrets.record(lambda: {"token": "seldom"}, ())
    seldom()
    for _ in range(1000):
        often()
    known = set(secrets)
    assert {"of-options", "seldom", "often-999", "often-900"} <= known
    assert "often-0" not in known
    assert len(known) < 500
    assert secrets.record(None, ()) is None


def test_a_secret_that_a_provider_returns_again_is_recent():
    secrets = StoreSecrets()
    tokens = iter([token for n in range(1000) for token in ("same", f"other-{n}")])
    provide = secrets.record(lambda: {"token": next(tokens)}, ())
    for _ in range(2000):
        provide()
    assert "same" in set(secrets)
