"""The programs under examples/connectors do what docs/connectors.md says of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines import from_description
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import EngineDescription, Table
from bayou.testing import EngineSuite

EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    yield
    for name in ("single_process_reader", "multi_process_reader", "counting_engine"):
        sys.modules.pop(name, None)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """300 rows of three days; two of them in a checkpoint."""
    path = str(tmp_path / "events")
    for day in range(3):
        rows = pa.table({"day": [day] * 100, "id": range(100), "name": ["x"] * 100})
        bayou.write(path, rows, partition_by=["day"])
        if day == 1:
            Table(path).checkpoint(ArrowEngine())
    return path


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / program), *arguments],
        capture_output=True,
        check=True,
        text=True,
    )


def test_the_single_process_reader_prints_the_rows(table: str) -> None:
    done = run("single_process_reader.py", table, "day = 1 AND id < 3", "id", "day")
    rows = sorted(done.stdout.splitlines())
    assert rows == [f"{{'id': {i}, 'day': 1}}" for i in range(3)]
    assert "3 rows" in done.stderr
    assert "version 2" in done.stderr


def test_the_single_process_reader_gives_what_the_short_api_gives(table: str) -> None:
    import single_process_reader as reader

    engine = ArrowEngine()
    for version, condition in [(None, None), (0, None), (None, "id >= 98"), (1, "name = 'y'")]:
        snapshot = reader.analyze(engine, table, version)
        scan = reader.plan(snapshot, ["day"], condition)
        with reader.execute(engine, scan, ["day"]) as batches:
            found = sorted(value for b in batches for value in b.column("day").to_pylist())
        expected = bayou.table(table).to_arrow(columns=["day"], filter=condition, version=version)
        assert found == sorted(expected.column("day").to_pylist())


def test_the_multi_process_reader_reads_every_row_once(table: str) -> None:
    assert run("multi_process_reader.py", table).stdout == "300 rows\n"
    assert run("multi_process_reader.py", table, "day > 0 AND id = 7").stdout == "2 rows\n"


def test_a_task_of_the_multi_process_reader_shows_no_secret(table: str) -> None:
    import multi_process_reader as reader

    description = EngineDescription(kind="arrow", options={"AWS_SECRET_ACCESS_KEY": "s3cr3t"})
    task = reader.Task(engine=description.to_bytes(), scan=b"", state=b"", part=b"")
    assert "s3cr3t" not in repr(task)


def test_the_counting_engine_counts_what_opening_and_reading_take(table: str) -> None:
    done = run("counting_engine.py", table)
    opening, reading = done.stdout.splitlines()
    assert opening.startswith("opening version 2: {")
    assert "'list': 1" in opening
    assert reading.startswith("reading 300 rows: {")


def test_the_counting_engine_is_built_again_from_its_description(table: str) -> None:
    import counting_engine

    engine = counting_engine.CountingEngine({"key": "s3cr3t"})
    assert "s3cr3t" not in repr(engine)
    again = from_description(EngineDescription.from_bytes(engine.description().to_bytes()))
    assert isinstance(again, counting_engine.CountingEngine)
    assert Table(table).latest_snapshot(again).version == 2
    assert again.counts.calls["list"] == 1


class TestTheCountingEngine(EngineSuite):
    """An engine of one's own passes the suite for engines."""

    @pytest.fixture
    def engine(self):
        import counting_engine

        return counting_engine.CountingEngine({})

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "place")
