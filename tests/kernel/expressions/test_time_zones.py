"""Names of time zones, and partition values that have none."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.kernel import Scan, ScanState, Snapshot
from bayou.kernel.expressions.literals import normalize_time_zone
from support.log_writer import LogWriter, add, metadata, protocol


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Z", "UTC"),
        ("GMT", "UTC"),
        ("PST", "America/Los_Angeles"),
        ("EST", "-05:00"),
        ("Europe/Berlin", "Europe/Berlin"),
        ("+02:00", "+02:00"),
        ("GMT-3", "-03:00"),
        ("UTC+05:30", "+05:30"),
    ],
)
def test_regions_and_offsets_are_known(name, found):
    assert normalize_time_zone(name) == found


@pytest.mark.parametrize("name", ["", "Mars/Base", "+99:00", "../etc/passwd", "Europe"])
def test_other_names_are_refused(name):
    with pytest.raises(ArgumentError, match="time zone"):
        normalize_time_zone(name)


def test_a_scan_takes_its_time_zone_to_other_processes(log: LogWriter):
    log.commit(protocol(), metadata({"at": "timestamp", "id": "long"}, ["at"]))
    log.commit(
        add("a", partition_values={"at": "2024-07-01 00:30:00"}),
        add("b", partition_values={"at": "2024-07-01T00:30:00.000000Z"}),
    )
    builder = Snapshot.load(log.engine, log.table).scan_builder()
    found = {}
    for zone in ("UTC", "Europe/Berlin", "-03:00"):
        zoned = builder.with_time_zone(zone)
        scan = zoned.with_filter("at = TIMESTAMP '2024-07-01 00:30:00Z'").build()
        elsewhere = Scan.from_bytes(scan.to_bytes())
        state = ScanState.from_bytes(elsewhere.scan_state(log.engine).to_bytes())
        assert state.time_zone == zone
        found[zone] = {
            file.path
            for part in scan.slices(log.engine)
            for batch in elsewhere.replay_slice(log.engine, part)
            for file in batch.rows()
        }
    assert found == {"UTC": {"a", "b"}, "Europe/Berlin": {"b"}, "-03:00": {"b"}}
