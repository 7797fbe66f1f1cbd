"""What the pages of the documentation expect to be there before their code blocks run.

A preparation creates the tables, topics and files that the examples of a page refer to. A page
without a preparation starts in an empty folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

import bayou
from bayou.spark.kafka import EmbeddedBroker
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.docstring_examples import write_orders
from support.page_blocks import blocks_of
from support.page_runner import PageRunner
from support.unity_double import UnityDouble

__all__ = ["PREPARATIONS", "Prepared", "create_dated_table"]

SAMPLE_TABLES = "docs/get-started/sample-tables.md"


class Prepared:
    """A page's runner, and what its preparation can use.

    Attributes:
        runner: runs the blocks of the page.
        broker: the broker whose address replaces `localhost:9092`.
        dated_table: a table of `create_dated_table`, to copy.
        unity: a server of Unity Catalog.
    """

    def __init__(
        self, runner: PageRunner, broker: EmbeddedBroker, dated_table: Path, unity: UnityDouble
    ) -> None:
        self.runner = runner
        self.broker = broker
        self.unity = unity
        self._dated_table = dated_table
        self._topics: set[str] = set()

    @property
    def folder(self) -> Path:
        """The current folder of the blocks."""
        return self.runner.folder

    def copy_dated_table(self, name: str) -> None:
        """Copy the dated table to `lake/NAME`, with the times of its files."""
        shutil.copytree(self._dated_table, self.folder / "lake" / name)

    def produce(self, topic: str, count: int = 20) -> None:
        """Create a topic with JSON records, unless it was created before."""
        if topic in self._topics:
            return
        self._topics.add(topic)
        self.broker.create_topic(topic, 1)
        self.broker.produce(topic, [ProducedRecord(_event(i)) for i in range(count)])

    def write_pipeline(self, topic: str = "user.events.v1", table: str = "user_events") -> None:
        """Write `pipeline.yaml` with the topic `user-events`, and produce its records."""
        self.produce(topic)
        (self.folder / "pipeline.yaml").write_text(
            f"connector:\n"
            f"  kafka: {{bootstrap-servers: '{self.broker.bootstrap_servers}'}}\n"
            f"  topics:\n    user-events:\n      kafka-topic: {topic}\n"
            f"      destination: {{table-path: lake/{table}}}\n"
        )

    def run_pipeline(self) -> None:
        """Ingest the records of the pipeline's topic."""
        result = self.runner.invoke("run", "pipeline.yaml", "--once")
        assert result.exit_code == 0, result.output


def _event(number: int) -> bytes:
    event = {
        "user_id": f"u{number % 3}",
        "event_type": "click",
        "timestamp": f"2024-01-05T10:00:{number:02}Z",
        "email": f"u{number % 3}@example.com",
    }
    return json.dumps(event).encode()


def create_dated_table(path: Path) -> None:
    """Create the table `lake/events` of the page of sample tables."""
    _run_samples({"lake/events": str(path)}, 1)


def _run_samples(paths: Mapping[str, str], count: int) -> None:
    """Run the first blocks of the page of sample tables, with other paths."""
    text = "\n".join(block.text for block in blocks_of(SAMPLE_TABLES)[:count])
    for old, new in paths.items():
        text = text.replace(old, new)
    exec(compile(text, SAMPLE_TABLES, "exec"), {})


def _all_samples(page: Prepared) -> None:
    _run_samples({"lake/": f"{page.folder}/lake/"}, 3)


def _dated_events(page: Prepared) -> None:
    page.copy_dated_table("events")


def _write_folders(rows: pa.Table, folder: Path) -> None:
    partitioning = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
    ds.write_dataset(rows, folder, format="parquet", partitioning=partitioning)


def _json_files(page: Prepared) -> None:
    page.write_pipeline()
    for folder in ("lake/json/user_events", "json/user_events"):
        (page.folder / folder).mkdir(parents=True)
        lines = b"\n".join(_event(i) for i in range(5)) + b"\n"
        (page.folder / folder / f"batch_{folder[:4]}.jsonl").write_bytes(lines)


def _connectors(page: Prepared) -> None:
    rows = pa.table({"id": [1, 20, 30], "day": ["2024-01-05"] * 3, "name": ["a", "b", "c"]})
    bayou.write(str(page.folder / "lake" / "events"), rows, partition_by=["day"])


def _unity(page: Prepared) -> None:
    rows = pa.table({"id": [1, 2], "event_type": ["click", "view"]})
    page.runner.setenv("UC_URI", page.unity.url)
    bayou.write("uc://lake.shop.events", rows)
    bayou.write(str(page.folder / "lake" / "orders"), rows)
    page.runner.scope["rows"] = rows


def _recovery(page: Prepared) -> None:
    page.copy_dated_table("events")
    page.copy_dated_table("events_dead_letters")
    page.write_pipeline()
    page.run_pipeline()


def _running(page: Prepared) -> None:
    page.runner.replacements[" TOPIC"] = " user-events"
    page.write_pipeline()
    page.run_pipeline()


def _commands(page: Prepared) -> None:
    page.copy_dated_table("events")
    page.produce("user-events")
    page.write_pipeline()
    folder = page.folder / "old" / "events"
    folder.mkdir(parents=True)
    (folder / "batch_1.jsonl").write_bytes(_event(1) + b"\n")


def _topic(page: Prepared) -> None:
    page.runner.setenv("KAFKA_BOOTSTRAP_SERVERS", page.broker.bootstrap_servers)
    page.produce("user.events.v1")


def _quick_start(page: Prepared) -> None:
    """Produce the records of the page's program `broker.py`."""
    page.runner.setenv("KAFKA_BOOTSTRAP_SERVERS", page.broker.bootstrap_servers)
    event = {"user_id": "u1", "event_type": "click", "event_time": "2026-01-05T10:00:00Z"}
    page.broker.create_topic("user.events.v1", 1)
    records = [json.dumps({"id": i, **event}).encode() for i in range(100)]
    page.broker.produce("user.events.v1", records)


def _example_table(page: Prepared) -> None:
    write_orders(str(page.folder / "lake" / "orders"))


PREPARATIONS: dict[str, Callable[[Prepared], None]] = {
    "README.md": _topic,
    "docs/connectors.md": _connectors,
    "docs/guide/kafka.md": _quick_start,
    "docs/guide/maintenance.md": _all_samples,
    "docs/guide/migration.md": _json_files,
    "docs/guide/quickstart.md": _quick_start,
    "docs/guide/scaling.md": _dated_events,
    "docs/guide/spark.md": _dated_events,
    "docs/guide/stores.md": _dated_events,
    "docs/guide/tables.md": _all_samples,
    "docs/guide/unity-catalog.md": _unity,
    "docs/guide/upserts.md": _quick_start,
    "docs/operations/recovery.md": _recovery,
    "docs/operations/runbook.md": _running,
    "docs/operations/upkeep.md": _dated_events,
    "docs/reference/bayou.kernel.md": _example_table,
    "docs/reference/bayou.spark.md": _example_table,
    "docs/reference/command-line.md": _commands,
}
