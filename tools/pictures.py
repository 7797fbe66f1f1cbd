"""Takes the pictures of the status page for the documentation, from a pipeline that really runs.

usage: pictures.py NODE_MODULES [FOLDER]

The pipeline reads four topics of an embedded broker for two minutes: one is fine, one has dead
letters, one misses its objective, and one has failed because its table has another layout.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa

import bayou
from bayou.spark.kafka import EmbeddedBroker
from bayou.spark.kafka.embedded_broker import ProducedRecord

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "operations" / "pictures"
VIEWS = ("light", "dark", "phone-light")
RUN_SECONDS = 120
TOPICS = {"user.events": 2, "order.events": 2, "clicks": 4, "invoices": 1}

CONFIGURATION = """\
connector:
  kafka: {{bootstrap-servers: "{servers}"}}
  spark: {{master: "local[2]"}}
  monitoring: {{port: {port}, interval-seconds: 5}}
  topics:
    user-events:
      kafka-topic: user.events
      slo: {{freshness-seconds: 60}}
      processing: {{flush-interval: 5}}
      destination:
        table-path: lake/user_events
        delta-config: {{enable-schema-evolution: true}}
    order-events:
      kafka-topic: order.events
      schema-file: order.json
      slo: {{freshness-seconds: 60}}
      processing: {{flush-interval: 5}}
      destination: {{table-path: lake/order_events}}
    clicks:
      kafka-topic: clicks
      slo: {{freshness-seconds: 5}}
      processing: {{flush-interval: 30}}
      destination: {{table-path: lake/clicks}}
    invoices:
      kafka-topic: invoices
      destination: {{table-path: lake/invoices}}
"""
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "amount": {"type": "number"}},
    "required": ["id", "amount"],
}


def main() -> int:
    """Run the pipeline, take the pictures, and return the exit code."""
    modules = Path(sys.argv[1]).resolve()
    target = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else PICTURES
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker(TOPICS) as broker:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "order.json").write_text(json.dumps(SCHEMA))
        rows = pa.table({"id": [1], "country": ["fr"]})
        bayou.write(folder / "lake" / "invoices", rows, partition_by=["country"])
        (folder / "pipeline.yaml").write_text(
            CONFIGURATION.format(servers=broker.bootstrap_servers, port=port)
        )
        stop = threading.Event()
        producer = threading.Thread(target=_produce, args=(broker, stop))
        producer.start()
        with (folder / "log").open("wb") as log:
            pipeline = subprocess.Popen(
                [sys.executable, "-m", "bayou.cli", "run", "pipeline.yaml"],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            url = f"http://127.0.0.1:{port}/"
            _wait_for_commits(port, pipeline, folder / "log")
            time.sleep(RUN_SECONDS)
            _take(url, modules, folder, target)
        finally:
            stop.set()
            producer.join()
            pipeline.terminate()
            pipeline.wait(60)
    return 0


def _produce(broker: EmbeddedBroker, stop: threading.Event) -> None:
    """Produce records in waves, until `stop` is set."""
    number = 0
    while not stop.wait(0.5):
        number += 1
        wave = 1 + math.sin(number / 12)
        for topic, rate in (("user.events", 60), ("order.events", 25), ("clicks", 90)):
            values = [_value(topic, number, n) for n in range(round(rate * wave) + 5)]
            broker.produce(
                topic,
                [
                    ProducedRecord(value, partition=n % TOPICS[topic])
                    for n, value in enumerate(values)
                ],
            )
        broker.produce("invoices", [ProducedRecord(b'{"id": 1, "country": "fr"}', partition=0)])


def _value(topic: str, number: int, n: int) -> bytes:
    if topic == "order.events" and n % 40 == 7:
        return b'{"id": "A-7", "amount": 3}' if n % 80 == 7 else b"{broken"
    record = {"id": number * 1_000 + n, "amount": n / 4, "name": f"n{n}"}
    if topic == "order.events":
        del record["name"]
    elif topic == "user.events" and number > 120:
        record["device"] = "phone"
    return json.dumps(record).encode()


def _wait_for_commits(port: int, pipeline: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if pipeline.poll() is not None:
            raise SystemExit(f"the pipeline ended with {pipeline.returncode}:\n{log.read_text()}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/status.json")
            commits = json.load(connection.getresponse())["commits"]
            if len({commit["topic"] for commit in commits}) == 3:
                return
        except OSError:
            pass
        time.sleep(1)
    raise SystemExit(f"no commits after 3 minutes:\n{log.read_text()}")


def _take(url: str, modules: Path, folder: Path, target: Path) -> None:
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    look = ROOT / "tests" / "ui" / "look.mjs"
    subprocess.run(
        ["node", str(look), url, chromium, str(folder), "status"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "NODE_PATH": str(modules)},
    )
    target.mkdir(parents=True, exist_ok=True)
    for view in VIEWS:
        picture = folder / f"status-{view}.png"
        (target / picture.name).write_bytes(picture.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
