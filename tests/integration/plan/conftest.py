"""The files of `examples/plan`, run by the command against a real broker and a real S3 server."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from servers import KafkaServer, S3Server
from support.process_memory import process_tree
from support.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plan"
BUCKET = "test-data-lake"
PARTITIONS = 4
_TOPICS = ("user.events.v1", "order.events.v1", "custom.topic.v1")

_EVENT_TYPES = ("click", "view", "purchase", "login", "logout")
_BAD: tuple[Callable[[dict], bytes], ...] = (
    lambda event: b"",
    lambda event: b"not json at all",
    lambda event: json.dumps(event).encode()[:-7],
    lambda event: json.dumps({k: v for k, v in event.items() if k != "user_id"}).encode(),
    lambda event: json.dumps({**event, "event_type": "dance"}).encode(),
    lambda event: json.dumps({**event, "duration_ms": "long"}).encode(),
    lambda event: json.dumps({**event, "timestamp": "yesterday"}).encode(),
    lambda event: json.dumps([event]).encode(),
    lambda event: json.dumps(event).encode("utf-16"),
    lambda event: b'{"user_id": "\xff\xfe", "event_type": "click", "timestamp": "2024-01-05"}',
)


@dataclass
class Ledger:
    """What was sent: for each (partition, offset) a user id, or the bytes of a bad record."""

    rows: dict[tuple[int, int], str] = field(default_factory=dict)
    bad: dict[tuple[int, int], bytes] = field(default_factory=dict)

    @property
    def ends(self) -> dict[int, int]:
        """For each partition the offset after the last."""
        known = [*self.rows, *self.bad]
        return {p: max(o for q, o in known if q == p) + 1 for p in {p for p, _ in known}}


@dataclass
class Run:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict]:
        """The lines of `--json`."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, event: str) -> list[dict]:
        """The events of one kind."""
        return [e for e in self.events if e["event"] == event]

    @property
    def complaints(self) -> str:
        """What it said that went wrong: its errors, and what came beside the events."""
        return "\n".join([*(json.dumps(e) for e in self.events if e.get("error")), self.err])


class RunningPlan:
    """`bayou run --json` while it goes on: its events are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._events: list[dict] = []
        self._read = 0
        self._err: list[str] = []
        self._news = threading.Condition()
        self._threads = [threading.Thread(target=t) for t in (self._follow, self._listen)]
        for thread in self._threads:
            thread.start()

    def next(self, kind: str, timeout: float = 300) -> dict:
        """Wait for the next event of a kind; those in between are passed over."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                while self._read < len(self._events):
                    self._read += 1
                    if self._events[self._read - 1]["event"] == kind:
                        return self._events[self._read - 1]
                ended = self.process.poll() is not None and not self._threads[0].is_alive()
                assert not ended, f"ended before {kind}: {self._events[-3:]}{self._err}"
                assert time.monotonic() < deadline, f"no {kind}: {self._events[-3:]}{self._err}"
                self._news.wait(0.2)

    def all_started(self) -> None:
        """Wait until each topic of the plan has started."""
        for _ in _TOPICS:
            self.next("topic_started")

    def told(self, kind: str) -> dict | None:
        """The first event of a kind so far."""
        with self._news:
            return next((e for e in self._events if e["event"] == kind), None)

    def count(self, kind: str) -> int:
        """Number of events of a kind so far."""
        with self._news:
            return sum(e["event"] == kind for e in self._events)

    def terminate(self) -> None:
        """Ask it to end."""
        self.process.terminate()

    def pause(self) -> None:
        """Let nothing of it run until `resume`: its JVM neither, nor what asks the broker."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it by SIGKILL: the command itself, as the kernel would."""
        self.process.kill()
        self.end()

    def kill_somewhere(self, rng: random.Random, commits: int) -> None:
        """Let it commit so many times, and end it in the midst of what follows."""
        self._go_on(rng, commits)
        self.kill()

    def lose_jvm(self, rng: random.Random, commits: int) -> None:
        """Spark's JVM dies somewhere, its start included; the run ends with one error of it."""
        self._go_on(rng, commits)
        for process in self._programs(_is_jvm):
            _kill(process)
        code = self.end()
        said = [e["message"] for e in self._events if e["event"] == "error"]
        assert (code, len(said)) in ((1, 1), (0, 0)), self._events[-3:]
        ways = ("Spark's JVM has ended (signal 9", "Spark doesn't start")
        assert all(any(way in message for way in ways) for message in said), said

    def lose_worker(self, rng: random.Random, commits: int) -> None:
        """One of Spark's Python processes dies, whichever; the run ends well by itself."""
        self._go_on(rng, commits)
        if processes := self._programs(_is_worker):  # else it has come to its end
            _kill(rng.choice(processes))
        assert self.end() == 0, [e for e in self._events if e.get("error") or e["event"] == "error"]

    def _go_on(self, rng: random.Random, commits: int) -> None:
        if commits == 0:
            self.next("topic_started")
            time.sleep(rng.uniform(0, 9))  # deliberate: a death at any moment before a commit
        for _ in range(commits):
            self.next("batch_committed")
        time.sleep(rng.uniform(0, 0.8))  # deliberate: a death at any moment after the commits

    def _programs(self, is_meant: Callable[[list[bytes]], bool]) -> list[int]:
        processes = process_tree(self.process.pid)
        return [pid for pid, line in processes.items() if is_meant(line.split(b"\0"))]

    def end(self, timeout: float = 300) -> int:
        """Wait for its end; its exit code."""
        try:
            code = self.process.wait(timeout)
        finally:
            if self.process.returncode is None:
                kill_group(self.process)
            for thread in self._threads:
                thread.join()
        return code

    def _follow(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._news:
                    self._events.append(json.loads(line))
                    self._news.notify_all()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self._err.extend(lines)


class Plan:
    """A state path, a broker with the topics of the files, an S3 server with their bucket."""

    def __init__(self, kafka: KafkaServer, s3: S3Server, folder: Path) -> None:
        self.kafka = kafka
        self.s3 = s3
        self.state = folder / "state"
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        self._ledgers: dict[str, Ledger] = {}
        self._random = random.Random(5)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "KAFKA_"))},
            **s3.storage_options,
            "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "BAYOU_STATE_PATH": str(self.state),
        }

    def produce_user_events(
        self, count: int, *, bad_every: int = 37, partitions: int = PARTITIONS
    ) -> Ledger:
        """Send events to user.events.v1, bad ones among them; all of them so far."""
        ledger = self._ledgers.setdefault("user.events.v1", Ledger())
        ends = ledger.ends if ledger.rows else {}
        producer = self._producer()
        for number in range(count):
            partition = number % partitions
            at = (partition, ends.get(partition, 0))
            ends[partition] = at[1] + 1
            event = self._user_event(f"u-{at[0]}-{at[1]}")
            value = json.dumps(event).encode()
            headers = None
            if number % bad_every == bad_every - 1:
                value = _BAD[(number // bad_every) % len(_BAD)](event)
                headers = [("trace", b"%d" % number)]
                ledger.bad[at] = value
            else:
                ledger.rows[at] = event["user_id"]
            _send(producer, "user.events.v1", partition, value, event["user_id"], headers)
        assert producer.flush(60) == 0
        return ledger

    def send(self, topic: str, values: Sequence[bytes | None]) -> None:
        """Send records as they are."""
        producer = self._producer()
        for number, value in enumerate(values):
            _send(producer, topic, number % PARTITIONS, value, "k", None)
        assert producer.flush(60) == 0

    def start(self, *arguments: str, config: str = "append.yaml") -> RunningPlan:
        """Start `bayou run`, with --json."""
        running = RunningPlan(self._popen(*arguments, config=config))
        self._running.append(running.process)
        return running

    def produce_until_one_ends(self, produce: Callable[[], object], *copies: RunningPlan) -> dict:
        """Produce again after each commit of a copy, until one reports the end of a topic."""

        def ended() -> dict | None:
            return next((e for copy in copies if (e := copy.told("topic_finished"))), None)

        def commits() -> int:
            return sum(copy.count("batch_committed") for copy in copies)

        while (event := ended()) is None:
            before = commits()
            produce()
            wait_until(
                lambda n=before: ended() or commits() > n, timeout=300, what="a commit or an end"
            )
        return event

    def end_all(self) -> None:
        """End what a failed test left running."""
        for process in self._running:
            kill_group(process)

    def _popen(self, *arguments: str, config: str) -> subprocess.Popen[str]:
        self._folder.mkdir(exist_ok=True)
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bayou.cli",
                "run",
                str(EXAMPLES / config),
                "--json",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self._folder,
            start_new_session=True,
        )

    def run(self, *arguments: str, config: str = "append.yaml", timeout: float = 800) -> Run:
        """Run `bayou run --once --json` to its end."""
        process = self._popen("--once", *arguments, config=config)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            kill_group(process)
        return Run(code=process.returncode, out=out, err=err)

    def verify(
        self, topic: str, *, config: str = "append.yaml", settings: Sequence[str] = ()
    ) -> Run:
        """Have the command prove that each record is there once."""
        command = [sys.executable, "-m", "bayou.cli", "verify", topic, "--json", "--config"]
        done = subprocess.run(
            [*command, str(EXAMPLES / config), *settings],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout, "")

    def table(self, name: str) -> DeltaTable:
        """A table as another reader opens it."""
        return DeltaTable(f"s3a://{BUCKET}/tables/{name}", storage_options=self.s3.storage_options)

    def disk(self, name: str) -> Path:
        """A table's folder on the disk of the S3 server."""
        return self.s3.objects / BUCKET / "tables" / name

    def check_user_events(self, ledger: Ledger) -> None:
        """Every record is a row or a dead letter, once; the table says how far it is."""
        table = self.table("user_events")
        columns = ["_kafka_partition", "_kafka_offset", "user_id"]
        rows = table.to_pyarrow_table(columns=columns)
        found = list(zip(*(rows.column(c).to_pylist() for c in columns), strict=True))
        assert Counter((p, o) for p, o, _ in found) == Counter(list(ledger.rows))
        assert {(p, o): user for p, o, user in found} == ledger.rows
        letters = self.table("user_events_dead_letters").to_pyarrow_table().to_pylist()
        at = [(letter["partition"], letter["offset"]) for letter in letters]
        assert Counter(at) == Counter(list(ledger.bad))
        assert {a: letter["value"] for a, letter in zip(at, letters, strict=True)} == ledger.bad
        assert all(letter["reason"] for letter in letters)
        self.check_offsets(table, ledger)

    def check_offsets(self, table: DeltaTable, ledger: Ledger) -> None:
        """One `txn` for each partition, at its last offset, and one at its start.

        Partitions that were added later have no start: they are read from offset 0.
        """
        actions = _transactions(self.s3, table)
        starts = {app.removesuffix("/start") for app in actions if app.endswith("/start")}
        offsets = {app: version for app, version in actions.items() if not app.endswith("/start")}
        ends = {int(app.rsplit("/", 1)[1]): version + 1 for app, version in offsets.items()}
        assert ends == ledger.ends
        assert {int(app.rsplit("/", 1)[1]) for app in starts} == set(range(PARTITIONS))

    def _user_event(self, user: str) -> dict:
        rng = self._random
        at = dt.datetime(2024, 1, 5, tzinfo=dt.UTC) + dt.timedelta(seconds=rng.randrange(86400))
        return {
            "user_id": user,
            "session_id": f"s-{rng.randrange(1000)}" if rng.random() < 0.9 else None,
            "event_type": rng.choice(_EVENT_TYPES),
            "timestamp": at.isoformat().replace("+00:00", "Z"),
            "page": f"/p/{rng.randrange(50)}",
            "duration_ms": rng.randrange(100_000),
            "amount": round(rng.random() * 100, 2),
            "device": {"os": "linux", "browser": "none", "mobile": rng.random() < 0.5},
            "tags": ["a", "b"][: rng.randrange(3)],
            "properties": {"k": rng.randrange(10)},
        }

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "topic.metadata.refresh.interval.ms": 1000,  # new partitions show late
                "queue.buffering.max.messages": 1_000_000,
                "message.max.bytes": 20 << 20,
            }
        )


def kill_group(process: subprocess.Popen[str]) -> None:
    """End a run with everything that it started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_jvm(command: list[bytes]) -> bool:
    """Spark itself, not the scripts and the launcher that start it."""
    submits = b"org.apache.spark.deploy.SparkSubmit" in command
    is_launcher = b"org.apache.spark.launcher.Main" in command
    return command[0].endswith(b"java") and submits and not is_launcher


def _is_worker(command: list[bytes]) -> bool:
    """Runs tasks or plans reads, or forks such."""
    return command[1:2] == [b"-m"] and command[2].endswith(b"daemon")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, signal.SIGKILL)


def _send(producer, topic, partition, value, key, headers) -> None:
    producer.produce(topic, value, key=key, partition=partition, headers=headers)
    producer.poll(0)


def _transactions(s3: S3Server, table: DeltaTable) -> dict[str, int]:
    """The latest version of every application id, from the log as it lies on the server's disk."""
    log = s3.objects / table.table_uri.partition("://")[2].rstrip("/") / "_delta_log"
    found: dict[str, int] = {}
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_text().splitlines():
            if transaction := json.loads(line).get("txn"):
                found[transaction["appId"]] = transaction["version"]
    return found


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker for each worker process: tests here stop it, and all use the topics of the files."""
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def plan(kafka_server: KafkaServer, tmp_path: Path) -> Iterator[Plan]:
    for topic in _TOPICS:
        kafka_server.create_topic(topic, PARTITIONS)
    with S3Server(tmp_path / "s3") as s3:
        s3.create_bucket(BUCKET)
        running = Plan(kafka_server, s3, tmp_path / "run")
        yield running
        running.end_all()
    for topic in _TOPICS:
        kafka_server.delete_topic(topic)
