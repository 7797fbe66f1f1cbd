"""JSON files as records: arrays, lines, packed files, and what is damaged in them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import tracemalloc

import pytest

from bayou.engines import for_path
from bayou.engines.arrow.storage import hdfs_files
from bayou.errors import PipelineError
from bayou.ingest.migration import json_files as reading
from bayou.ingest.migration.json_files import json_files, records_of
from support.hdfs_double import hdfs_double
from support.migrations import ids

LINES = b"".join(b'{"id": %d, "x": "%s"}\n' % (n, os.urandom(9).hex().encode()) for n in range(99))


def test_files_come_by_day_and_then_by_the_numbers_in_their_names(tmp_path):
    day = tmp_path / "2024" / "01" / "05"
    day.mkdir(parents=True)
    for name in ("batch_10.json", "batch_9.json"):
        (day / name).write_text("[]")
    found = json_files(for_path(str(tmp_path), {}), str(tmp_path))
    assert [f.name.rsplit("/", 1)[-1] for f in found] == ["batch_9.json", "batch_10.json"]


def test_a_damaged_array_says_behind_which_record(events, tmp_path):
    (tmp_path / "a.json").write_text('[{"id": 1}, {"id": 2}, {"id"')
    with pytest.raises(PipelineError, match="after its record 2"):
        events.migrate(str(tmp_path / "a.json"))


def test_a_folder_may_be_called_as_a_file_is(events, tmp_path):
    folder = tmp_path / "events.json"
    folder.mkdir()
    (folder / "part-0.json").write_text('{"id": 1}\n')
    assert events.migrate(str(tmp_path)).records == 1
    (folder / "part-1.json").write_text('{"id": 2}\n')
    report = events.migrate(str(folder))
    assert (report.records, report.known) == (1, 1)
    assert events.migrate(str(folder / "part-1.json")).known == 1
    assert events.migrate(str(tmp_path / "none.json")).files == 0
    assert {check.problem for check in events.verify_migration(str(folder))} == {None}


def test_an_array_may_begin_with_a_byte_order_mark(events, tmp_path):
    (tmp_path / "a.json").write_bytes(b' \xef\xbb\xbf [{"id": 1}]')
    events.migrate(str(tmp_path / "a.json"))
    assert ids(events) == [1]


@pytest.mark.parametrize(
    "odd",
    ["[" * 20_000 + "]" * 20_000, "1e400", '"\\ud800"', "123456789012345678901234567890"],
    ids=["deep", "beyond doubles", "half a pair", "beyond long"],
)
@pytest.mark.parametrize("form", ["[%s]", "%s"], ids=["array", "lines"])
def test_one_odd_record_is_a_dead_letter_in_an_array_as_in_a_line(events, tmp_path, odd, form):
    records = ['{"id": 1}', '{"id": ' + odd + "}", '{"id": 2}']
    text = form % (",\n" if "[" in form else "\n").join(records)
    (tmp_path / "a.json").write_text(text)
    report = events.migrate(str(tmp_path / "a.json"))
    assert (report.records, report.rows, report.dead_letters) == (3, 2, 1)
    assert ids(events) == [1, 2]
    assert [check.problem for check in events.verify_migration(str(tmp_path / "a.json"))] == [None]


def test_objects_over_several_lines_are_records_too(events, tmp_path):
    texts = [json.dumps({"id": n, "x": {"y": [n]}}, indent=2) for n in range(5)]
    (tmp_path / "a.json").write_text("\r\n".join(texts))
    (tmp_path / "b.json").write_text('{\n "id": 5\n}')
    report = events.migrate(str(tmp_path))
    assert (report.records, report.dead_letters) == (6, 0)
    assert ids(events) == list(range(6))
    (tmp_path / "c.json").write_text('{\n "id": 6\n}\n{\n "id" 7\n}')
    with pytest.raises(PipelineError, match="c.json can't be read after its record 1"):
        events.migrate(str(tmp_path))


def test_a_line_without_an_end_takes_bounded_memory(events, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 5 << 20)
    (tmp_path / "a.json").write_bytes(b'{"id": 1}\n{"all": [' + b"1," * (10 << 20))
    with pytest.raises(PipelineError, match="after its record 1: a line has more than 5 MB"):
        events.migrate(str(tmp_path / "a.json"))


@pytest.mark.parametrize(
    "content",
    [gzip.compress(LINES)[:-900], gzip.compress(b"")[:9], LINES],
    ids=["cut", "begun", "unpacked"],
)
def test_a_packed_file_that_is_not_whole_is_told_and_taken_in_once_it_is(events, tmp_path, content):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(content)
    with pytest.raises(PipelineError, match="the compressed file is incomplete"):
        events.migrate(str(file))
    file.write_bytes(gzip.compress(LINES[:4000]) + gzip.compress(LINES[4000:]))
    events.migrate(str(file))
    assert ids(events) == list(range(99))


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
    assert dt.datetime.fromtimestamp(found.timestamp / 1e6, dt.UTC).year >= 2026


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(reading, "_CHUNK", 16)
    path = tmp_path / ("a.json" if pack is bytes else "a.json.gz")
    path.write_bytes(pack(LINES))
    engine = for_path(str(tmp_path), {})
    (file,) = json_files(engine, str(path))
    records = records_of(engine, file)
    first = next(records)
    (tmp_path / "new").write_bytes(pack(LINES.replace(b"id", b"other")))
    (tmp_path / "new").replace(path)
    assert [first, *records] == LINES.splitlines()


def test_a_file_of_hdfs_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(hdfs_files, "connect_hdfs", lambda _: hdfs_double(tmp_path))
    monkeypatch.setattr(reading, "_CHUNK", 16)
    (tmp_path / "a.json").write_bytes(LINES)
    engine = for_path("hdfs://namenode:8020/a.json", {})
    (file,) = json_files(engine, "hdfs://namenode:8020/a.json")
    records = records_of(engine, file)
    first = next(records)
    (tmp_path / "new").write_bytes(LINES.replace(b"id", b"other"))
    (tmp_path / "new").replace(tmp_path / "a.json")
    assert [first, *records] == LINES.splitlines()
