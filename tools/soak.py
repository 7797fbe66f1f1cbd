"""Soak test: runs a pipeline with maintenance under constant load, and checks that nothing grows.

    tools/soak.py [--minutes 30] [--rate 500]

Records are produced to one append topic and one upsert topic, with a real broker and S3 server.
Every few seconds the memory of the pipeline's processes, the waiting records and the tables' small
files are sampled. The test fails if memory grows, a limit is exceeded, or a table differs from the
produced records at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable

from servers import KafkaServer, S3Server
from support.keyed_records import KeyedRecords
from support.process_memory import memory_of, process_tree

_BUCKET = "soak"
_PARTITIONS = 4
_SMALL = 1 << 20
_MAX_SMALL_FILES = 400
"""For five partitions that are written constantly; each is compacted at fifty small files."""
_MAX_SECONDS_BEHIND = 30
_MAX_GROWTH = 1.2
_CONFIG = """
connector:
  topics:
    append:
      kafka-topic: soak.append
      destination:
        table-path: "s3a://soak/append"
        partition-columns: [kind]
        delta-config: {{{table_config}}}
      processing: {{batch-size: 5000, flush-interval: 2}}
    upsert:
      kafka-topic: soak.upsert
      destination:
        table-path: "s3a://soak/upsert"
        partition-columns: [event_type]
        key-columns: [user_id, session_id]
        delta-config: {{{table_config}, enable-upsert: true}}
      processing: {{batch-size: 5000, flush-interval: 2}}
  maintenance: {{schedule: 1m}}
  state-path: "{state}"
"""


_TABLE_CONFIG = (
    "enable-schema-evolution: true, enable-optimize: true, optimize-interval: 20000, "
    "enable-vacuum: true, checkpoint-interval: 20"
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Measurements at one time.

    Attributes:
        minute: minutes since the start.
        driver, all: memory in bytes of the process of `bayou run`, and of all its processes.
        waiting: number of produced records that aren't in the table, by topic.
        small_files: number of small files, by topic.
        commits: number of commits, by topic.
    """

    minute: float
    driver: int
    all: int
    waiting: dict[str, int]
    small_files: dict[str, int]
    commits: dict[str, int]


class Pipeline:
    """A process of `bayou run`, and the events that it reported."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bayou.cli", "run", str(folder / "soak.yaml"), "--json"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )
        self.records: Counter[str] = Counter()
        self.commits: Counter[str] = Counter()
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    @property
    def memory(self) -> tuple[int, int]:
        """Memory in bytes of the process of `bayou run`, and of it with all its descendants."""
        own = memory_of(self._process.pid)
        return own, sum(map(memory_of, process_tree(self._process.pid)))

    @property
    def ended(self) -> bool:
        """Whether the process has exited."""
        return self._process.poll() is not None

    def end(self) -> int:
        """Stop the pipeline after its current batches; return the exit code."""
        self._process.terminate()
        code = self._process.wait(120)
        self._thread.join()
        return code

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "batch_committed":
                counts = ("rows", "dead_letters", "deleted", "superseded")
                self.records[event["topic"]] += sum(event[name] for name in counts)
                self.commits[event["topic"]] += 1
            elif event.get("error") or event["event"] == "error":
                self.errors.append(line.strip())


class Load:
    """Produces records to both topics at a constant rate; `sent` counts the records per topic."""

    def __init__(self, kafka: KafkaServer, rate: int) -> None:
        self._rate = rate
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 20})
        self.keyed = KeyedRecords(
            kafka.bootstrap_servers, "soak.upsert", users=2000, partitions=_PARTITIONS
        )
        self.sent = 0

    def produce_until(self, until: float) -> None:
        """Produce records at the rate until the monotonic clock reaches `until`."""
        started, before = time.monotonic(), self.sent
        while (now := time.monotonic()) < until:
            due = before + round((now - started) * self._rate) - self.sent
            if due > 0:
                self._send(due)
            time.sleep(0.1)

    def _send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            value = {"id": number, "kind": f"k{number % 5}", "text": f"t{number}" * 5}
            self._producer.produce(
                "soak.append", json.dumps(value).encode(), partition=number % _PARTITIONS
            )
        self._producer.poll(0)
        self.keyed.send(count)
        self.sent += count

    def finish(self) -> None:
        """Wait until the broker has all records."""
        assert self._producer.flush(60) == 0


def main() -> int:
    """Run the soak test; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=500, help="records a second for each topic")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bayou-soak-") as name,
        KafkaServer(Path(name) / "kafka") as kafka,
        S3Server(Path(name) / "s3") as s3,
    ):
        problems = _soak(Path(name), kafka, s3, arguments)
    for problem in problems:
        print(f"failed: {problem}")
    print("failed" if problems else "passed")
    return 1 if problems else 0


def _soak(
    folder: Path, kafka: KafkaServer, s3: S3Server, arguments: argparse.Namespace
) -> list[str]:
    kafka.create_topics(["soak.append", "soak.upsert"], _PARTITIONS)
    s3.create_bucket(_BUCKET)
    (folder / "soak.yaml").write_text(
        _CONFIG.format(state=folder / "state", table_config=_TABLE_CONFIG)
    )
    environment = {**os.environ, **s3.storage_options}
    environment["KAFKA_BOOTSTRAP_SERVERS"] = kafka.bootstrap_servers
    pipeline, load = Pipeline(folder, environment), Load(kafka, arguments.rate)
    samples: list[Sample] = []
    started = time.monotonic()
    print(_HEADER, flush=True)
    every = max(5.0, arguments.minutes * 60 / 60)
    try:
        while (elapsed := time.monotonic() - started) < arguments.minutes * 60:
            load.produce_until(time.monotonic() + every)
            sample = _sample(pipeline, load, s3, elapsed)
            samples.append(sample)
            print(_line(sample), flush=True)
            if pipeline.ended:
                return [f"the pipeline ended: {pipeline.errors[-1:]}"]
        load.finish()
        deadline = time.monotonic() + 120
        while any(_waiting(pipeline, load).values()) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        code = pipeline.end()
    problems = [] if code == 0 else [f"the pipeline's exit code is {code}"]
    problems += [f"an error: {error}" for error in pipeline.errors[:3]]
    return problems + _exceeded_limits(samples, arguments.rate) + _differences(load, s3)


def _sample(pipeline: Pipeline, load: Load, s3: S3Server, elapsed: float) -> Sample:
    driver, everything = pipeline.memory
    return Sample(
        minute=elapsed / 60,
        driver=driver,
        all=everything,
        waiting=_waiting(pipeline, load),
        small_files={name: _small_files(s3, name) for name in ("append", "upsert")},
        commits=dict(pipeline.commits),
    )


def _waiting(pipeline: Pipeline, load: Load) -> dict[str, int]:
    return {name: load.sent - pipeline.records[name] for name in ("append", "upsert")}


def _table(s3: S3Server, name: str) -> DeltaTable:
    return DeltaTable(f"s3a://{_BUCKET}/{name}", storage_options=s3.storage_options)


def _small_files(s3: S3Server, name: str) -> int:
    if not DeltaTable.is_deltatable(f"s3a://{_BUCKET}/{name}", storage_options=s3.storage_options):
        return 0
    actions: Any = _table(s3, name).get_add_actions(flatten=True)
    return sum(size < _SMALL for size in actions.column("size_bytes").to_pylist())


def _exceeded_limits(samples: list[Sample], rate: int) -> list[str]:
    """Return a message for each limit that was exceeded after the first third, the warm-up."""
    warm = samples[len(samples) // 3 :]
    half = len(warm) // 2
    problems = []
    for name in ("driver", "all"):
        before = statistics.median(getattr(sample, name) for sample in warm[:half])
        after = statistics.median(getattr(sample, name) for sample in warm[half:])
        if after > _MAX_GROWTH * before:
            problems.append(
                f"memory ({name}) grew from {before / 2**20:.0f} to {after / 2**20:.0f} MB"
            )
    for name in ("append", "upsert"):
        waiting = statistics.median(sample.waiting[name] for sample in warm)
        if waiting > _MAX_SECONDS_BEHIND * rate:
            problems.append(f"{name}: a median of {waiting:.0f} records waited")
        files = max(sample.small_files[name] for sample in warm)
        if files > _MAX_SMALL_FILES:
            problems.append(f"{name}: {files} small files")
    return problems


def _differences(load: Load, s3: S3Server) -> list[str]:
    problems = []
    ids = _table(s3, "append").to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    if sorted(ids) != list(range(load.sent)):
        problems.append(
            f"append: {len(ids)} rows, {len(set(ids))} of them different, {load.sent} sent"
        )
    columns = ["user_id", "session_id", "event_type", "duration_ms"]
    try:
        load.keyed.check(_table(s3, "upsert").to_pyarrow_table(columns=columns).to_pylist())
    except AssertionError as error:
        problems.append(f"upsert: {error}")
    return problems


_HEADER = "minute  driver MB  all MB   waiting append/upsert  small files append/upsert  commits"


def _line(sample: Sample) -> str:
    waiting = "/".join(f"{n:,}" for n in sample.waiting.values())
    files = "/".join(str(n) for n in sample.small_files.values())
    commits = "/".join(str(n) for n in sample.commits.values())
    return (
        f"{sample.minute:6.1f}  {sample.driver / 2**20:9.0f}  {sample.all / 2**20:6.0f}  "
        f"{waiting:>22}  {files:>25}  {commits:>7}"
    )


if __name__ == "__main__":
    sys.exit(main())
