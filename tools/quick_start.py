"""Runs the blocks of docs/guide/quickstart.md with an installed package, outside of the clone.

usage: quick_start.py PYTHON FOLDER

The commands of the page run against Bayou's embedded broker.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "quickstart.md"

_BLOCK = re.compile(
    r"^(<!-- not run: .*? -->\n)?```(python|sh|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL
)
_BROKER = """
import json, sys
from bayou.spark.kafka import EmbeddedBroker
from confluent_kafka import Producer
with EmbeddedBroker({"user.events.v1": 2}) as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        event = {"id": number, "user_id": f"u{number % 7}", "event_time": "2026-01-05T10:00:00Z"}
        producer.produce("user.events.v1", json.dumps(event).encode())
    producer.flush()
    print(broker.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


class BlockError(Exception):
    """A block of the page failed. The message contains the block and its output."""


def run(python: Path, folder: Path) -> int:
    """Run all blocks in order in a folder; return their number."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python),
    }
    page = PAGE.read_text()
    blocks = [(language, text) for reason, language, text in _BLOCK.findall(page) if not reason]
    with broker(python, folder) as address:
        environment["KAFKA_BOOTSTRAP_SERVERS"] = address
        for language, block in blocks:
            if language == "yaml":
                (folder / "pipeline.yaml").write_text(block)
                continue
            shell = ["bash", "-euo", "pipefail"] if language == "sh" else [str(python)]
            _run([*shell, "-c", block], folder, environment)
    return len(blocks)


@contextlib.contextmanager
def broker(python: Path, folder: Path) -> Iterator[str]:
    """Run the embedded broker with 100 records in `user.events.v1`; yield its address."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        [python, "-c", _BROKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate("")


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-3000:]
        raise BlockError(f"a block of {PAGE.name} failed.\n{command[-1]}\nIts output:\n{output}")


if __name__ == "__main__":
    print(f"{run(Path(sys.argv[1]), Path(sys.argv[2]))} blocks ran")
