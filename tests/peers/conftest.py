"""A running delta-spark, and rows of every type."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, which start delta-spark, as `process`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.process)


class DeltaSpark:
    """delta-spark in a process and an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._requests = 0
        environment = Path(os.environ["BAYOU_PEERS"]).resolve()
        python = str(environment / "bin" / "python")
        self._process = subprocess.Popen(
            [python, str(Path(__file__).parent / "delta_spark_server.py"), str(folder / "spark")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr.log").open("w"),
            text=True,
            cwd=folder,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("SPARK")},
                "PYSPARK_PYTHON": python,
                "PYSPARK_DRIVER_PYTHON": python,
                "TZ": "UTC",
            },
        )
        self._answer()

    def read(
        self,
        table: Path,
        *,
        version: int | None = None,
        where: str | None = None,
        columns: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """A table's rows as delta-spark sees them; of columns, or expressions, where given."""
        self._requests += 1
        out = self._folder / f"out{self._requests}"
        self._ask(
            do="read",
            table=str(table),
            out=str(out),
            version=version,
            where=where,
            columns=list(columns),
            options=dict(options or {}),
        )
        return pq.read_table(out)

    def write(
        self,
        table: Path,
        rows: pa.Table,
        *,
        mode: str = "append",
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Write rows to a table by delta-spark."""
        self._requests += 1
        file = self._folder / f"in{self._requests}.parquet"
        pq.write_table(rows, file)
        self._ask(
            do="write",
            table=str(table),
            rows=str(file),
            mode=mode,
            partition_by=list(partition_by),
            options=dict(options or {}),
        )

    def stream(
        self,
        table: Path,
        checkpoint: Path,
        out: Path,
        options: Mapping[str, str],
        fail_at: int | None = None,
    ) -> None:
        """Read a table as a stream, up to its end; each micro-batch is a folder `batch=N`."""
        self._ask(
            do="stream",
            table=str(table),
            checkpoint=str(checkpoint),
            out=str(out),
            options=dict(options),
            fail_at=fail_at,
        )

    def sql(self, text: str) -> None:
        """Run a statement."""
        self._ask(do="sql", text=text)

    def run(self, program: str, path: Path) -> None:
        """Run a Python program over `spark` and `path`."""
        self._ask(do="run", program=program, path=str(path))

    def close(self) -> None:
        """End the session; the process ends when its input does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def _ask(self, **request: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@@"):
                answer = json.loads(line[2:])
                assert answer["ok"], answer["error"]
                return
        raise AssertionError((self._folder / "stderr.log").read_text()[-4000:])


@pytest.fixture(scope="module")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """One for each file of tests: it keeps what it has seen, and its heap fills up."""
    server = DeltaSpark(tmp_path_factory.mktemp("delta-spark"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def every_type() -> pa.Table:
    """Five rows of every type that both sides can write; the last one is all null but `id`."""
    utc = dt.UTC
    columns: dict[str, tuple[pa.DataType, list[object]]] = {
        "id": (pa.int64(), [0, 1, 2, 3]),
        "byte": (pa.int8(), [-128, 0, 127, 1]),
        "short": (pa.int16(), [-32768, 0, 32767, 1]),
        "int": (pa.int32(), [-(2**31), 0, 2**31 - 1, 1]),
        "long": (pa.int64(), [-(2**63), 0, 2**63 - 1, 1]),
        "float": (pa.float32(), [-0.0, math.nan, math.inf, 0.1]),
        "double": (pa.float64(), [0.0, 1.5, -math.inf, math.nan]),
        "flag": (pa.bool_(), [True, False, True, False]),
        "text": (pa.string(), ["", "it's", "日本語 🎉", "z" * 5000]),
        "bytes": (pa.binary(), [b"", b"\x00\xff", b"abc", b"\x80"]),
        "small_decimal": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal(0), Decimal("1.10")]),
        "large_decimal": (pa.decimal128(38, 10), [Decimal("-1e27"), Decimal("1e-10"), Decimal(0)]),
        "day": (pa.date32(), [dt.date(1600, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        "instant": (
            pa.timestamp("us", "UTC"),
            [
                dt.datetime(1969, 12, 31, 23, 59, 59, 999999, utc),
                dt.datetime(2024, 2, 29, 12, 0, 0, 1, utc),
                dt.datetime(2038, 1, 19, 3, 14, 8, tzinfo=utc),
            ],
        ),
        "struct": (
            pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
            [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, {"a": 2, "b": {"c": None}}],
        ),
        "array": (pa.list_(pa.field("element", pa.int64())), [[], [1, None], [3]]),
        "map": (pa.map_(pa.string(), pa.float64()), [[], [("k", 1.0)], [("a", None)]]),
    }
    fields = {}
    for name, (data_type, values) in columns.items():
        last: list[object] = [4] if name == "id" else [None]
        padding = [None] * (4 - len(values))
        fields[name] = pa.array([*values, *padding, *last], data_type)
    return pa.table(fields)


@pytest.fixture(scope="session")
def days() -> pa.Table:
    """Rows over awkward partition values."""
    names = ["plain", "a b", "a/b", "a=b", "50%", "ü", "", None, "C:\\d", "x#1?y"]
    return pa.table(
        {
            "id": pa.array(range(len(names) * 3), pa.int64()),
            "name": pa.array(names * 3, pa.string()),
            "day": pa.array([dt.date(2024, 1, 1 + i % 2) for i in range(len(names) * 3)]),
        }
    )
