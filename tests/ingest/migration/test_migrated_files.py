"""A migrated file is known again by its path and its records."""

from __future__ import annotations

import gzip
import os
import time

import pytest

from bayou.errors import PipelineError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.migration import migrate as migration
from support.migrations import CONFIG, KilledError, die, ids


def test_a_file_is_the_same_from_whatever_folder_it_is_reached(events, folder):
    day = folder / "year=2024/month=01/day=05"
    assert events.migrate(str(day / "batch_1.json")).records == 10
    with pytest.MonkeyPatch.context() as killing:
        killing.setattr(migration.DirectWriter, "write", die)
        with pytest.raises(KilledError):
            events.migrate(str(day))  # the ledger has it, the table hasn't
    report = events.migrate(str(folder))
    assert (report.files, report.known) == (1, 2)
    assert ids(events) == list(range(30))
    for source in (folder, day, day / "batch_1.json"):
        assert {check.problem for check in events.verify_migration(str(source))} == {None}


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("form", ["renamed", "packed", "moved with its folder"])
def test_a_file_that_was_renamed_moved_or_packed_is_named_and_doubles_nothing(
    events, batch, tmp_path, form, grown
):
    batch.write_text("".join(f'{{"id": {n}}}\n' for n in range(5)))
    events.migrate(str(batch.parent))
    content = batch.read_bytes() + (b'{"id": 5}\n' if grown else b"")
    batch.unlink()
    folder, name = batch.parent, "other.json"
    if form == "packed":
        content, name = gzip.compress(content), f"{batch.name}.gz"
    elif form == "moved with its folder":
        folder, name = tmp_path / "elsewhere", batch.name
        folder.mkdir()
    (folder / name).write_bytes(content)
    with pytest.raises(PipelineError, match="renamed, moved or compressed") as caught:
        events.migrate(str(folder))
    assert str(batch) in caught.value.message
    assert ids(events) == list(range(5))


@pytest.mark.parametrize("source", ["folder", "file"])
def test_a_rotated_file_is_named_before_any_record_is_written_again(events, batch, source):
    batch.write_text("".join(f'{{"id": {n}}}\n' for n in range(9)))
    events.migrate(str(batch.parent))
    rotated = batch.parent / "batch-1.json"
    batch.rename(rotated)
    batch.write_text('{"id": 9}\n')  # the next file with the same name
    os.utime(batch, (time.time() + 60,) * 2)
    with pytest.raises(PipelineError, match="renamed, moved or compressed") as caught:
        migration.migrate_json(
            events._configuration,
            events.topic,
            str(batch.parent if source == "folder" else rotated),
            batch_records=4,
        )
    assert str(rotated) in caught.value.message
    assert ids(events) == list(range(9))


@pytest.mark.parametrize("name", ["renamed.json", "empty.json"])
def test_a_file_that_was_empty_at_first_doubles_nothing_when_it_is_renamed(events, batch, name):
    folder = batch.parent
    batch.touch()
    (folder / "empty.json").touch()
    events.migrate(str(folder))
    batch.write_text("".join(f'{{"id": {n}}}\n' for n in range(5)))
    events.migrate(str(folder))
    batch.rename(folder / name)
    with pytest.raises(PipelineError, match="renamed, moved or compressed") as caught:
        events.migrate(str(folder))
    assert str(folder / name) in caught.value.message
    assert ids(events) == list(range(5))


@pytest.mark.parametrize("source", ["folder", "file"])
def test_a_rotated_file_is_named_although_the_next_file_begins_as_it_did(events, batch, source):
    for count in (1, 9):
        batch.write_text("".join(f'{{"id": {n}}}\n' for n in range(count)))
        events.migrate(str(batch.parent))
    rotated = batch.parent / "batch-1.json"
    batch.rename(rotated)
    batch.write_text('{"id": 0}\n')
    os.utime(batch, (time.time() + 60,) * 2)
    with pytest.raises(PipelineError, match="renamed, moved or compressed"):
        migration.migrate_json(
            events._configuration,
            events.topic,
            str(batch.parent if source == "folder" else rotated),
            batch_records=4,
        )
    assert ids(events) == list(range(9))


def test_a_file_may_begin_as_one_that_is_there_or_as_a_setting_allows(tmp_path, batch):
    setting = "  migration: {on-renamed-file: migrate}\n"
    (tmp_path / "p.yaml").write_text(CONFIG.replace("connector:\n", f"connector:\n{setting}"))
    events = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    batch.write_text('{"id": 1}\n')
    (batch.parent / "same.json").write_text('{"id": 1}\n')
    events.migrate(str(batch.parent))
    batch.rename(batch.parent / "renamed.json")
    events.migrate(str(batch.parent))
    assert ids(events) == [1, 1, 1]


def test_a_link_to_a_file_is_read_to_the_end_of_that_file(events, tmp_path, batch):
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "batch.json"
    file.write_text("".join(f'{{"id": {n}}}\n' for n in range(1000)))
    batch.symlink_to(file)
    assert events.migrate(str(batch.parent)).records == 1000
    assert ids(events) == list(range(1000))


def test_a_file_is_the_same_through_links(events, batch, tmp_path):
    batch.write_text('{"id": 1}\n')
    (batch.parent / "link.json").symlink_to(batch)
    (tmp_path / "linked").symlink_to(batch.parent)
    assert events.migrate(str(tmp_path / "linked")).records == 1
    assert events.migrate(str(batch.parent)).records == 0
    batch.write_text('{"id": 1}\n{"id": 2}\n')
    assert events.migrate(str(batch.parent)).records == 1
    batch.write_text('{"id": 1}\n{"id": 2}\n{"id": 3}\n')
    assert events.migrate(str(tmp_path / "linked")).records == 1
    assert ids(events) == [1, 2, 3]
    for source in (batch.parent, tmp_path / "linked"):
        assert {check.problem for check in events.verify_migration(str(source))} == {None}
