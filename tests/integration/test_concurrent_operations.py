"""Operations of all kinds by processes of their own on one table, on the local disk and on S3.

Each process writes down what it does: before it tries, what and from which version; behind that,
how it ended. The log is then played again, version by version, and held against these records: the
rows of each version must be what its operation made of them, as its process saw the table.

`BAYOU_TEST_MIX=20` takes twenty times as many operations.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import CommitConflictError, CommitFailedError
from bayou.kernel import Engine, Operation, Snapshot, Table, write_data
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.commands.row_changes.update import update
from support.table_model import Effect, Rows, TableModel
from support.table_rows import read_feed, replayed
from support.waiting import wait_until

PROCESSES = 8
SCALE = int(os.environ.get("BAYOU_TEST_MIX", "1"))
ATTEMPTS = 30
PARTITIONS = 4
INTERVAL = 5
KILLS = 6 * SCALE
COLUMNS = ("id", "p", "v")
ROW_ID = "_metadata.row_id"

REWRITES = ("optimize", "zorder", "purge")
MIX = [
    *["append"] * 4,
    *["delete", "update", "merge"] * 2,
    *REWRITES,
    "checkpoint",
]
HISTORY_NAMES = {
    "append": "WRITE",
    "delete": "DELETE",
    "update": "UPDATE",
    "merge": "MERGE",
    "optimize": "OPTIMIZE",
    "zorder": "OPTIMIZE",
    "purge": "REORG",
}

REWRITING = {"delta.enableDeletionVectors": "false"}
VECTORS = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
}
V2_CHECKPOINTS = {"delta.checkpointPolicy": "v2"}
SERIALIZABLE = {"delta.isolationLevel": "Serializable"}

Step = Mapping[str, Any]


# ------------------------------------------------------------------------- what a process does


def work(
    path: str, options: dict[str, str], writer: int, steps: int, records: str, start=None
) -> None:
    """Do some operations, each until it is committed or has nothing to do."""
    engine = ArrowEngine(options)
    table = Table.for_path(engine, path)
    chance = random.Random(writer)
    own: list[int] = []
    next_id = 1_000_000 * writer
    with Path(records, f"{writer}.jsonl").open("ab", buffering=0) as file:
        if start is not None:
            start.wait()
        for number in range(steps):
            step = chosen_step(chance, own, next_id)
            next_id += 4
            if attempt_all(engine, table, step, f"mix/{writer}-{number}", file) == "committed":
                own += [row["id"] for row in step.get("rows", [])]


def chosen_step(chance: random.Random, own: list[int], next_id: int) -> Step:
    kind = chance.choice(MIX)
    p = chance.choice([None, *range(PARTITIONS)])
    match kind:
        case "append":
            return {"kind": kind, "rows": [row(next_id + i, chance) for i in range(4)]}
        case "delete" | "update":
            divisor = chance.choice([3, 5, 7, 11])
            step = {"kind": kind, "divisor": divisor, "rest": chance.randrange(divisor), "p": p}
            return {**step, "to": chance.choice([None, 0, 1])} if kind == "update" else step
        case "merge":
            ids = {*chance.sample(own, min(3, len(own))), next_id}
            rows = [row(i, chance) for i in sorted(ids)]
            return {"kind": kind, "rows": rows, "deletes": chance.random() < 0.3}
        case _:
            return {"kind": kind, "p": p}


def row(key: int, chance: random.Random) -> dict[str, int]:
    return {"id": key, "p": chance.randrange(PARTITIONS), "v": chance.randrange(100)}


def attempt_all(engine: Engine, table: Table, step: Step, name: str, file) -> str:
    """Try, and behind a conflict read the table again and try again; how it ended."""
    for number in range(ATTEMPTS):
        token = f"{name}-{number}"
        began = time.monotonic_ns()
        snapshot = table.latest_snapshot(engine)
        note(file, {"token": token, "began": began, "read": snapshot.version, **step})
        done: dict[str, Any] = {}
        try:
            version, counts = perform(engine, table, snapshot, step, token)
        except CommitConflictError as error:
            outcome, done = "conflict", {"winner": error.winning_version}
        except CommitFailedError as error:
            outcome, done = "unknown", {"error": str(error)}
        else:
            committed = version is not None and version > snapshot.version
            outcome = "committed" if committed and step["kind"] != "checkpoint" else "nothing"
            done = {"version": version, "counts": counts}
        note(file, {"token": token, "outcome": outcome, "ended": time.monotonic_ns(), **done})
        if outcome != "conflict":
            return outcome
    return "conflict"


def note(file, record: Mapping[str, Any]) -> None:
    file.write(json.dumps(record).encode() + b"\n")


def perform(
    engine: Engine, table: Table, snapshot: Snapshot, step: Step, token: str
) -> tuple[int | None, dict[str, int | None]]:
    """One attempt: the version it ended at, and how many rows went and came by its own word."""
    match step["kind"]:
        case "append":
            builder = snapshot.build_update_table_transaction(token, Operation.WRITE)
            transaction = builder.build(engine)
            adds = write_data(engine, transaction.transaction_state(engine), batches(step["rows"]))
            result = transaction.commit(engine, adds)
            result.run_post_commit_hooks(engine)
            return result.version, {}
        case "delete":
            deleted = delete(engine, snapshot, condition(step), engine_info=token)
            return deleted.version, {"gone": deleted.num_deleted_rows, "new": 0}
        case "update":
            values = {"v": "v + 1"} | ({} if step["to"] is None else {"p": str(step["to"])})
            updated = update(engine, snapshot, values, condition(step), engine_info=token)
            return updated.version, {"gone": updated.num_updated_rows}
        case "merge":
            source = batches(step["rows"])
            merged = merge(
                engine,
                snapshot,
                MergeSource.read(source[0].schema, source),
                MergeDefinition(
                    on="target.id = source.id",
                    clauses=(
                        MergeClause(
                            kind="MATCHED", action="delete" if step["deletes"] else "update"
                        ),
                        MergeClause(kind="NOT MATCHED", action="insert"),
                    ),
                ),
                engine_info=token,
            )
            updated = merged.num_target_rows_updated
            return merged.version, {
                "gone": merged.num_target_rows_deleted + updated,
                "new": merged.num_target_rows_inserted + updated,
            }
        case kind if kind in REWRITES:
            where = None if step["p"] is None else f"p = {step['p']}"
            if kind == "optimize":
                plan = plan_optimize(engine, snapshot, token, where=where)
            elif kind == "zorder":
                plan = plan_zorder(engine, snapshot, token, ("id", "v"), where=where)
            else:
                plan = plan_purge(engine, snapshot, token, where=where)
            return run_plan(engine, plan, token).version, {"gone": 0, "new": 0}
        case _:
            return table.checkpoint(engine, snapshot.version), {}


def condition(step: Step) -> str:
    text = f"id % {step['divisor']} = {step['rest']}"
    return text if step["p"] is None else f"{text} AND p = {step['p']}"


def batches(rows: list[dict[str, int]]) -> list[pa.RecordBatch]:
    types = {"id": pa.int64(), "p": pa.int32(), "v": pa.int64()}
    return [pa.RecordBatch.from_pylist(rows, pa.schema(types.items()))]


# ----------------------------------------------------------------------- what it must come to


def effect(step: Step, rows: Rows) -> Effect:
    """What an operation does to the rows that it sees."""
    match step["kind"]:
        case "append":
            return Effect(new={r["id"]: r for r in step["rows"]})
        case "delete":
            return Effect(gone=selected(step, rows))
        case "update":
            gone = selected(step, rows)
            set_p = {} if step["to"] is None else {"p": step["to"]}
            return Effect(
                gone=gone, new={k: {**r, "v": r["v"] + 1, **set_p} for k, r in gone.items()}
            )
        case "merge":
            source = {r["id"]: r for r in step["rows"]}
            gone = {k: rows[k] for k in source if k in rows}
            kept = {k: r for k, r in source.items() if not (step["deletes"] and k in gone)}
            return Effect(gone=gone, new=kept)
        case _:
            return Effect()


def selected(step: Step, rows: Rows) -> Rows:
    return {
        key: r
        for key, r in rows.items()
        if key % step["divisor"] == step["rest"] and step["p"] in (None, r["p"])
    }


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Attempts of all processes; one that was cut off has no outcome."""
    attempts: dict[str, dict[str, Any]] = {}
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            attempts.setdefault(record["token"], {"outcome": "unknown"}).update(record)
    return list(attempts.values())


def check_history(
    path: str, options: dict[str, str], folder: Path, first: Rows, attempts: list[dict[str, Any]]
) -> TableModel:
    """Play the log again; gives all versions' rows.

    Args:
        folder: where the table's files are, by whatever way they came there.
        first: rows of version 0.
    """
    table = bayou.table(path, options)
    history = sorted(table.history(), key=lambda commit: commit["version"])
    assert [commit["version"] for commit in history] == list(range(len(history)))
    assert len({commit["txnId"] for commit in history}) == len(history)
    properties = table.snapshot().properties
    by_token = {attempt["token"]: attempt for attempt in attempts}
    model = TableModel(COLUMNS, first)
    committed: set[str] = set()
    blind: list[set[int]] = [set()]
    ids = check_rows(table, model, properties)
    for commit in history[1:]:
        token, version = commit["engineInfo"], commit["version"]
        assert token not in committed, f"{token} is committed twice"
        committed.add(token)
        done = by_token[token]
        assert commit["operation"] == HISTORY_NAMES[done["kind"]]
        assert done["read"] < version
        assert done["outcome"] in ("committed", "unknown")
        seen = effect(done, model.rows(done["read"]))
        if done["outcome"] == "committed":
            assert done["version"] == version
            check_counts(done, seen)
        check_order(done, seen, model, blind, properties)
        model.commit(version, seen)
        blind.append(set(seen.new) if done["kind"] == "append" else set())
        found = check_rows(table, model, properties)
        moved = {key: row_id for key, row_id in found.items() if ids.get(key, row_id) != row_id}
        assert not moved, f"version {version}: rows with other row ids {moved}"
        ids = found
        check_feed(path, options, model, properties)
        check_checksum(folder, table, version)
    for attempt in attempts:
        if attempt["outcome"] == "committed":
            assert attempt["token"] in committed, f"{attempt} is lost"
        if attempt["outcome"] == "nothing":
            assert effect(attempt, model.rows(attempt["read"])).is_nothing
        if attempt["outcome"] == "conflict":
            assert attempt["kind"] != "append", f"a blind append conflicts: {attempt}"
            assert attempt["read"] < attempt["winner"] <= model.version
    check_times(attempts)
    if "delta.enableInCommitTimestamps" in properties:
        times = [commit["timestamp"] for commit in history]
        assert times == sorted(set(times))
    return model


def check_counts(done: Step, seen: Effect) -> None:
    counts = {"gone": len(seen.gone), "new": len(seen.new)}
    assert counts | done["counts"] == counts, f"{done} counts other rows"


def check_order(
    done: Step, seen: Effect, model: TableModel, blind: list[set[int]], properties: dict[str, str]
) -> None:
    """The log's order is one in which operations could have run one by one.

    Only what was appended blindly behind an operation's back may stand before it, and only where
    the isolation level lets it.
    """
    there = effect(done, model.rows())
    missed = set(there.gone) - set(seen.gone)
    if properties.get("delta.isolationLevel") == "Serializable":
        assert not missed, f"{done} hasn't seen {missed}"
    assert missed <= set().union(*blind[done["read"] + 1 :])
    if not missed:
        assert there == seen


def check_rows(table, model: TableModel, properties: dict[str, str]) -> dict[int, int]:
    """Of the model's latest version, read from the table; no two rows have one row id.

    Returns:
        Row ids by `id`, where rows are tracked.
    """
    tracked = properties.get("delta.enableRowTracking") == "true"
    columns = [*COLUMNS, ROW_ID] if tracked else list(COLUMNS)
    read = table.to_arrow(columns, version=model.version)
    rows = read.select(COLUMNS).to_pylist()
    assert len(rows) == len(model.rows()), f"version {model.version}"
    assert {r["id"]: r for r in rows} == model.rows(), f"version {model.version}"
    if tracked:
        row_ids = read.column(len(COLUMNS)).to_pylist()
        assert None not in row_ids
        assert len(set(row_ids)) == len(row_ids)
        return dict(zip(read.column(0).to_pylist(), row_ids, strict=True))
    return {}


def check_feed(
    path: str, options: dict[str, str], model: TableModel, properties: dict[str, str]
) -> None:
    """The feed of the model's latest version leads there from the one before."""
    if properties.get("delta.enableChangeDataFeed") != "true":
        return
    engine, version = ArrowEngine(options), model.version
    feed = read_feed(engine, Table.for_path(engine, path), version, version)
    assert replayed(feed, model.rows(version - 1), COLUMNS) == model.rows()


def check_checksum(folder: Path, table, version: int) -> None:
    """The checksum file of a version, where one was written."""
    file = folder / "_delta_log" / f"{version:020}.crc"
    if file.exists():
        assert json.loads(file.read_bytes())["numFiles"] == table.snapshot(version).files().num_rows


def check_times(attempts: list[dict[str, Any]]) -> None:
    """Whoever begins when a commit is acknowledged, sees it."""
    ends = sorted((a["ended"], a["version"]) for a in attempts if a["outcome"] == "committed")
    latest, passed = 0, 0
    for attempt in sorted(attempts, key=lambda a: a["began"]):
        while passed < len(ends) and ends[passed][0] < attempt["began"]:
            latest = max(latest, ends[passed][1])
            passed += 1
        assert attempt["read"] >= latest, f"{attempt} hasn't seen version {latest}"


# --------------------------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(PROCESSES, mp.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def start() -> Iterator[threading.Barrier]:
    """Holds the processes until all of them are there."""
    with mp.get_context("spawn").Manager() as manager:
        yield manager.Barrier(PROCESSES)


def create(path: str, options: dict[str, str], properties: dict[str, str]) -> Rows:
    chance = random.Random(0)
    rows = [row(key, chance) for key in range(40)]
    data = pa.Table.from_batches(batches(rows))
    every = {"delta.checkpointInterval": str(INTERVAL), **properties}
    bayou.write(path, data, partition_by=["p"], configuration=every, storage_options=options)
    return {r["id"]: r for r in rows}


def check_leftovers(folder: Path, last: int) -> None:
    """The log names every data file; checkpoints that were due are there, with checksums."""
    log = folder / "_delta_log"
    named = "".join(f.read_text() for f in log.glob("*.json"))
    assert [f.name for f in folder.rglob("part-*.parquet") if f.name not in named] == []
    due = set(range(INTERVAL, last + 1, INTERVAL))
    assert due <= {int(f.name[:20]) for f in log.glob("*.checkpoint*.parquet")}
    assert due <= {int(f.name[:20]) for f in log.glob("*.crc")}


@pytest.mark.parametrize("store", ["disk", pytest.param("s3", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(REWRITING, id="rewritten files", marks=pytest.mark.slow),
        pytest.param(VECTORS | SERIALIZABLE, id="deletion vectors"),
    ],
)
def test_every_version_is_what_its_operation_made_of_the_rows_it_saw(
    request, tmp_path, pool, start, store, properties
):
    path, options, folder, steps = str(tmp_path / "table"), {}, tmp_path / "table", 8 * SCALE
    if store == "s3":
        server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
        path, options = f"s3://{bucket}/table", server.storage_options
        folder, steps = server.objects / bucket / "table", 4 * SCALE
    records = tmp_path / "records"
    records.mkdir()
    first = create(path, options, properties)
    futures = [
        pool.submit(work, path, options, writer, steps, str(records), start)
        for writer in range(1, PROCESSES + 1)
    ]
    for future in futures:
        future.result()

    attempts = read_records(records)
    outcomes = Counter((a["kind"], a["outcome"]) for a in attempts)
    print(sorted(outcomes.items()))
    model = check_history(path, options, folder, first, attempts)
    assert {outcome for _, outcome in outcomes} <= {"committed", "nothing", "conflict"}
    for kind in HISTORY_NAMES.keys() - set(REWRITES):  # those may find nothing to do
        assert outcomes[kind, "committed"] > 0
    check_leftovers(folder, model.version)
    assert bayou.table(path, options).snapshot().version == model.version
    if properties is REWRITING:
        theirs = deltalake.DeltaTable(path, storage_options=options)
        rows = pa.table(theirs.to_pyarrow_table()).select(COLUMNS).to_pylist()
        assert {r["id"]: r for r in rows} == model.rows()


@pytest.mark.parametrize("store", ["disk", pytest.param("s3", marks=pytest.mark.slow)])
def test_processes_killed_at_any_time_lose_nothing_that_they_acknowledged(request, tmp_path, store):
    path, options, folder, kills = str(tmp_path / "table"), {}, tmp_path / "table", KILLS
    if store == "s3":
        server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
        path, options = f"s3://{bucket}/table", server.storage_options
        folder, kills = server.objects / bucket / "table", KILLS // 2
    records = tmp_path / "records"
    records.mkdir()
    first = create(path, options, VECTORS | V2_CHECKPOINTS)
    chance = random.Random(1)
    spawn = mp.get_context("spawn")
    processes: dict[int, Any] = {}
    try:
        for writer in range(1, kills + 1):
            processes[writer] = spawn.Process(
                target=work, args=(path, options, writer, 1_000_000, str(records))
            )
            processes[writer].start()
            if len(processes) == PROCESSES // 2:
                kill(processes, chance, records)
        while processes:
            kill(processes, chance, records)
    finally:
        for process in processes.values():
            process.kill()

    attempts = read_records(records)
    print(sorted(Counter((a["kind"], a["outcome"]) for a in attempts).items()))
    model = check_history(path, options, folder, first, attempts)
    table = bayou.table(path, options)
    assert table.snapshot().version == model.version
    table.create_checkpoint()
    table.optimize()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    rows = table.to_arrow(COLUMNS).to_pylist()
    assert len(rows) == len(model.rows())
    assert {r["id"]: r for r in rows} == model.rows()


def kill(processes: dict[int, Any], chance: random.Random, records: Path) -> None:
    """SIGKILL one that is at work."""
    writer = chance.choice(sorted(processes))
    file = records / f"{writer}.jsonl"

    def is_at_work() -> bool:
        assert processes[writer].is_alive(), "it failed by itself"
        return file.exists() and file.stat().st_size > 0

    wait_until(is_at_work, timeout=120, what=f"the first record of {file.name}")
    time.sleep(chance.uniform(0, 0.5))  # deliberate: a kill at any moment of its work
    assert processes[writer].is_alive(), "it failed by itself"
    process = processes.pop(writer)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
