"""JSON files into a table: once, however often it is begun."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import tracemalloc

import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import ConcurrentTransactionError, PipelineError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.migration import migrate as migration
from bayou.ingest.migration.json_files import json_files, records_of

CONFIG = """\
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: lake/events
        partition-columns: [year, month, day]
        delta-config: {enable-schema-evolution: true}
"""


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


def ids(events):
    return sorted(events.read().column("id").to_pylist())


def test_all_records_are_rows_or_dead_letters_with_the_days_of_their_folders(events, folder):
    report = events.migrate(str(folder))
    assert (report.files, report.records, report.rows, report.dead_letters) == (3, 31, 30, 1)
    assert report.offsets == {1: 14}
    assert ids(events) == list(range(30))
    rows = events.read().to_pylist()
    assert {(r["year"], r["month"], r["day"]) for r in rows} == {
        ("2024", "01", "05"),
        ("2024", "02", "07"),
    }
    assert {r["_kafka_partition"] for r in rows} == {-1}
    assert len({r["_kafka_offset"] for r in rows}) == 30
    letters = bayou.table(f"{events.topic.table_path}_dead_letters").to_arrow().to_pylist()
    assert [letter["value"] for letter in letters] == [b"{nope"]
    assert all(check.problem is None for check in events.verify_migration(str(folder)))


def test_a_second_migration_takes_what_is_new(events, folder):
    first = events.migrate(str(folder))
    again = events.migrate(str(folder))
    assert (again.files, again.known, again.records, again.version) == (0, 3, 0, None)
    (folder / "late.json").write_text('[{"id": 30}]')
    (folder / "year=2024/month=01/day=05/more.jsonl").open("a").write('\n{"id": 31}')
    more = events.migrate(str(folder))
    assert (more.files, more.records, more.version) == (2, 2, first.version + 1)
    assert ids(events) == list(range(32))


class _KilledError(Exception):
    pass


@pytest.mark.parametrize("moment", [0, 1, 4, 9])
def test_killed_between_any_two_steps_nothing_is_lost_or_doubled(
    events, folder, moment, monkeypatch
):
    steps = iter(range(1000))

    def dying(function):
        def run(*arguments, **named):
            if next(steps) == moment:
                raise _KilledError
            return function(*arguments, **named)

        return run

    with monkeypatch.context() as killing:
        killing.setattr(migration.Ledger, "add", dying(migration.Ledger.add))
        killing.setattr(migration.DirectWriter, "write", dying(migration.DirectWriter.write))
        with pytest.raises(_KilledError):
            migration.migrate_json(
                events._configuration, events.topic, str(folder), batch_records=7
            )
    migration.migrate_json(events._configuration, events.topic, str(folder), batch_records=7)
    assert ids(events) == list(range(30))
    checks = events.verify_migration(str(folder))
    assert [check.problem for check in checks] == [None] * 3
    assert sum(check.dead_letters for check in checks) == 1


def test_files_come_by_day_and_then_by_the_numbers_in_their_names(tmp_path):
    day = tmp_path / "2024" / "01" / "05"
    day.mkdir(parents=True)
    for name in ("batch_10.json", "batch_9.json"):
        (day / name).write_text("[]")
    found = json_files(for_path(str(tmp_path), {}), str(tmp_path))
    assert [f.name.rsplit("/", 1)[-1] for f in found] == ["batch_9.json", "batch_10.json"]


def test_a_batch_that_another_process_has_begun_is_refused(events, folder):
    events.migrate(str(folder))
    ledger = migration.Ledger(events.topic.table_path, {})
    with pytest.raises(ConcurrentTransactionError, match="has batch 0"):
        ledger.add(ledger.parts(str(folder))[:1])


def test_verify_names_the_file_that_does_not_agree(events, folder):
    events.migrate(str(folder))
    (folder / "new.json").write_text('[{"id": 1}]')
    array = folder / "year=2024/month=01/day=05/batch_1.json"
    array.write_text(json.dumps([{"id": n} for n in range(1, 11)]))
    bayou.table(events.topic.table_path).delete("id = 20")
    problems = {c.file: c.problem for c in events.verify_migration(str(folder)) if c.problem}
    assert "1 of its records" in problems["2024/02/07/batch_2.json.gz"]
    assert problems["new.json"] == "it isn't migrated"
    assert "aren't those" in problems["year=2024/month=01/day=05/batch_1.json"]


def test_a_damaged_array_says_behind_which_record(events, tmp_path):
    (tmp_path / "a.json").write_text('[{"id": 1}, {"id": 2}, {"id"')
    with pytest.raises(PipelineError, match="behind its record 2"):
        events.migrate(str(tmp_path / "a.json"))


def test_a_large_array_is_read_in_flat_memory(tmp_path):
    file = tmp_path / "batch_1.json"
    record = json.dumps({"id": 1, "text": "x" * 1000})
    with file.open("w") as out:
        out.write("[" + ",\n".join([record] * 30_000) + "]")
    engine = for_path(str(tmp_path), {})
    (found,) = json_files(engine, str(tmp_path))
    tracemalloc.start()
    count = sum(1 for _ in records_of(engine, found))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 30_000
    assert peak < 24 << 20 < file.stat().st_size
    assert dt.datetime.fromtimestamp(found.moment / 1e6, dt.UTC).year >= 2026


def test_an_upsert_keeps_the_newer_row_of_kafka(tmp_path, folder):
    text = CONFIG.replace("[year, month, day]", "[]\n        key-columns: [id]")
    text = text.replace("{enable-schema-evolution", "{enable-upsert: true, enable-schema-evolution")
    (tmp_path / "p.yaml").write_text(text)
    events = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    events.write([{"id": 3, "name": "new"}])
    events.migrate(str(folder))
    rows = {r["id"]: r["name"] for r in events.read().to_pylist()}
    assert sorted(rows) == list(range(30))
    assert rows[3] == "new"
    # A file's time says when it was written or copied: later than Kafka's records, maybe.
    copied = folder / "copied.json"
    copied.write_text('[{"id": 3, "name": "old"}, {"id": 40, "name": "old"}]')
    os.utime(copied, (4e9, 4e9))
    events.migrate(str(folder))
    rows = {r["id"]: r["name"] for r in events.read().to_pylist()}
    assert (rows[3], rows[40]) == ("new", "old")
    assert all(check.problem is None for check in events.verify_migration(str(folder)))
