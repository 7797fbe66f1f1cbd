"""Runs the pages for a first hour with an installed package, outside of the clone.

usage: quick_start.py PYTHON FOLDER

Their blocks run as they stand: consecutive Python blocks as one program, commands in a shell. The
topic of the quick start is one of Bayou's embedded broker.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = (
    "get-started/installation.md",
    "get-started/sample-tables.md",
    "guide/quickstart.md",
    "guide/sql-without-spark.md",
    "guide/from-deltalake.md",
    "guide/delta-table.md",
)
"""Pages whose blocks need no table or topic except that of the quick start."""

EXTRAS = "demo,polars"
"""The extras that the pages need."""

_BLOCK = re.compile(
    r"^(<!-- not run: .*? -->\n)?```(python|sh|bash|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL
)
_BROKER = """
import json, sys
from bayou.spark.kafka import EmbeddedBroker
event = {"user_id": "u1", "event_type": "click", "event_time": "2026-01-05T10:00:00Z"}
with EmbeddedBroker({"user.events.v1": 1}) as broker:
    records = [json.dumps({"id": i, **event}).encode() for i in range(100)]
    broker.produce("user.events.v1", records)
    print(broker.bootstrap_servers, flush=True)
    sys.stdin.read()
"""
"""The program `broker.py` of the quick start."""


class BlockError(Exception):
    """A block of a page failed. The message contains the page, the block and its output."""


def run(python: Path, folder: Path) -> int:
    """Run the blocks of all pages, each in a folder of its own; return their number."""
    with broker(python, folder) as address:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "KAFKA_BOOTSTRAP_SERVERS": address,
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(python),
        }
        return sum(_run_page(page, python, folder / Path(page).stem, environment) for page in PAGES)


def _run_page(page: str, python: Path, folder: Path, environment: dict[str, str]) -> int:
    folder.mkdir()
    found = _BLOCK.findall((DOCS / page).read_text())
    blocks = [(language, text) for reason, language, text in found if not reason]
    for language, group in itertools.groupby(blocks, key=lambda block: block[0]):
        texts = [text for _, text in group]
        if language == "yaml":
            (folder / "pipeline.yaml").write_text(texts[-1])
            continue
        shell = [str(python)] if language == "python" else ["bash", "-euo", "pipefail"]
        _run([*shell, "-c", "\n".join(texts)], page, folder, environment)
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


def _run(command: list[str], page: str, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = (done.stdout + done.stderr)[-3000:]
        raise BlockError(f"a block of {page} failed.\n{command[-1]}\nIts output:\n{output}")


if __name__ == "__main__":
    print(f"{run(Path(sys.argv[1]), Path(sys.argv[2]))} blocks ran")
