"""A Hive metastore from the JARs that PySpark ships, with its database in memory."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from xml.sax.saxutils import escape

from servers.process import ServerError, ServerProcess
from servers.server import Server

__all__ = ["HiveMetastore"]

_TIMEOUT = 120.0
_PACKAGES = (
    *("java.lang", "java.util", "java.util.concurrent", "java.net", "java.nio"),
    "sun.nio.ch",
)


class HiveMetastore(Server):
    """A Hive metastore. A restart loses the tables.

    Args:
        folder: folder for settings, logs and the warehouse.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.log = folder / "metastore.log"

    @property
    def uri(self) -> str:
        """The address, for `hive.metastore.uris`."""
        return f"thrift://127.0.0.1:{self.port}"

    def _check_fetched(self) -> None:
        if not _jars().is_dir():
            raise ServerError(f"{_jars()} isn't there; install PySpark")

    def _launch(self, port: int) -> ServerProcess:
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:metastore{port};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.async.log.enabled": "false",
            "hive.metastore.warehouse.dir": str(self._folder / "warehouse"),
        }
        properties = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in settings.items()
        )
        (self._folder / "hive-site.xml").write_text(
            f"<configuration>{properties}</configuration>", encoding="utf-8"
        )
        home = os.environ.get("JAVA_HOME")
        process = ServerProcess(
            [
                f"{home}/bin/java" if home else "java",
                *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES),
                *("-cp", f"{self._folder}:{_jars()}/*"),
                *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
            ],
            log=self.log,
            environment=os.environ,
        )
        process.wait_until(lambda: _listens(port), timeout=_TIMEOUT)
        return process


def _jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return Path("pyspark", "jars")
    return Path(spec.origin).parent / "jars"


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True
