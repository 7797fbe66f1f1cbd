"""Measures the age of records at their commit, at a constant rate, compared with delta-spark.

usage: PYTHONPATH=tools steady_latency.py [--rate 5000] [--seconds 60] [--warm 60] [--plot FILE.svg]

A real broker runs on loopback. Bayou reads the topic with a flush interval of 0.3 seconds, the
peer with Spark's default trigger. A record's age is the time from its call of `produce` until the
program reports the commit with its offset. Records of the first `--warm` seconds aren't counted,
because broker and program start and catch up during this time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import numpy as np
import plots
from confluent_kafka import Producer
from kafka_records import PARTITIONS, values
from kafka_to_delta import OURS, PEER, PROGRAMS
from kafka_to_delta_bayou import write_configuration
from rich.console import Console
from rich.table import Table as Grid

from servers import KafkaServer

QUANTILES = (50, 90, 99, 100)
CATCH_UP = 120
"""Maximum number of seconds to wait for commits after the last record is sent."""


def run(console: Console, rate: int, seconds: int, warm: int, plot: Path | None = None) -> None:
    """Measure both programs, and print a table; `plot` is an SVG file of the age distributions."""
    measured: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as name, KafkaServer(Path(name) / "broker") as broker:
        for number, (program, command) in enumerate({OURS: _ours, PEER: _peer}.items()):
            topic, folder = f"steady{number}", Path(name) / str(number)
            folder.mkdir()
            broker.create_topic(topic, PARTITIONS)
            arguments = command(broker.bootstrap_servers, topic, folder)
            measured[program] = _ages(
                broker.bootstrap_servers, topic, arguments, rate=rate, seconds=seconds, warm=warm
            )
    grid = Grid(title=f"Age of records in the table, s, at {rate:,} a second", title_justify="left")
    grid.add_column("")
    for heading in (*(f"p{q}" if q < 100 else "oldest" for q in QUANTILES), "peer / bayou, p99"):
        grid.add_column(heading, justify="right")
    found = {program: np.percentile(ages, QUANTILES) for program, ages in measured.items()}
    for program, quantiles in found.items():
        for quantile, age in zip(QUANTILES, quantiles, strict=True):
            measure.record(f"age of records, p{quantile}", program, "seconds", float(age))
        ratio = f"{found[PEER][2] / quantiles[2]:.2f}x" if program == OURS else ""
        grid.add_row(program, *(f"{q:.2f}" for q in quantiles), ratio)
    console.print(grid)
    if plot is not None:
        title = f"Records in the table by age in seconds, {rate:,} records a second"
        plots.shares(plot, title, measured, "seconds")


def _ours(servers: str, topic: str, folder: Path) -> list[str]:
    file = write_configuration(servers, topic, folder, 100_000)
    flush = "connector.topics.events.processing.flush-interval=0.3"
    return [sys.executable, "-m", "bayou.cli", "run", str(file), "--json", "--set", flush]


def _peer(servers: str, topic: str, folder: Path) -> list[str]:
    python, script = PROGRAMS[PEER]
    steady = str(Path(script).with_name("steady_latency_spark.py"))
    return [python, steady, servers, topic, str(folder)]


def _ages(
    servers: str, topic: str, command: list[str], *, rate: int, seconds: int, warm: int
) -> np.ndarray:
    """Return the age in seconds of all records of the last `seconds`."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    commits: list[tuple[float, dict[int, int]]] = []
    thread = threading.Thread(target=_follow, args=(process, commits.append))
    thread.start()
    sent = _produce(servers, topic, rate, seconds + warm)
    deadline = time.monotonic() + CATCH_UP
    while _reached(commits) < len(sent) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:  # all records are committed; how it stops isn't measured
        process.kill()
    thread.join()
    ages = []
    position = dict.fromkeys(range(PARTITIONS), 0)
    for moment, ends in commits:
        for partition, end in ends.items():
            mine = sent[partition::PARTITIONS][position[partition] : end]
            position[partition] = max(position[partition], end)
            ages.append(moment - mine[mine >= sent[0] + warm])
    assert sum(position.values()) == len(sent), f"{sum(position.values())} of {len(sent)} came"
    return np.concatenate(ages)


def _reached(commits: Sequence[tuple[float, dict[int, int]]]) -> int:
    """Return how many records are committed, from the last end offset of each partition."""
    ends: dict[int, int] = {}
    for _, spans in list(commits):
        ends.update(spans)
    return sum(ends.values())


def _follow(
    process: subprocess.Popen[str], tell: Callable[[tuple[float, dict[int, int]]], None]
) -> None:
    """Read a program's output, a line of JSON per batch, and report each commit.

    Args:
        process: the program.
        tell: called with the time of the report and the end offset of each partition.
    """
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if event.get("event", "batch_committed") == "batch_committed":
            spans = {int(p): span["end"] for p, span in event["spans"].items()}
            tell((time.time(), spans))


def _produce(servers: str, topic: str, rate: int, seconds: int) -> np.ndarray:
    """Produce records at a constant rate; return the time of each record's call of `produce`.

    The partition of record n is n modulo the number of partitions.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "compression.type": "lz4"})
    records = list(values(rate))
    sent = np.zeros(rate * seconds)
    began, number = time.time(), 0
    while number < len(sent):
        due = min(len(sent), int((time.time() - began) * rate))
        for number in range(number, due):  # noqa: B020  # goes on where it was
            sent[number] = time.time()
            producer.produce(topic, records[number % rate], partition=number % PARTITIONS)
        number = due
        producer.poll(0)
        time.sleep(0.005)
    assert producer.flush(60) == 0
    return sent


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--warm", type=int, default=60)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(console, options.rate, options.seconds, options.warm, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
