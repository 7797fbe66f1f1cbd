"""A standalone Spark cluster on loopback: a master and workers of pip's PySpark."""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

import pyspark

from servers.process import ServerError, ServerProcess, free_port
from servers.server import Server

__all__ = ["SparkCluster"]

_TIMEOUT = 90.0
_HOST = "127.0.0.1"


class SparkCluster(Server):
    """A master and workers in separate processes, so executors share no memory with the driver.

    Executors use this Python interpreter and this `sys.path`.

    Args:
        folder: folder for logs and the workers' files.
        workers: number of workers. Each has one core and one executor per application.
        memory: memory of each worker in Spark's notation, such as `1g`.
    """

    def __init__(self, folder: Path, *, workers: int = 2, memory: str = "1g") -> None:
        super().__init__()
        self._folder = folder
        self._count = workers
        self._memory = memory
        self.workers: list[ServerProcess] = []

    @property
    def url(self) -> str:
        """The master's URL."""
        return f"spark://{_HOST}:{self.port}"

    @property
    def conf(self) -> dict[str, str]:
        """Settings that a session needs besides the URL."""
        return {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", ""),
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        }

    @property
    def applications(self) -> set[str]:
        """Ids of applications that had an executor in this cluster."""
        return {folder.name for folder in self._folder.glob("work-*/app-*")}

    def stop(self) -> None:
        """Stop the workers, then the master."""
        for worker in self.workers:
            worker.stop()
        super().stop()

    def kill(self) -> None:
        """Kill all processes, like a crash."""
        for worker in self.workers:
            worker.kill()
        super().kill()

    def _check_fetched(self) -> None:
        if not _program().is_file():
            raise ServerError(f"{_program()} isn't there; install pyspark")

    def _launch(self, port: int) -> ServerProcess:
        self._folder.mkdir(parents=True, exist_ok=True)
        page = free_port()
        master = self._started(
            "master", "Master", "--host", _HOST, "--port", str(port), "--webui-port", str(page)
        )
        master.wait_until(lambda: _alive(page) is not None, timeout=_TIMEOUT)
        for number in range(self._count):
            worker = self._started(
                f"worker-{number}",
                "Worker",
                *("--host", _HOST, "--port", "0", "--webui-port", "0"),
                *("--cores", "1", "--memory", self._memory),
                *("--work-dir", str(self._folder / f"work-{number}")),
                f"spark://{_HOST}:{port}",
            )
            self.workers.append(worker)
        master.wait_until(lambda: _alive(page) == self._count, timeout=_TIMEOUT)
        return master

    def _started(self, log: str, role: str, *arguments: str) -> ServerProcess:
        return ServerProcess(
            [str(_program()), f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments],
            log=self._folder / f"{log}.log",
            environment={
                **os.environ,
                "SPARK_LOCAL_IP": _HOST,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_NO_DAEMONIZE": "1",
                "PYSPARK_PYTHON": sys.executable,
            },
        )


def _program() -> Path:
    return Path(pyspark.__file__).parent / "bin" / "spark-class"


def _alive(page: int) -> int | None:
    """Number of live workers on the master's page; None if it doesn't respond."""
    try:
        with urllib.request.urlopen(f"http://{_HOST}:{page}/json/", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    return text.replace(" ", "").count('"state":"ALIVE"')
