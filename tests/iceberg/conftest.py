"""Running readers of Iceberg tables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

READERS = ("spark", "duckdb")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, which start the readers, as `process`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.process)


class IcebergReaders:
    """Spark with Iceberg's runtime, and DuckDB, in a process and an environment of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._requests = 0
        python = str(Path(os.environ["BAYOU_ICEBERG"]).resolve() / "bin" / "python")
        self._process = subprocess.Popen(
            [python, str(Path(__file__).parent / "reader_server.py"), str(folder / "spark")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr.log").open("w"),
            text=True,
            cwd=folder,
            env={
                **{
                    k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYTHONPATH"))
                },
                "PYSPARK_PYTHON": python,
                "PYSPARK_DRIVER_PYTHON": python,
                "TZ": "UTC",
            },
        )
        self.files: int | None = None
        self._answer()

    def read(
        self, reader: str, table: Path, *, where: str | None = None, snapshot: int | None = None
    ) -> pa.Table:
        """Return a table's rows. `files` is then the number of data files that Spark has read."""
        return self._ask(
            {"reader": reader, "table": str(table), "where": where, "snapshot": snapshot}
        )

    def aggregates(self, table: Path, *aggregates: str) -> pa.Table:
        """Return aggregates of a table in SQL, which Spark may compute from the metadata."""
        return self._ask({"reader": "spark", "table": str(table), "aggregates": aggregates})

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> pa.Table:
        assert self._process.stdin is not None
        self._requests += 1
        out = self._folder / f"out{self._requests}.parquet"
        self._process.stdin.write(json.dumps({**request, "out": str(out)}) + "\n")
        self._process.stdin.flush()
        self._answer()
        return pq.read_table(out)

    def _answer(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@@"):
                answer = json.loads(line[2:])
                assert answer["ok"], answer["error"]
                self.files = answer.get("files")
                return
        raise AssertionError((self._folder / "stderr.log").read_text()[-4000:])


@pytest.fixture(scope="session")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergReaders]:
    """One process for all tests."""
    server = IcebergReaders(tmp_path_factory.mktemp("readers"))
    yield server
    server.close()
