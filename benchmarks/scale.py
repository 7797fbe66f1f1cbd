"""Measures how costs grow with cores, files, topics and writers.

usage: PYTHONPATH=tools scale.py [cores] [files] [topics] [writers] [--files N ...] [--topics N ...]

- `cores`: batches of one topic with one and with two executor cores. The time of a batch is split
  into a serial part and a part that the cores share; times for more cores are computed from both.
- `files`: a cold process lists the live files of a table, or plans a filter. Memory and time of
  tables that are larger than the measured ones are computed from the two largest.
- `topics`: `bayou run --once` with many topics of few records: time, and memory of all processes.
- `writers`: processes that append rows to one table in an S3 server, as fast as they can.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import million_files
from kafka_records import JSON_SCHEMA, PARTITIONS, produce
from process_tree import Run, run_watched
from rich.console import Console
from rich.table import Table as Grid

HERE = Path(__file__).resolve().parent
CORES, RECORDS = (1, 2), 1_500_000
MODELED_CORES = (4, 8)
BATCH_SIZES = (20_000, 100_000, 500_000)
FILES = (10_000, 100_000, 1_000_000, 10_000_000)
MODELED_FILES = (100_000_000, 1_000_000_000)
WORKS = ("bayou, all files", "bayou, point filter")
TOPICS, RECORDS_PER_TOPIC = (1, 10, 100, 1_000), 100
WRITERS, SECONDS = (1, 2, 4, 8, 16), 10.0
_CONFIGURATION = """\
connector:
  kafka: {{bootstrap-servers: "{servers}"}}
  state-path: "{folder}/state"
  spark: {{master: "local[{cores}]"}}
  topics:
"""
_TOPIC = """\
    {topic}:
      kafka-topic: {topic}
      schema-file: schema.json
      destination: {{table-path: "{folder}/{topic}"}}
      processing: {{batch-size: {batch_size}}}
"""


def run(
    console: Console,
    parts: Sequence[str] = (),
    files: Sequence[int] = FILES,
    topics: Sequence[int] = TOPICS,
    writers: Sequence[int] = WRITERS,
) -> None:
    """Run the parts, or all of them, and print a table for each."""
    programs: dict[str, Callable[[], Grid]] = {
        "cores": _cores,
        "files": lambda: _files(files),
        "topics": lambda: _topics(topics),
        "writers": lambda: _writers(writers),
    }
    for name in parts or programs:
        console.print(programs[name]())


def _cores() -> Grid:
    from servers import KafkaServer

    grid = _grid(
        f"{RECORDS:,} records of 300 bytes, {PARTITIONS} Kafka partitions, seconds a batch",
        (
            "records a batch",
            *(f"{n} cores" for n in CORES),
            "serial",
            "shared",
            *(f"{n} cores, computed" for n in MODELED_CORES),
            "records/s at 8",
        ),
    )
    with tempfile.TemporaryDirectory() as name, KafkaServer(Path(name) / "broker") as broker:
        broker.create_topic("events", PARTITIONS)
        produce(broker.bootstrap_servers, "events", RECORDS)
        for batch_size in BATCH_SIZES:
            one, two = (_batch_seconds(broker, cores, batch_size) for cores in CORES)
            # one = serial + shared, two = serial + shared / 2
            shared = max(0.0, 2 * (one - two))
            serial = max(0.0, one - shared)
            modeled = [serial + shared / cores for cores in MODELED_CORES]
            grid.add_row(
                f"{batch_size:,}",
                *(f"{seconds:.3f}" for seconds in (one, two, serial, shared, *modeled)),
                f"{batch_size / modeled[-1]:,.0f}",
            )
    return grid


def _batch_seconds(broker: object, cores: int, batch_size: int) -> float:
    """Return the mean seconds of the batches of a process, without its first batch."""
    with tempfile.TemporaryDirectory() as folder:
        done = _run_topics(broker, ["events"], folder, cores, batch_size)
    times = [
        event["seconds"]
        for event in map(json.loads, done.lines)
        if event["event"] == "batch_committed"
    ]
    return sum(times[1:]) / len(times[1:])


def _run_topics(
    broker: object, topics: Sequence[str], folder: str, cores: int, batch_size: int
) -> Run:
    """Run `bayou run --once --json` on topics; `broker` is a `KafkaServer`."""
    servers = broker.bootstrap_servers  # type: ignore[attr-defined]
    text = _CONFIGURATION.format(servers=servers, folder=folder, cores=cores)
    for topic in topics:
        text += _TOPIC.format(topic=topic, folder=folder, batch_size=batch_size)
    file = Path(folder) / "scale.yaml"
    file.write_text(text)
    (Path(folder) / "schema.json").write_text(JSON_SCHEMA)
    command = [sys.executable, "-m", "bayou.cli", "run", str(file), "--once", "--json"]
    return run_watched(command)


def _files(sizes: Sequence[int]) -> Grid:
    headings = [f"{work.removeprefix('bayou, ')}: {unit}" for work in WORKS for unit in ("s", "MB")]
    grid = _grid("Plan a table in a new process", ("files", "", *headings))
    measured = {}
    for size in sizes:
        table = million_files.table_with(size, "sidecars")
        program = str(HERE / "plan_million_files.py")
        measured[size] = [
            measure.repeat([program, "--measure", work, str(table)], 1) for work in WORKS
        ]
        cells = [(one.seconds, one.peak_bytes / 1e6) for one in measured[size]]
        grid.add_row(f"{size:,}", "measured", *(f"{v:,.2f}" for cell in cells for v in cell))
    *_, before, last = sorted(measured)
    for size in MODELED_FILES:
        cells = []
        for a, b in zip(measured[before], measured[last], strict=True):
            slope = max(0.0, (b.seconds - a.seconds) / (last - before))
            growth = max(0.0, (b.peak_bytes - a.peak_bytes) / (last - before))
            more = size - last
            cells.append((b.seconds + slope * more, (b.peak_bytes + growth * more) / 1e6))
        grid.add_row(f"{size:,}", "computed", *(f"{v:,.2f}" for cell in cells for v in cell))
    return grid


def _topics(counts: Sequence[int]) -> Grid:
    from servers import KafkaServer

    grid = _grid(
        f"Topics with {RECORDS_PER_TOPIC} records each, one process",
        ("topics", "all committed, s", "ms a topic", "peak MB", "driver", "JVM", "workers"),
    )
    with tempfile.TemporaryDirectory() as name, KafkaServer(Path(name) / "broker") as broker:
        names = [f"scale-{number}" for number in range(max(counts))]
        broker.create_topics(names, PARTITIONS)
        for topic in names:
            produce(broker.bootstrap_servers, topic, RECORDS_PER_TOPIC)
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                done = _run_topics(broker, names[:count], folder, 2, 10_000)
            committed = [line for line in done.lines if '"batch_committed"' in line]
            assert len(committed) == count, f"{len(committed)} of {count} topics have a commit"
            peak = [done.peak[kind] / 1e6 for kind in ("all", "driver", "JVM", "workers")]
            measure.record(f"{count:,} topics", "bayou", "peak GB", peak[0] / 1e3)
            grid.add_row(
                f"{count:,}",
                f"{done.seconds:.1f}",
                f"{done.seconds * 1e3 / count:,.0f}",
                *(f"{value:,.0f}" for value in peak),
            )
    return grid


def _writers(counts: Sequence[int]) -> Grid:
    import bayou
    from servers import S3Server

    grid = _grid(
        f"Writers that append rows to one table in an S3 server, {SECONDS:.0f} seconds",
        ("writers", "commits/s", "p50 ms", "p99 ms", "rows"),
    )
    for count in counts:
        with tempfile.TemporaryDirectory() as name, S3Server(Path(name) / "s3") as s3:
            s3.create_bucket("scale")
            url = "s3://scale/table"
            bayou.write(url, _row(0), storage_options=s3.storage_options)
            options = json.dumps(dict(s3.storage_options))
            command = [sys.executable, str(HERE / "scale.py"), "--append", url, options]
            processes = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                for _ in range(count)
            ]
            for process in processes:  # each says that it is ready
                assert process.stdout is not None
                process.stdout.readline()
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(b"\n")
                process.stdin.flush()
            outputs = [process.communicate()[0] for process in processes]
            assert all(process.returncode == 0 for process in processes)
            times = sorted(t for output in outputs for t in json.loads(output))
            rows = bayou.table(url, storage_options=s3.storage_options).to_arrow().num_rows
            assert rows == len(times) + 1, f"{rows} rows of {len(times)} commits"
        grid.add_row(
            str(count),
            f"{len(times) / SECONDS:.1f}",
            f"{times[len(times) // 2] * 1e3:.0f}",
            f"{times[len(times) * 99 // 100] * 1e3:.0f}",
            f"{rows:,}",
        )
    return grid


def _row(number: int) -> object:
    import pyarrow as pa

    return pa.table({"id": [number], "name": ["a row"]})


def _append(url: str, options: dict[str, str]) -> None:
    """Append rows until the time is over; print the seconds of each commit."""
    import bayou

    bayou.table(url, storage_options=options).version()
    print("ready", flush=True)
    sys.stdin.readline()
    times = []
    end = time.monotonic() + SECONDS
    while (started := time.monotonic()) < end:
        bayou.write(url, _row(len(times)), storage_options=options, mode="append")
        times.append(time.monotonic() - started)
    print(json.dumps(times), flush=True)


def _grid(title: str, headings: Sequence[str]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    for heading in headings:
        grid.add_column(heading, justify="right")
    return grid


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="*", help="cores, files, topics, writers; none: all of them")
    parser.add_argument("--files", type=int, nargs="+", default=FILES)
    parser.add_argument("--topics", type=int, nargs="+", default=TOPICS)
    parser.add_argument("--append", nargs=2, metavar=("URL", "OPTIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.append:
        url, storage_options = options.append
        _append(url, json.loads(storage_options))
    else:
        run(Console(width=measure.WIDTH), options.part, options.files, options.topics)


if __name__ == "__main__":
    main(sys.argv[1:])
