"""JSON files that grow, are replaced or touched between migrations, or while one runs."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import time
import uuid

import pyarrow as pa
import pytest

from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.migration import json_files, ledger
from bayou.ingest.migration import migrate as migration
from bayou.ingest.topic_table.direct_writer import DirectWriter
from support.migrations import CONFIG, KilledError, dead_letter_values, die, ids

THREE = "".join(json.dumps({"id": n, "name": f"é{n}"}, ensure_ascii=False) + "\n" for n in range(3))


@pytest.mark.parametrize("cut", range(0, len(THREE.encode()) + 1, 5))
def test_a_file_cut_anywhere_and_then_completed_loses_and_doubles_nothing(events, growing, cut):
    first = events.migrate(growing(THREE.encode()[:cut]))
    assert first.dead_letters == 0
    second = events.migrate(folder := growing(THREE))
    assert first.records + second.records == 3
    assert ids(events) == [0, 1, 2]
    assert dead_letter_values(events) == []
    assert all(check.problem is None for check in events.verify_migration(folder))


def test_a_last_line_that_may_be_half_a_number_waits_for_its_newline(events, growing):
    begin = THREE + "12"
    assert events.migrate(growing(begin)).waiting == 1
    assert events.migrate(growing(begin)).waiting == 1
    report = events.migrate(growing(begin + "3\n"))
    assert (report.waiting, report.records) == (0, 1)
    assert dead_letter_values(events) == [b"123"]


@pytest.mark.parametrize("last", ["12", '{"id": 4, "na', "nul", "\ufeff7"])
def test_a_last_line_is_read_once_its_file_has_not_changed_for_a_minute(events, growing, last):
    assert events.migrate(growing(THREE + last, age=50)).waiting == 1
    folder = growing(THREE + last, age=70)
    report = events.migrate(folder)
    assert (report.waiting, report.records, report.dead_letters) == (0, 1, 1)
    assert events.migrate(folder).known == 1
    assert events.migrate(growing(THREE + last)).known == 1
    assert ids(events) == [0, 1, 2]
    # More of the file, after the line was decided.
    events.migrate(growing(THREE + last + '\n{"id": 5}\n'))
    assert ids(events) == [0, 1, 2, 5]


def test_how_long_a_file_must_not_have_changed_is_a_setting(tmp_path, growing):
    (tmp_path / "p.yaml").write_text(CONFIG + "  migration: {settle-seconds: 3600}\n")
    events = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    assert events.migrate(growing(THREE + "12", age=3000)).waiting == 1
    assert events.migrate(growing(THREE + "12", age=4000)).waiting == 0


def test_a_file_whose_migrated_records_have_changed_is_named(events, growing):
    events.migrate(growing(THREE + '{"id": 3, "na', age=70))
    with pytest.raises(PipelineError, match=r"grows.jsonl: its first 4 records differ"):
        events.migrate(growing(THREE + '{"id": 3, "name": "x"}\n'))
    with pytest.raises(PipelineError, match=r"grows.jsonl: its first 4 records differ"):
        events.migrate(growing(THREE[:30]))


def test_a_batch_is_repeated_although_its_file_has_grown_since(events, growing, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DirectWriter, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            events.migrate(growing(THREE + '{"id": 3}'))
    events.migrate(growing(THREE + '{"id": 3}\n{"id": 4}\n'))
    assert ids(events) == [0, 1, 2, 3, 4]


def test_a_replaced_file_of_the_same_size_is_not_taken_for_the_migrated_one(events, growing):
    folder = growing('{"id": 1}\n', age=100)
    events.migrate(folder)
    growing('{"id": 2}\n', age=50)
    with pytest.raises(PipelineError, match="its first 1 records differ"):
        events.migrate(folder)
    growing('{"id": 1}\n', age=20)
    touched = events.migrate(folder)
    again = events.migrate(folder)
    assert (touched.files, touched.known, again.known, again.version) == (0, 1, 1, None)
    assert ids(events) == [1]
    assert all(check.problem is None for check in events.verify_migration(folder))


def test_a_ledger_of_an_earlier_version_gets_the_times_of_new_parts(events, growing, monkeypatch):
    known = {name: kind for name, kind in ledger._COLUMNS.items() if name != "modified"}
    folder = growing('{"id": 1}\n', age=100)
    with monkeypatch.context() as earlier:
        earlier.setattr(ledger, "_SCHEMA", pa.schema(known))
        events.migrate(folder)
    growing('{"id": 1}\n', age=20)
    assert events.migrate(folder).version is None
    growing('{"id": 1}\n{"id": 2}\n', age=10)
    assert events.migrate(folder).records == 1
    growing('{"id": 1}\n{"id": 3}\n', age=5)
    with pytest.raises(PipelineError, match="differ"):
        events.migrate(folder)
    assert ids(events) == [1, 2]


@pytest.mark.parametrize("file", ["a.json", "a.json.gz"])
def test_a_file_replaced_after_it_was_listed_loses_no_half_record(
    events, tmp_path, monkeypatch, file
):
    path = tmp_path / "json" / file
    path.parent.mkdir()
    pack = gzip.compress if file.endswith(".gz") else bytes
    path.write_bytes(pack(b'{"id": 1}\n{"id": 2}\n'))
    os.utime(path, (time.time() - 999,) * 2)
    read = migration._NewRecords.__iter__

    def read_after_it_is_replaced(records):
        path.write_bytes(pack(b'{"id": 11}\n{"id": 12}\n' + b" " * 999))
        monkeypatch.setattr(migration._NewRecords, "__iter__", read)
        yield from read(records)

    monkeypatch.setattr(migration._NewRecords, "__iter__", read_after_it_is_replaced)
    for _ in range(3):
        with contextlib.suppress(PipelineError):  # half of a compressed file
            events.migrate(str(path.parent))
    assert ids(events) == [11, 12]
    assert dead_letter_values(events) == []


def test_an_interrupted_migration_of_a_touched_file_needs_the_file_no_more(
    events, growing, monkeypatch
):
    folder = growing('{"id": 1}\n', age=100)
    events.migrate(folder)
    growing('{"id": 1}\n', age=50)
    with monkeypatch.context() as killed:
        killed.setattr(DirectWriter, "write", die)
        with pytest.raises(KilledError):
            events.migrate(folder)
    os.remove(os.path.join(folder, "grows.jsonl"))
    events.migrate(folder)
    assert events.migrate(folder).version is None
    assert ids(events) == [1]


def test_records_at_the_numbers_of_an_earlier_migration_s_dead_letters_are_migrated(
    events, growing
):
    folder = growing('{"id": 1}\n{nope\n{"id": 3}\n{neither\n')
    assert events.migrate(folder).dead_letters == 2
    path = events.topic.table_path
    for table in (path, f"{path}_migration"):
        shutil.rmtree(table)
    growing('{"id": 1}\n{"id": 2}\n{"id": 3}\n{neither\n')
    report = events.migrate(folder)
    assert (report.rows, report.dead_letters) == (3, 1)
    assert ids(events) == [1, 2, 3]
    assert sorted(dead_letter_values(events)) == [b"{neither", b"{nope"]


def test_dead_letters_of_an_earlier_migration_hide_no_missing_rows(events, growing):
    folder = growing('{"id": 1}\n{nope\n{"id": 3}\n{neither\n')
    assert events.migrate(folder).dead_letters == 2
    path = events.topic.table_path
    for table in (path, f"{path}_migration"):
        shutil.rmtree(table)
    growing('{"id": 1}\n{"id": 2}\n{"id": 3}\n{neither\n')
    events.migrate(folder)
    (check,) = events.verify_migration(folder)
    assert (check.problem, check.rows, check.dead_letters) == (None, 3, 1)
    events.handle.delete("id = 2")
    (check,) = events.verify_migration(folder)
    assert check.problem == "1 of its records aren't in the table"
    assert (check.rows, check.dead_letters) == (2, 1)


def test_an_object_that_is_replaced_while_parts_of_it_are_read_is_not_migrated(events, monkeypatch):
    folder = f"memory://{uuid.uuid4()}"
    files = for_path(folder).files
    files.put(f"{folder}/a.json", b'{"id": 1}\n{"id": 2}\n{"id": 3}\n{"id": 4}\n')
    monkeypatch.setattr(json_files, "_CHUNK", 16)
    read = migration._NewRecords.__iter__

    def replaced(records):
        for number, record in enumerate(read(records)):
            if number == 3:
                files.put(f"{folder}/a.json", b'{"id": 11}\n{"id": 12}\n{"id": 13}\n')
            yield record

    monkeypatch.setattr(migration._NewRecords, "__iter__", replaced)
    with pytest.raises(PipelineError, match="another file replaced it while it was migrated"):
        migration.migrate_json(events._configuration, events.topic, folder, batch_records=2)
    assert ids(events) == [1, 2]
