"""Merges, appends, OPTIMIZE and VACUUM of Spark at once: the history is a serial order.

Several sessions of one Spark work on one table, each in a thread of its own. Each commit says by
its user metadata what it did; the log is then played again, version by version, and the rows of
each version must be those of the one before with that operation done to them.

`BAYOU_TEST_MIX=20` takes twenty times as many operations.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import bayou
from bayou.errors import CommitConflictError
from bayou.spark import DeltaTable, enable

pytestmark = pytest.mark.spark

SCALE = int(os.environ.get("BAYOU_TEST_MIX", "1"))
WORKERS = 4
ATTEMPTS = 40
KINDS = ("append", "merge", "plan", "delete", "update", "optimize", "vacuum")
SCHEMA = "id long, p int, n long"


def steps(worker: int, count: int) -> list[dict]:
    """What a worker does: each kind in turn, in an order of its own."""
    chance = random.Random(worker)
    found = []
    for number in range(count):
        kind = KINDS[(worker * 2 + number) % len(KINDS)]
        step = {"kind": kind, "token": f"{worker}-{number}", "p": chance.randrange(3)}
        keys = [chance.randrange(60) for _ in range(3)]
        if kind == "append":
            keys = [1000 * (worker + 1) + 3 * number + n for n in range(3)]
        found.append({**step, "keys": sorted(set(keys)), "n": chance.randrange(100)})
    return found


def work(spark, path, storage, worker, count, start) -> Counter:
    session = spark.newSession()
    enable(session)
    for key, value in storage.items():
        session.conf.set(key, value)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    outcomes: Counter = Counter()
    start.wait()
    for step in steps(worker, count):
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", json.dumps(step))
        session.conf.set(
            "bayou.rowOperations.sourceBytes", "0" if step["kind"] == "plan" else "1000000"
        )
        for _ in range(ATTEMPTS):
            try:
                perform(session, path, step)
            except CommitConflictError:
                outcomes[step["kind"], "conflict"] += 1
            else:
                outcomes[step["kind"], "done"] += 1
                break
        else:
            raise AssertionError(f"{step} never comes through")
    return outcomes


def perform(session, path, step) -> None:
    table = DeltaTable.forPath(session, path)
    rows = [(key, step["p"], step["n"]) for key in step["keys"]]
    match step["kind"]:
        case "append":
            session.createDataFrame(rows, SCHEMA).write.format("delta").mode("append").save(path)
        case "merge" | "plan":
            source = session.createDataFrame(rows, SCHEMA).alias("s")
            merging = table.alias("t").merge(source, "t.id = s.id")
            merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        case "delete":
            table.delete(f"p = {step['p']} AND id % 7 = {step['n'] % 7}")
        case "update":
            table.update(f"p = {step['p']}", {"n": f"n + {step['n']}"})
        case "optimize":
            table.optimize().executeCompaction()
        case _:
            table.vacuum(1)


def after(step, rows: dict) -> dict:
    brought = dict.fromkeys(step["keys"], (step["p"], step["n"]))
    match step["kind"]:
        case "append" | "merge" | "plan":
            return rows | brought
        case "delete":
            p, rest = step["p"], step["n"] % 7
            return {k: v for k, v in rows.items() if not (v[0] == p and k % 7 == rest)}
        case "update":
            return {k: (p, n + step["n"] if p == step["p"] else n) for k, (p, n) in rows.items()}
        case _:
            return rows


@pytest.mark.parametrize("store", ["disk", pytest.param("s3", marks=pytest.mark.slow)])
def test_the_history_is_a_serial_order_and_nothing_is_lost(request, spark, tmp_path, store):
    path, options, conf, count = str(tmp_path / "t"), {}, {}, 4 * SCALE
    if store == "s3":
        server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
        path, options, count = f"s3a://{bucket}/t", server.storage_options, 2 * SCALE
        conf = {
            "spark.hadoop.fs.s3a.endpoint": server.endpoint.removeprefix("http://"),
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.endpoint.region": server.REGION,
            "spark.hadoop.fs.s3a.access.key": server.access_key,
            "spark.hadoop.fs.s3a.secret.key": server.secret_key,
        }
    first = {key: (key % 3, 0) for key in range(30)}
    bayou.write(
        path,
        pa.table(
            {
                "id": list(first),
                "p": pa.array([p for p, _ in first.values()], pa.int32()),
                "n": [n for _, n in first.values()],
            }
        ),
        partition_by=["p"],
        configuration={
            "delta.enableDeletionVectors": str(store == "disk").lower(),
            "delta.isolationLevel": "Serializable",
            "delta.checkpointInterval": "5",
        },
        storage_options=options,
    )
    start = threading.Barrier(WORKERS)
    with ThreadPoolExecutor(WORKERS) as pool:
        futures = [
            pool.submit(work, spark, path, conf, worker, count, start) for worker in range(WORKERS)
        ]
        outcomes = sum((future.result() for future in futures), Counter())
    print(sorted(outcomes.items()))
    assert sum(n for (_, how), n in outcomes.items() if how == "done") == WORKERS * count
    table = bayou.table(path, options)
    seen: Counter = Counter()
    model = first
    for commit in sorted(table.history(), key=lambda c: c["version"])[1:]:
        if commit["operation"] not in ("OPTIMIZE", "VACUUM START", "VACUUM END"):
            step = json.loads(commit["userMetadata"])
            seen[step["token"]] += 1
            model = after(step, model)
        rows = table.to_arrow(["id", "p", "n"], version=commit["version"]).to_pylist()
        assert len(rows) == len(model), commit
        assert {row["id"]: (row["p"], row["n"]) for row in rows} == model, commit
    every = [step for worker in range(WORKERS) for step in steps(worker, count)]
    assert set(seen.values()) <= {1}
    must = {s["token"] for s in every if s["kind"] in ("append", "merge", "plan")}
    assert must <= set(seen)
