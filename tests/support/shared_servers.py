"""The servers of a whole test run (Kafka, S3, Azure), shared by pytest's worker processes.

The process that started the run owns the servers. It starts a server when the first test requests
it, and sends its address and credentials to the workers over a socket. Tests use separate topics
and buckets. A test that stops, pauses or kills a server starts its own server.
"""

from __future__ import annotations

import fcntl
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import pytest

from servers import AzureServer, KafkaSecurity, KafkaServer, S3Server, SparkCluster
from servers.server import Server

_FIXTURE_MARKERS = {
    "spark": "spark",
    "spark_cluster": "spark",
    "kafka_server": "server",
    "s3_server": "server",
    "azure_server": "server",
}
"""A test that uses one of these fixtures has the marker."""

_SERVERS = pytest.StashKey["SharedServers | WorkerServers"]()
_ADDRESS = "bayou_shared_servers"


class SharedServers:
    """The servers of a test run, owned by the process that started the run."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._servers: dict[str, Server] = {}
        self._lock = threading.Lock()
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._key = secrets.token_bytes(16)

    def get(self, name: str) -> Server:
        """Return the running server with this name; start it on the first call."""
        with self._lock:
            if name not in self._servers:
                server = _START[name](self._make_folder() / name)
                server.start()
                self._servers[name] = server
            return self._servers[name]

    def address(self) -> tuple[str, str]:
        """Return the path of the socket for worker processes, and its authentication key in hex.

        Starts the thread that answers them, if it isn't running.
        """
        if self._listener is None:
            self._listener = Listener(str(self._make_folder() / "socket"), authkey=self._key)
            # The servers end with the thread that started them (PR_SET_PDEATHSIG): this one stays.
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        return str(self._listener.address), self._key.hex()

    def stop(self) -> None:
        """Kill all servers and delete their files."""
        for server in self._servers.values():
            server.kill()
        if self._listener is not None:
            self._listener.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="bayou-tests-"))
        return self._folder

    def _serve(self) -> None:
        assert self._listener is not None
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # closed
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: Connection[Any, Any]) -> None:
        name = connection.recv()
        try:
            connection.send(self.get(name))
        except Exception as error:
            connection.send(RuntimeError(f"{name} doesn't start: {error}"))


class WorkerServers:
    """The test run's servers, as seen by a worker process, which requests their addresses.

    Args:
        address: the result of `SharedServers.address`.
    """

    def __init__(self, address: tuple[str, str]) -> None:
        self._path, key = address
        self._key = bytes.fromhex(key)

    def get(self, name: str) -> Server:
        """Return the running server with this name, without control over its process."""
        with Client(self._path, authkey=self._key) as connection:
            connection.send(name)
            answer = connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _start_kafka(folder: Path) -> KafkaServer:
    security = KafkaSecurity.of(folder / "keys", "bayou", "hunter-broker")
    return KafkaServer(folder / "broker", security=security)


_START: dict[str, Callable[[Path], Server]] = {
    "kafka": _start_kafka,
    "s3": S3Server,
    "azure": AzureServer,
}


def pytest_configure(config: pytest.Config) -> None:
    """Create `SharedServers` or, in a worker process, `WorkerServers`; start no server."""
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if workerinput is None:
        config.stash[_SERVERS] = SharedServers()
    else:
        config.stash[_SERVERS] = WorkerServers(workerinput[_ADDRESS])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the socket's address to a worker process."""
    node.workerinput[_ADDRESS] = node.config.stash[_SERVERS].address()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers at the end of the run."""
    servers = config.stash.get(_SERVERS, None)
    if isinstance(servers, SharedServers):
        servers.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add a marker for each server that a test's fixtures start, before `-m` selects tests."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in _FIXTURE_MARKERS:
                item.add_marker(_FIXTURE_MARKERS[fixture])


@pytest.fixture(scope="session")
def kafka_server(pytestconfig: pytest.Config) -> KafkaServer:
    """The run's broker: plaintext, SASL and TLS listeners. Each test must use its own topic."""
    return pytestconfig.stash[_SERVERS].get("kafka")


@pytest.fixture(scope="session")
def s3_server(pytestconfig: pytest.Config) -> S3Server:
    """The run's S3 server. Use the fixture `bucket`, which creates a bucket for the test."""
    return pytestconfig.stash[_SERVERS].get("s3")


@pytest.fixture(scope="session")
def azure_server(pytestconfig: pytest.Config) -> AzureServer:
    """The run's Azure server. Use the fixture `container`, which creates one for the test."""
    return pytestconfig.stash[_SERVERS].get("azure")


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A standalone Spark cluster with two workers; each process of pytest-xdist has its own."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def connect_port() -> Iterator[None]:
    """Hold a lock of this machine for the fixed port of local Spark Connect servers."""
    with (Path(tempfile.gettempdir()) / "bayou-spark-connect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
