"""Role-based credentials: tokens of a token service, and encryption with a KMS key."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

import bayou
from bayou.errors import StorageError
from servers import AzureServer
from support.google_storage import google_storage
from support.scripted_s3 import scripted_s3

AUDIENCE = "storage.azure.com"
ISSUER = "sts.windows.net"
TENANT = "11111111-2222-3333-4444-555555555555"
STS = """<{action}Response xmlns="https://sts.example.com/doc/"><{action}Result><Credentials>
<SessionToken>{token}</SessionToken><SecretAccessKey>temporary-secret</SecretAccessKey>
<Expiration>2099-01-01T00:00:00Z</Expiration><AccessKeyId>ASIATEMPORARY</AccessKeyId>
</Credentials></{action}Result></{action}Response>"""


@dataclass(slots=True)
class TokenService:
    """A double of the token services of AWS and Azure.

    Attributes:
        requests: the parameters of each request, with its path as `path`.
    """

    port: int = 0
    requests: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """The files of a certificate for loopback and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture
def tokens(certificate) -> Iterator[TokenService]:
    service = TokenService()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            url = urlsplit(self.path)
            query = parse_qs(f"{url.query}&{body}")
            signed = {"authorization": self.headers.get("Authorization") or ""}
            parameters = {k: v[0] for k, v in query.items()}
            service.requests.append({"path": url.path} | signed | parameters)
            if "Action" in query:
                answer = STS.format(token="session-token", action=query["Action"][0])
            else:
                expiration = {"expires_in": 3600, "expires_on": str(int(time.time()) + 3600)}
                answer = json.dumps({"access_token": _azure_token(), **expiration})
            refused = "RoleArn" in query and query["RoleArn"][0].endswith("forbidden")
            if refused:
                answer = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message>"
                answer += "</Error></ErrorResponse>"
            self.send_response(403 if refused else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    service.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield service
    server.shutdown()
    server.server_close()
    thread.join()


def _azure_token() -> str:
    now = int(time.time())
    claims = {
        "aud": f"https://{AUDIENCE}",
        "iss": f"https://{ISSUER}/{TENANT}/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + 3600,
    }
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, "signature"])


@pytest.fixture(scope="module")
def secured_azure(tmp_path_factory, certificate) -> Iterator[AzureServer]:
    """An Azure server that accepts OAuth tokens, which needs HTTPS."""
    with AzureServer(tmp_path_factory.mktemp("azure"), certificate) as server:
        server.create_container("lake")
        yield server


def test_a_service_principal_of_azure_reads_and_writes(secured_azure, tokens):
    options = {
        "AZURE_STORAGE_ACCOUNT_NAME": secured_azure.ACCOUNT,
        "AZURE_ENDPOINT": secured_azure.endpoint,
        "AZURE_TENANT_ID": TENANT,
        "AZURE_CLIENT_ID": "the-client",
        "AZURE_CLIENT_SECRET": "the-secret",
        "AZURE_AUTHORITY_HOST": tokens.url,
        "allow_invalid_certificates": "true",
    }
    bayou.write("az://lake/principal", pa.table({"id": [1]}), storage_options=options)
    assert bayou.table("az://lake/principal", options).to_arrow()["id"].to_pylist() == [1]
    asked = tokens.requests[0]
    assert asked["path"] == f"/{TENANT}/oauth2/v2.0/token"
    assert (asked["client_id"], asked["client_secret"]) == ("the-client", "the-secret")


def test_a_workload_identity_of_azure_reads_and_writes(secured_azure, tokens, tmp_path):
    (tmp_path / "token").write_text("token-of-kubernetes")
    options = {
        "AZURE_STORAGE_ACCOUNT_NAME": secured_azure.ACCOUNT,
        "AZURE_ENDPOINT": secured_azure.endpoint,
        "AZURE_TENANT_ID": TENANT,
        "AZURE_CLIENT_ID": "the-client",
        "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token"),
        "AZURE_AUTHORITY_HOST": tokens.url,
        "allow_invalid_certificates": "true",
    }
    bayou.write("az://lake/workload", pa.table({"id": [1]}), storage_options=options)
    assert bayou.table("az://lake/workload", options).to_arrow()["id"].to_pylist() == [1]
    assert tokens.requests[0]["client_assertion"] == "token-of-kubernetes"


def test_the_managed_identity_of_a_machine_reads_and_writes(secured_azure, tokens):
    options = {
        "AZURE_STORAGE_ACCOUNT_NAME": secured_azure.ACCOUNT,
        "AZURE_ENDPOINT": secured_azure.endpoint,
        "AZURE_MSI_ENDPOINT": f"{tokens.url}/msi/token",
        "AZURE_CLIENT_ID": "the-identity",
        "allow_invalid_certificates": "true",
    }
    bayou.write("az://lake/managed", pa.table({"id": [1]}), storage_options=options)
    assert bayou.table("az://lake/managed", options).to_arrow()["id"].to_pylist() == [1]
    assert tokens.requests[0]["path"] == "/msi/token"
    assert "the-identity" in tokens.requests[0].values()


@pytest.mark.parametrize("option", ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"])
def test_a_service_account_of_google_signs_its_requests(certificate, tmp_path, option):
    account = {
        "type": "service_account",
        "client_email": "writer@project.example.com",
        "private_key_id": "the-key",
        "private_key": certificate[1].read_text(),
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    value = json.dumps(account) if option.endswith("KEY") else str(tmp_path / "key.json")
    with google_storage() as store:
        store.token = None
        store.buckets.add("bucket")
        options = {option: value, "GOOGLE_BASE_URL": store.endpoint}
        bayou.write("gs://bucket/t", pa.table({"id": [1]}), storage_options=options)
        assert bayou.table("gs://bucket/t", options).to_arrow()["id"].to_pylist() == [1]
    for token in store.tokens:
        header, claims, _ = token.split(".")
        assert _decoded(header)["kid"] == "the-key"
        assert _decoded(claims)["iss"] == "writer@project.example.com"


def _decoded(part: str) -> dict[str, str]:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_a_role_of_s3_signs_with_the_keys_of_the_token_service(tokens, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "token").write_text("token-of-kubernetes")
    with scripted_s3() as s3:
        options = {
            "AWS_ENDPOINT_URL": s3.options["AWS_ENDPOINT_URL"],
            "AWS_REGION": "us-east-1",
            "AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/writer",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
            "AWS_ROLE_SESSION_NAME": "bayou",
            "AWS_ENDPOINT_URL_STS": tokens.url,
            "allow_invalid_certificates": "true",
        }
        bayou.write("s3://bucket/t", pa.table({"id": [1]}), storage_options=options)
        assert bayou.table("s3://bucket/t", options).to_arrow()["id"].to_pylist() == [1]
    asked = tokens.requests[0]
    assert asked["RoleArn"] == "arn:aws:iam::111122223333:role/writer"
    assert asked["WebIdentityToken"] == "token-of-kubernetes"
    for headers in s3.headers.values():
        assert "Credential=ASIATEMPORARY/" in headers["authorization"]
        assert headers["x-amz-security-token"] == "session-token"


def test_an_access_key_assumes_a_role_of_s3(tokens):
    with scripted_s3() as s3:
        options = {
            **s3.options,
            "AWS_IAM_ROLE_ARN": "arn:aws:iam::111122223333:role/writer",
            "AWS_ENDPOINT_URL_STS": tokens.url,
            "allow_invalid_certificates": "true",
        }
        bayou.write("s3://bucket/t", pa.table({"id": [1]}), storage_options=options)
        assert bayou.table("s3://bucket/t", options).to_arrow()["id"].to_pylist() == [1]
    (asked, *more) = tokens.requests
    assert asked["RoleArn"] == "arn:aws:iam::111122223333:role/writer"
    assert "Credential=test/" in asked["authorization"]
    assert len(more) <= 2  # one request for each engine, not for each object
    for headers in s3.headers.values():
        assert "Credential=ASIATEMPORARY/" in headers["authorization"]


def test_a_role_that_cannot_be_assumed_is_one_sentence(tokens):
    with scripted_s3() as s3:
        options = {
            **s3.options,
            "AWS_IAM_ROLE_ARN": "arn:aws:iam::111122223333:role/forbidden",
            "AWS_ENDPOINT_URL_STS": tokens.url,
            "allow_invalid_certificates": "true",
        }
        with pytest.raises(StorageError) as raised:
            bayou.write("s3://bucket/t", pa.table({"id": [1]}), storage_options=options)
    assert "can't be assumed: AccessDenied: not you" in raised.value.message
    assert "\n" not in raised.value.message


def test_objects_on_s3_are_encrypted_with_the_configured_key(tmp_path):
    with scripted_s3() as s3:
        options = {
            **s3.options,
            "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
            "AWS_SSE_KMS_KEY_ID": "the-key",
            "AWS_SSE_BUCKET_KEY_ENABLED": "true",
        }
        bayou.write("s3://bucket/t", pa.table({"id": [1]}), storage_options=options)
        bayou.write("s3://bucket/t", pa.table({"id": [2]}), mode="append", storage_options=options)
        assert len(s3.headers) >= 4
        for headers in s3.headers.values():
            assert headers["x-amz-server-side-encryption"] == "aws:kms"
            assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "the-key"
            assert headers["x-amz-server-side-encryption-bucket-key-enabled"] == "true"
        assert sorted(bayou.table("s3://bucket/t", options).to_arrow()["id"].to_pylist()) == [1, 2]
