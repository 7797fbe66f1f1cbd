"""Authentication and TLS of the schema registry's client."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bayou.errors import KafkaError
from bayou.ingest.decode.formats import Registry, RegistryAddress, schema_registry
from bayou.ingest.decode.formats.schema_registry_http import NoResponseError, RegistryConnection
from support.registry_double import RegistryDouble

SCHEMA = {"schema": '"string"', "references": []}
BASIC = "Basic " + base64.b64encode(b"reg:hunter2").decode()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(schema_registry, "_FIRST_PAUSE", 0.0)


def asked(double, **credentials):
    number = double.register("t-value", '"string"')
    registry = Registry(address=RegistryAddress(url=double.url, **credentials))
    return pickle.loads(pickle.dumps(registry)).schema(number)


def test_a_user_and_a_password_are_sent():
    with RegistryDouble(login=BASIC) as double:
        assert asked(double, user="reg", password="hunter2") == SCHEMA


def test_a_wrong_password_is_one_error_without_it():
    with (
        RegistryDouble(login=BASIC) as double,
        pytest.raises(KafkaError, match=r"401 Unauthorized\. Check the credentials") as error,
    ):
        asked(double, user="reg", password="wrong-one")
    assert "wrong-one" not in str(error.value)
    assert len(double.seen) == 1


def test_short_secrets_are_masked_as_whole_words():
    address = RegistryAddress(url="https://host", password="test", token="", client_secret="a")
    assert address.scrub("the latest test: a value") == "the latest ***: *** value"


def test_an_unexpected_error_of_the_client_is_no_error_of_the_record():
    connection = RegistryConnection(RegistryAddress(url="http://localhost", password="hunter2"))

    def fail(_):
        raise RuntimeError("can't start a thread for hunter2")

    with pytest.raises(NoResponseError, match=r"can't start a thread for \*\*\*"):
        connection._request(fail)


def test_a_bearer_token_is_sent_with_the_identifiers_of_confluent_cloud():
    with RegistryDouble(login="Bearer t0ken") as double:
        assert (
            asked(double, token="t0ken", logical_cluster="lsrc-1", identity_pool="pool-1") == SCHEMA
        )
    headers = {name.lower(): value for name, value in double.seen[0][1].items()}
    assert headers["target-sr-cluster"] == "lsrc-1"
    assert headers["confluent-identity-pool-id"] == "pool-1"


def test_a_bearer_token_follows_no_redirect_to_another_port():
    with RegistryDouble() as other:
        number = other.register("t-value", '"string"')

        class Redirecting(BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append(self.headers["Authorization"])
                self.send_response(302)
                self.send_header("Location", f"{other.url}{self.path}")
                self.end_headers()

            def log_message(self, *_):
                pass

        seen = []
        server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = RegistryAddress(url=f"http://127.0.0.1:{server.server_port}", token="t0ken")
        assert Registry(address=address).schema(number) == SCHEMA
        server.shutdown()
        server.server_close()
    assert seen == ["Bearer t0ken"]
    assert [headers.get("Authorization") for _, headers in other.seen] == [None]


@pytest.fixture
def token_endpoint():
    """A token endpoint for the client `bayou` with the secret `s3cr3t`; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            known = base64.b64encode(b"bayou:s3cr3t").decode() in self.headers["Authorization"]
            token = {"access_token": "t0ken", "token_type": "bearer", "expires_in": 3600}
            data = json.dumps(token if known else {"error": "invalid_client"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()


def test_tokens_of_an_oidc_endpoint_are_sent(token_endpoint):
    with RegistryDouble(login="Bearer t0ken") as double:
        oauth = {"token_endpoint": token_endpoint, "client_id": "bayou", "scope": "registry"}
        assert asked(double, **oauth, client_secret="s3cr3t") == SCHEMA
        other = RegistryAddress(url=double.url, **oauth, client_secret="hunter-wrong")
        with pytest.raises(KafkaError, match=f"no token from {token_endpoint}") as error:
            Registry(address=other).schema(99)
        assert "hunter-wrong" not in str(error.value)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Create self-signed certificates of a server and a client, with keys without passwords."""
    folder = tmp_path_factory.mktemp("certificates")

    def create(name):
        files = folder / f"{name}.pem", folder / f"{name}.key"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-nodes"]
        command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(files[1]), "-out", str(files[0])]
        subprocess.run(command, check=True, capture_output=True)
        return files

    return create("server"), create("client")


@pytest.mark.process
def test_a_registry_with_an_own_ca_and_client_certificates(certificates):
    server, client = certificates
    with RegistryDouble(certificate=server, client_ca=client[0]) as double:
        files = {
            "ca_location": str(server[0]),
            "certificate_location": str(client[0]),
            "key_location": str(client[1]),
        }
        assert asked(double, **files) == SCHEMA
        for missing in ("ca_location", "certificate_location"):
            address = RegistryAddress(url=double.url, **{**files, missing: None})
            if missing == "certificate_location":
                address = replace(address, key_location=None)
            with pytest.raises(KafkaError, match=r"doesn't answer with a schema"):
                Registry(address=address).schema(1)


def test_another_node_of_the_registry_is_asked_if_the_first_is_away():
    with RegistryDouble() as double:
        number = double.register("t-value", '"string"')
        address = RegistryAddress(url=f"http://127.0.0.1:9,{double.url}")
        assert Registry(address=address).schema(number) == SCHEMA


def test_the_subject_is_sent_where_it_is_configured():
    with RegistryDouble() as double:
        number = double.register("t-value", '"string"')
        address = RegistryAddress(url=double.url)
        Registry(address=address, subject="t-value").schema(number)
        Registry(address=address).schema(number)
    assert double.queries(f"/schemas/ids/{number}") == [{"subject": ["t-value"]}, {}]


def test_secrets_are_in_no_repr():
    address = RegistryAddress(
        url="http://h", password="hunter2", token="hunter2", client_secret="hunter2"
    )
    assert "hunter2" not in repr(Registry(address=address))
