"""A pipeline whose table has Iceberg metadata, which Iceberg's readers see after each batch."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import pytest

import bayou
from support.iceberg_tables import assert_equal_formats, iceberg_rows, metadata
from support.waiting import wait_until

pytestmark = pytest.mark.spark

PROPERTIES = {
    "delta.enableIcebergCompatV2": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
}


def records(first: int, count: int) -> list[bytes]:
    return [json.dumps({"id": n, "name": f"n{n}"}).encode() for n in range(first, first + count)]


def test_a_killed_pipeline_ends_with_each_record_once_in_both_formats(pipeline):
    count = 6_000
    pipeline.broker.produce("events", records(0, count))
    pipeline.configure(batch_size=500, delta={"table-properties": PROPERTIES})
    process = subprocess.Popen(
        [sys.executable, "-m", "bayou.cli", "run", str(pipeline.file), "--once"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )

    def has_converted():
        assert process.poll() is None, process.stderr.read()
        return (pipeline.table / "metadata" / "version-hint.text").exists()

    wait_until(has_converted, timeout=120, what="the first Iceberg metadata")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(iceberg_rows(pipeline.table)) < count  # readable after the kill

    shutil.rmtree(pipeline.state)
    assert pipeline.run().finished[0].error is None
    assert bayou.table(pipeline.table).iceberg.lag() == 0
    assert_equal_formats(pipeline.table)
    rows = iceberg_rows(pipeline.table)
    assert sorted(row["id"] for row in rows) == list(range(count))

    pipeline.broker.produce("events", records(count, 10))
    pipeline.run()
    assert_equal_formats(pipeline.table)
    assert len(iceberg_rows(pipeline.table)) == count + 10
    versions = [int(s["summary"]["delta-version"]) for s in metadata(pipeline.table)["snapshots"]]
    assert versions == sorted(set(versions))
    assert versions[-1] == pipeline.version()
