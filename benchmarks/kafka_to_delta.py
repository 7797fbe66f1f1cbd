"""Measures records per second from Kafka into a Delta table, compared with Spark + delta-spark.

usage: PYTHONPATH=tools kafka_to_delta.py [--records N] [--first N] [--batch-sizes N ...] [--runs N]
                                          [--upsert] [--plot FILE.svg]

A real broker runs on loopback. Each program, in its own process with two cores, ingests topics one
after another. The first topic has fewer records, and its time is the cold time, from the start of
the process. Then it ingests the second topic with each batch size. Bayou runs the code of
`bayou run --once`, which also validates each record with a JSON Schema, writes dead letters, and
stores offsets in the table. The peer, Spark's Kafka connector and delta-spark, runs in
`.venv-peers-kafka`, which `make bench` creates. With --upsert, both keep one row for each of about
100,000 keys, with one MERGE per batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import measure
import plots
from kafka_records import PARTITIONS, produce
from kafka_spark import KEY
from process_tree import run_watched
from rich.console import Console
from rich.table import Table as Grid

import bayou
from servers import KafkaServer

HERE = Path(__file__).resolve().parent
OURS, PEER = "bayou", "Spark + delta-spark"
PROGRAMS = {
    PEER: (
        str(HERE.parent / ".venv-peers-kafka" / "bin" / "python"),
        str(HERE / "kafka_to_delta_spark.py"),
    ),
    OURS: (sys.executable, str(HERE / "kafka_to_delta_bayou.py")),
}
BUDGET = 1.5
UPSERTED = "session_id"
RECORDS, FIRST, BATCH_SIZES = 1_000_000, 200_000, (10_000, 100_000, 1_000_000)
KINDS = ("all", "JVM", "driver", "workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Medians of the runs of a program.

    Attributes:
        cold: seconds for the first topic.
        warm: seconds for the second topic by batch size.
        peak: peak memory in bytes by kind of process, see `process_tree.Run`.
    """

    cold: float
    warm: dict[int, float]
    peak: dict[str, float]


def run(
    console: Console,
    runs: int,
    *,
    records: int = RECORDS,
    first: int = FIRST,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    upsert: bool = False,
    plot: Path | None = None,
) -> None:
    """Produce records, measure both programs, print tables and draw rates.

    The memory of a program is its maximum over all batch sizes.
    """
    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder) / "broker") as broker:
        topics = {"first": first, "second": records}
        for topic, count in topics.items():
            broker.create_topic(topic, PARTITIONS)
            size = produce(broker.bootstrap_servers, topic, count)
        measured = {
            name: _measure(name, broker.bootstrap_servers, batch_sizes, topics, runs, upsert=upsert)
            for name in PROGRAMS
        }
    way = ", upserted" if upsert else ""
    title = f"{records:,} records{way} of {size:.0f} bytes from Kafka, {PARTITIONS} partitions"
    console.print(_rates(title, measured, topics))
    console.print(_memory(measured))
    for size in batch_sizes:
        ours, peer = measured[OURS], measured[PEER]
        case = f"{records:,} records{way}, {size:,} a batch"
        measure.record(case, OURS, "speed", peer.warm[size] / ours.warm[size])
        measure.record(case, OURS, "memory", ours.peak["all"] / peer.peak["all"])
    if plot is not None:
        rates = {
            name: [records / measured[name].warm[size] for size in batch_sizes] for name in PROGRAMS
        }
        groups = [f"{size:,} a batch" for size in batch_sizes]
        plots.bars(plot, title, groups, rates, "records/s")


def _measure(
    name: str,
    servers: str,
    batch_sizes: Sequence[int],
    topics: dict[str, int],
    runs: int,
    *,
    upsert: bool,
) -> Outcome:
    outcomes = [_once(name, servers, batch_sizes, topics, upsert=upsert) for _ in range(runs)]
    return Outcome(
        cold=median(o.cold for o in outcomes),
        warm={size: median(o.warm[size] for o in outcomes) for size in batch_sizes},
        peak={kind: median(o.peak[kind] for o in outcomes) for kind in KINDS},
    )


def _once(
    name: str, servers: str, batch_sizes: Sequence[int], topics: dict[str, int], *, upsert: bool
) -> Outcome:
    python, script = PROGRAMS[name]
    (first, _), (second, _) = topics.items()
    batches = [(first, batch_sizes[0]), *((second, size) for size in batch_sizes)]
    with tempfile.TemporaryDirectory() as folder:
        command = [python, script, servers, folder, "0", *(f"{t}:{size}" for t, size in batches)]
        # Each program's workers run its own Python, whatever make has set.
        environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        done = run_watched(command, environment | ({KEY: UPSERTED} if upsert else {}))
        for topic, size in batches:
            count = topics[topic]
            table = bayou.table(f"{folder}/{topic}-{size}/table")
            column = table.to_arrow(columns=[UPSERTED if upsert else "event_id"]).column(0)
            rows, keys = len(column), len(column.unique())
            assert rows == (keys if upsert else count), f"{name} wrote {rows} rows, {keys} keys"
    cold, *warm = (json.loads(line) for line in done.lines[-len(batches) :])
    return Outcome(
        cold=cold["ended"] - done.began,
        warm={size: each["seconds"] for size, each in zip(batch_sizes, warm, strict=True)},
        peak=dict(done.peak),
    )


def _rates(title: str, measured: dict[str, Outcome], topics: dict[str, int]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    cold = f"cold, {topics['first']:,}"
    for heading in ("batch size", "seconds", "records/s", "ratio", "budget", cold, "ratio"):
        grid.add_column(heading, justify="right")
    peer = measured[PEER]
    for size in peer.warm:
        for name, one in measured.items():
            ours = name == OURS
            grid.add_row(
                name,
                f"{size:,}",
                f"{one.warm[size]:.1f}",
                f"{topics['second'] / one.warm[size]:,.0f}",
                f"{peer.warm[size] / one.warm[size]:.2f}x" if ours else "",
                f"{BUDGET}x" if ours else "",
                f"{one.cold:.1f} s",
                f"{peer.cold / one.cold:.2f}x" if ours else "",
            )
    return grid


def _memory(measured: dict[str, Outcome]) -> Grid:
    grid = Grid(title="Peak memory of the processes, MB (shared pages once)", title_justify="left")
    grid.add_column("")
    for heading in ("together", "beside", "JVM", "driver's Python", "workers"):
        grid.add_column(heading, justify="right")
    for name, one in measured.items():
        together, *kinds = (f"{one.peak[kind] / 1e6:,.0f}" for kind in KINDS)
        ratio = one.peak["all"] / measured[PEER].peak["all"]
        grid.add_row(name, together, f"{ratio:.2f}x" if name == OURS else "", *kinds)
    return grid


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES)
    parser.add_argument("--upsert", action="store_true")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    run(
        Console(width=measure.WIDTH),
        options.runs,
        records=options.records,
        first=options.first,
        batch_sizes=options.batch_sizes,
        upsert=options.upsert,
        plot=options.plot,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
