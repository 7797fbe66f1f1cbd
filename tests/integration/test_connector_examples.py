"""The programs under examples/connectors do what docs/connectors.md says of them."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import bayou
from bayou.engines import from_description
from bayou.engines.arrow import ArrowEngine
from bayou.errors import ConstraintViolationError
from bayou.kernel import EngineDescription, Table
from bayou.spark import DistributedScanBuilder
from bayou.testing import EngineSuite

EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    yield
    for program in EXAMPLES.glob("*.py"):
        sys.modules.pop(program.stem, None)


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


def test_the_single_process_reader_takes_a_distributed_scan_as_it_is(
    table: str, spark: Any
) -> None:
    import single_process_reader as reader

    engine = ArrowEngine()
    snapshot = reader.analyze(engine, table)
    for condition in (None, "day = 1", "id >= 98"):
        scans = [
            snapshot.scan_builder().with_filter(condition).build(),
            DistributedScanBuilder(spark, snapshot, 2).with_filter(condition).build(),
        ]
        rows = []
        for scan in scans:
            with reader.execute(engine, scan, ["day", "id"]) as batches:
                rows.append(sorted((r["day"], r["id"]) for b in batches for r in b.to_pylist()))
        assert rows[0] == rows[1]
        assert rows[0]


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


@pytest.fixture
def created(tmp_path: Path) -> str:
    """The table that create_and_insert.py makes."""
    path = str(tmp_path / "made")
    assert run("create_and_insert.py", path).stdout == "created version 0\n"
    return path


def rows_of(path: str, filter: str | None = None) -> list[dict[str, Any]]:
    ours = bayou.table(path).to_arrow(filter=filter).sort_by("id").to_pylist()
    if filter is None:
        theirs = pa.table(DeltaTable(path).to_pyarrow_table()).sort_by("id")
        assert theirs.to_pylist() == ours
    return ours


def test_the_first_rows_come_with_the_table(created: str) -> None:
    snapshot = bayou.table(created).snapshot()
    assert snapshot.partition_columns == ("day",)
    assert not snapshot.schema.get("id").nullable
    assert [row["id"] for row in rows_of(created)] == [0, 1, 10, 11, 20, 21]
    assert rows_of(created, "day = '2024-01-06'")[1] == {
        "id": 11,
        "name": "b",
        "day": dt.date(2024, 1, 6),
    }


def test_a_blind_append_goes_to_the_partitions_of_its_rows(created: str) -> None:
    assert run("blind_append.py", created, "2500").stdout == "version 1\n"
    rows = rows_of(created, "name LIKE 'name%'")
    assert [row["id"] for row in rows] == list(range(2500))
    assert all(row["day"].day == 5 + row["id"] % 3 for row in rows)
    assert bayou.table(created).history()[0]["isBlindAppend"] is True


def test_an_append_that_is_refused_leaves_no_file(created: str) -> None:
    import blind_append

    before = set(Path(created).rglob("*.parquet"))
    with pytest.raises(ConstraintViolationError, match="id"):
        blind_append.append(ArrowEngine(), created, [pa.record_batch({"id": pa.nulls(1)})])
    assert set(Path(created).rglob("*.parquet")) == before


def test_a_batch_that_is_appended_again_is_there_once(tmp_path: Path) -> None:
    path = str(tmp_path / "stream")
    bayou.write(path, pa.table({"id": pa.array([], pa.int64())}))
    assert run("idempotent_append.py", path, "0", "1", "1").stdout.splitlines() == [
        "batch 0: version 1",
        "batch 1: version 2",
        "batch 1: there already",
        "next batch: 2",
    ]
    assert run("idempotent_append.py", path, "0", "2").stdout.splitlines() == [
        "batch 0: there already",
        "batch 2: version 3",
        "next batch: 3",
    ]
    assert rows_of(path) == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert len(list(Path(path).glob("*.parquet"))) == 3


def test_several_processes_write_one_commit(created: str) -> None:
    assert run("multi_process_writer.py", created, "2").stdout == "version 1\n"
    rows = rows_of(created, "name LIKE 'worker%'")
    assert [row["id"] for row in rows] == [*range(100, 130), *range(200, 230)]
    assert len(bayou.table(created).snapshot().files()) == 3 + 2 * 3


def test_a_task_of_the_multi_process_writer_shows_no_secret() -> None:
    import multi_process_writer as writer

    description = EngineDescription(kind="arrow", options={"AWS_SECRET_ACCESS_KEY": "s3cr3t"})
    assert "s3cr3t" not in repr(writer.Task(engine=description.to_bytes(), state=b"", share=0))


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_several_processes_delete_rows_in_one_commit(tmp_path: Path, vectors: str) -> None:
    path = str(tmp_path / "shared")
    for first in (0, 10, 20):
        rows = pa.table({"id": range(first, first + 10)})
        bayou.write(path, rows, configuration={"delta.enableDeletionVectors": vectors})
    done = run("multi_process_delete.py", path, "id % 2 = 0 AND id < 18", "2")
    assert done.stdout == "9 rows deleted, version 3\n"
    found = bayou.table(path)
    assert sorted(found.to_arrow()["id"].to_pylist()) == [i for i in range(30) if i % 2 or i >= 18]
    assert found.history(1)[0]["operationMetrics"]["numDeletedRows"] == "9"


def test_a_file_of_a_connectors_own_writer_is_skipped_by_its_statistics(tmp_path: Path) -> None:
    path = str(tmp_path / "own")
    properties = {"delta.columnMapping.mode": "name"}
    bayou.write(path, pa.table({"id": [100, 200], "name": ["a", "b"]}), configuration=properties)
    assert run("own_parquet_writer.py", path).stdout == "version 1\n"
    found = bayou.table(path)
    assert found.to_arrow().sort_by("id").column("id").to_pylist() == [1, 2, 3, 100, 200]
    assert (
        len(found.snapshot().files(filter="id < 50"))
        == len(found.snapshot().files(filter="id > 50"))
        == 1
    )
    assert found.snapshot().files(filter="id < 50").column("num_records").to_pylist() == [3]


def test_a_checkpoint_is_written_where_one_is_due(tmp_path: Path) -> None:
    path = str(tmp_path / "often")
    rows = pa.table({"id": [-1]})
    bayou.write(path, rows, configuration={"delta.checkpointInterval": "3"})
    assert run("checkpoint_after_commit.py", path, "7").stdout.splitlines() == [
        "checkpoint of version 3",
        "checkpoint of version 6",
        "version 7",
    ]
    names = {p.name for p in (Path(path) / "_delta_log").glob("*.checkpoint.parquet")}
    assert names == {f"{version:020}.checkpoint.parquet" for version in (3, 6)}
    assert [row["id"] for row in rows_of(path)] == list(range(-1, 7))


class TestTheCountingEngine(EngineSuite):
    """An engine of one's own passes the suite for engines."""

    @pytest.fixture
    def engine(self):
        import counting_engine

        return counting_engine.CountingEngine({})

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "place")


@pytest.fixture
def many_commits(tmp_path: Path) -> str:
    """A checkpoint of twelve commits, and three commits behind it."""
    path = str(tmp_path / "many")
    for i in range(15):
        bayou.write(path, pa.table({"id": [i]}), configuration={"delta.checkpointInterval": "1000"})
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
