from __future__ import annotations

import gzip
import json
import os
import time

import pytest

from bayou.ingest import TopicTable, load_configuration
from support.migrations import CONFIG


@pytest.fixture
def events(tmp_path):
    (tmp_path / "p.yaml").write_text(CONFIG)
    return TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")


@pytest.fixture
def folder(tmp_path):
    """An old layout: arrays, lines, gz, a bad record, what an older pipeline had added."""
    root = tmp_path / "json"
    day = root / "year=2024" / "month=01" / "day=05"
    day.mkdir(parents=True)
    (day / "batch_1.json").write_text(json.dumps([{"id": n} for n in range(10)]))
    more = {"_kafka_partition": 1, "_kafka_topic": "events", "_processed_at": "x"}
    lines = [json.dumps({"id": n, **more, "_kafka_offset": n}) for n in range(10, 15)]
    (day / "more.jsonl").write_text("\n".join([*lines, "{nope", ""]))
    later = root / "2024" / "02" / "07"
    later.mkdir(parents=True)
    with gzip.open(later / "batch_2.json.gz", "wt") as file:
        json.dump([{"id": n, "name": "é"} for n in range(15, 30)], file, indent=1)
    (root / "_hidden.json").write_text("[]")
    (root / "readme.txt").write_text("no")
    return root


@pytest.fixture
def batch(tmp_path):
    """The path of a file below `json`."""
    (tmp_path / "json").mkdir()
    return tmp_path / "json" / "batch.json"


@pytest.fixture
def growing(tmp_path):
    """A file below `json`, written with a time in seconds before now."""
    path = tmp_path / "json" / "grows.jsonl"
    path.parent.mkdir()

    def write(text, *, age=0.0):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, (time.time() - age,) * 2)
        return str(path.parent)

    return write
