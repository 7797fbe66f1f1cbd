"""Measures records per second from Kafka into a Delta table, compared with Spark + delta-spark.

usage: PYTHONPATH=tools kafka_to_delta.py [--records N] [--first N] [--batch-sizes N ...] [--runs N]
                                          [--upsert] [--plot FILE.svg]

A real broker runs on loopback. Each program, in its own process with two cores, ingests topics one
after another. The first topic has fewer records, and its time is the cold time, from the start of
the process. Then it ingests a larger topic with each batch size. Bayou runs the code of
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
UPSERTED = "session_id"
RECORDS, FIRST, BATCH_SIZES = 1_000_000, 200_000, (10_000, 100_000, 1_000_000)
COLD = "first"
"""The topic of the cold time."""

KINDS = ("all", "JVM", "driver", "workers")


@dataclass(frozen=True, slots=True)
class Ingestion:
    """A topic, the number of its records, and the size of the batches to ingest it with."""

    topic: str
    records: int
    batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Medians of the runs of a program.

    Attributes:
        cold: seconds for the first topic.
        warm: seconds for each of the other ingestions.
        peak: peak memory in bytes by kind of process, see `process_tree.Run`.
    """

    cold: float
    warm: dict[Ingestion, float]
    peak: dict[str, float]


def run(
    console: Console,
    runs: int,
    *,
    cases: Sequence[tuple[int, int]],
    first: int = FIRST,
    upsert: bool = False,
    plot: Path | None = None,
) -> None:
    """Produce records, measure both programs, print tables and draw rates.

    The memory of a program is its maximum over all cases.

    Args:
        cases: batch sizes, each with the number of records to ingest.
        first: the number of records of the first topic.
    """
    way = ", upserted" if upsert else ""
    title = f"Records of about 300 bytes{way} from Kafka, {PARTITIONS} partitions"
    warm = [Ingestion(f"records-{count}", count, size) for size, count in cases]
    ingestions = [Ingestion(COLD, first, warm[0].batch_size), *warm]
    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder) / "broker") as broker:
        for topic, count in {each.topic: each.records for each in ingestions}.items():
            broker.create_topic(topic, PARTITIONS)
            produce(broker.bootstrap_servers, topic, count)
        measured = {
            name: _measure(name, broker.bootstrap_servers, ingestions, runs, upsert=upsert)
            for name in PROGRAMS
        }
    console.print(_rates(title, measured, ingestions))
    console.print(_memory(measured))
    ours, peer = measured[OURS], measured[PEER]
    for each in warm:
        case = f"{each.records:,} records{way}, {each.batch_size:,} a batch"
        measure.record(case, OURS, "speed", peer.warm[each] / ours.warm[each])
    measure.record(f"records{way}", OURS, "memory", ours.peak["all"] / peer.peak["all"])
    if plot is not None:
        rates = {
            name: [each.records / one.warm[each] for each in warm] for name, one in measured.items()
        }
        groups = [f"{each.batch_size:,} a batch" for each in warm]
        plots.bars(plot, title, groups, rates, "records/s")


def _measure(
    name: str, servers: str, ingestions: Sequence[Ingestion], runs: int, *, upsert: bool
) -> Outcome:
    outcomes = [_once(name, servers, ingestions, upsert=upsert) for _ in range(runs)]
    return Outcome(
        cold=median(o.cold for o in outcomes),
        warm={each: median(o.warm[each] for o in outcomes) for each in outcomes[0].warm},
        peak={kind: median(o.peak[kind] for o in outcomes) for kind in KINDS},
    )


def _once(name: str, servers: str, ingestions: Sequence[Ingestion], *, upsert: bool) -> Outcome:
    python, script = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder:
        batches = [f"{each.topic}:{each.batch_size}" for each in ingestions]
        command = [python, script, servers, folder, "0", *batches]
        # Each program's workers run its own Python, whatever make has set.
        environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        done = run_watched(command, environment | ({KEY: UPSERTED} if upsert else {}))
        for each in ingestions:
            table = bayou.table(f"{folder}/{each.topic}-{each.batch_size}/table")
            column = table.to_arrow(columns=[UPSERTED if upsert else "event_id"]).column(0)
            rows, keys = len(column), len(column.unique())
            expected = keys if upsert else each.records
            assert rows == expected, f"{name} wrote {rows} rows, {keys} keys"
    cold, *warm = (json.loads(line) for line in done.lines[-len(ingestions) :])
    return Outcome(
        cold=cold["ended"] - done.began,
        warm={each: answer["seconds"] for each, answer in zip(ingestions[1:], warm, strict=True)},
        peak=dict(done.peak),
    )


def _rates(title: str, measured: dict[str, Outcome], ingestions: Sequence[Ingestion]) -> Grid:
    first, *others = ingestions
    grid = Grid(title=title, title_justify="left")
    grid.add_column("")
    cold = f"cold, {first.records:,}"
    for heading in ("records", "batch size", "seconds", "a second", "ratio", cold, "ratio"):
        grid.add_column(heading, justify="right")
    peer = measured[PEER]
    for each in others:
        for name, one in measured.items():
            ours = name == OURS
            grid.add_row(
                name,
                f"{each.records:,}",
                f"{each.batch_size:,}",
                f"{one.warm[each]:.1f}",
                f"{each.records / one.warm[each]:,.0f}",
                f"{peer.warm[each] / one.warm[each]:.2f}x" if ours else "",
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
        cases=[(size, options.records) for size in options.batch_sizes],
        first=options.first,
        upsert=options.upsert,
        plot=options.plot,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
