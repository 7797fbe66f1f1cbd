"""The programs under examples/connectors do what docs/connectors.md says of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


GUIDE = Path(__file__).parents[2] / "docs" / "connectors.md"


def test_the_programs_of_the_guide_run(tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    rows = pa.table({"id": [1, 20, 30], "day": ["2024-01-05"] * 3, "name": ["a", "b", "c"]})
    bayou.write(path, rows, partition_by=["day"])
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block.replace("s3://lake/events", path), str(GUIDE), "exec"), scope)
        if "scan_files(" in block:
            read = scope["rows"].to_pylist()
        if "def run(" in block:
            distributed = [
                row
                for task in scope["tasks"]
                for batch in scope["run"](*scope["shared"], task)
                for row in batch.to_pylist()
            ]
        if "def audited_engine" in block:
            assert scope["audited_engine"]({}).files.resolve_path("/a/") == "/a"
    expected = [{"id": 1, "name": "a"}, {"id": 20, "name": "b"}, {"id": 30, "name": "c"}]
    assert read == distributed == expected  # the remaining filter is the connector's to apply
    assert scope["result"].version == 1
    assert bayou.table(path).to_arrow(filter="name IS NULL").to_pylist() == [
        {"id": 1, "day": "2024-01-05", "name": None}
    ]


@pytest.fixture
def many_commits(tmp_path: Path) -> str:
    """A checkpoint of twelve commits, and three commits behind it."""
    path = str(tmp_path / "many")
    for i in range(15):
        bayou.write(path, pa.table({"id": [i]}), properties={"delta.checkpointInterval": "1000"})
        if i == 11:
            Table(path).checkpoint(ArrowEngine())
    return path


def test_opening_a_table_with_a_checkpoint_is_one_list_and_few_gets(many_commits: str) -> None:
    import counting_engine

    engine = counting_engine.CountingEngine({})
    snapshot = Table.for_path(engine, many_commits).latest_snapshot(engine)
    calls = dict(engine.counts.calls)
    assert snapshot.version == 14
    assert calls["list"] == 1
    assert calls["read"] <= 1 + 3 + 1  # the hint, the commits, a checksum
    assert calls.get("open", 0) <= 2  # the checkpoint's footer and its few columns
    assert calls.get("status", 0) == 0
