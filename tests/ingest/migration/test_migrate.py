"""JSON files into a table: once, however often it is begun."""

from __future__ import annotations

import gzip
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import PipelineError
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.inspection import plan_run, prove_offsets, topic_status_reports
from bayou.ingest.local_state import topic_lock
from bayou.ingest.migration import migrate as migration
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch
from support.migrations import CONFIG, KilledError, dead_letter_values, die, ids


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


def test_no_files_are_migrated_while_a_pipeline_runs_the_topic(events, folder):
    with (
        topic_lock(events._configuration.state_path, "events"),
        pytest.raises(PipelineError, match="topic 'events': another process runs it"),
    ):
        events.migrate(str(folder))
    assert events.migrate(str(folder)).rows == 30


def test_a_second_migration_takes_what_is_new(events, folder):
    first = events.migrate(str(folder))
    again = events.migrate(str(folder))
    assert (again.files, again.known, again.records, again.version) == (0, 3, 0, None)
    (folder / "late.json").write_text('[{"id": 30}]')
    (folder / "year=2024/month=01/day=05/more.jsonl").open("a").write('\n{"id": 31}')
    more = events.migrate(str(folder))
    assert (more.files, more.records, more.version) == (2, 2, first.version + 1)
    assert ids(events) == list(range(32))


@pytest.mark.parametrize("version", [0, 1])
def test_a_clone_goes_on_with_the_files_where_its_ledger_is_cloned_too(
    events, folder, tmp_path, version
):
    events.migrate(str(folder))
    (folder / "late.json").write_text('[{"id": 30}]')
    events.migrate(str(folder))
    for suffix in ("", "_migration"):
        (tmp_path / f"lake/events{suffix}").rename(tmp_path / f"lake/before{suffix}")
    bayou.table(str(tmp_path / "lake/before")).clone(tmp_path / "lake/events", version=version)
    (folder / "later.json").write_text('[{"id": 31}]')
    before = len(ids(events))
    with pytest.raises(PipelineError, match=r"without its migration ledger\. Copy or clone"):
        events.migrate(str(folder))
    assert len(ids(events)) == before
    ledger = bayou.table(str(tmp_path / "lake/before_migration"))
    ledger.clone(tmp_path / "lake/events_migration")
    events.migrate(str(folder))
    assert ids(events) == list(range(32))


def test_a_file_name_that_is_not_utf8_is_named(events, tmp_path):
    (tmp_path / "json").mkdir()
    with open(os.fsencode(tmp_path) + b"/json/\xff.json", "w") as file:
        file.write('{"id": 1}')
    with pytest.raises(PipelineError, match=r"\\xff.json: the file name isn't UTF-8. Rename"):
        events.migrate(str(tmp_path / "json"))


@pytest.mark.parametrize("moment", [0, 1, 4, 9])
def test_killed_between_any_two_steps_nothing_is_lost_or_doubled(
    events, folder, moment, monkeypatch
):
    steps = iter(range(1000))

    def dying(function):
        def run(*arguments, **named):
            if next(steps) == moment:
                raise KilledError
            return function(*arguments, **named)

        return run

    with monkeypatch.context() as killing:
        killing.setattr(migration.Ledger, "add", dying(migration.Ledger.add))
        killing.setattr(migration.DirectWriter, "write", dying(migration.DirectWriter.write))
        with pytest.raises(KilledError):
            migration.migrate_json(
                events._configuration, events.topic, str(folder), batch_records=7
            )
    migration.migrate_json(events._configuration, events.topic, str(folder), batch_records=7)
    assert ids(events) == list(range(30))
    checks = events.verify_migration(str(folder))
    assert [check.problem for check in checks] == [None] * 3
    assert sum(check.dead_letters for check in checks) == 1


@pytest.mark.parametrize("refused_first", [True, False])
def test_of_a_schema_that_changed_after_a_kill_each_record_is_decided_once(
    events, tmp_path, monkeypatch, refused_first
):
    records = [{"id": 1}, {"id": 2, "x": 5}, "no object"]
    (tmp_path / "batch_1.json").write_text(json.dumps(records))
    other = TopicTable(events._configuration, "events")
    if refused_first:  # its x doesn't fit a table that has none, and fits the one of later
        (tmp_path / "p.yaml").write_text(CONFIG.replace("evolution: true", "evolution: false"))
        events.write([{"id": 0}])
        events = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    with monkeypatch.context() as killing:
        killing.setattr(DirectWriter, "_write_rows", die)
        with pytest.raises(KilledError):
            events.migrate(str(tmp_path / "batch_1.json"))
    other.write([{"id": 3, "x": 1 if refused_first else "text"}])
    report = other.migrate(str(tmp_path / "batch_1.json"))
    assert (report.rows, report.dead_letters) == (1, 2)
    (check,) = other.verify_migration(str(tmp_path / "batch_1.json"))
    assert (check.rows, check.dead_letters, check.problem) == (1, 2, None)


@pytest.mark.parametrize("upserts", [False, True])
def test_a_record_that_fits_no_more_after_a_conflict_is_a_dead_letter(
    tmp_path, monkeypatch, upserts
):
    text = CONFIG.replace("{enable", f"{{enable-upsert: {str(upserts).lower()}, enable")
    if upserts:
        text = text.replace("[year, month, day]", "[]\n        key-columns: [id]")
    (tmp_path / "p.yaml").write_text(text)
    events = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    events.write([{"id": 0}])
    write_rows = DirectWriter._write_rows

    def late(*arguments):
        monkeypatch.undo()
        events.write([{"id": 1, "x": "text"}])
        return write_rows(*arguments)

    monkeypatch.setattr(DirectWriter, "_write_rows", late)
    report = events.write([{"id": 2}, {"id": 3, "x": 5}])
    assert (report.rows, report.dead_letters, report.conflicts) == (1, 1, 1)
    assert ids(events) == [0, 1, 2]
    letters = bayou.table(f"{events.topic.table_path}_dead_letters").to_arrow()
    assert [json.loads(value)["id"] for value in letters["value"].to_pylist()] == [3]


def migrated_at_once(events, *sources):
    """Each in a thread of its own; their reports or errors."""
    barrier = threading.Barrier(len(sources))

    def migrate(source):
        barrier.wait()
        try:
            return migration.migrate_json(
                events._configuration, events.topic, str(source), batch_records=4
            )
        except PipelineError as error:
            return error

    with ThreadPoolExecutor(len(sources)) as pool:
        return list(pool.map(migrate, sources))


def test_two_folders_at_once_lose_and_double_nothing(events, tmp_path):
    folders = [tmp_path / name for name in ("old", "older")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        records = [{"id": n} for n in range(40 * number, 40 * number + 40)]
        (folder / "batch_1.json").write_text(json.dumps([*records, "no object"]))
    reports = migrated_at_once(events, *folders)
    assert [report.records for report in reports] == [41, 41]
    assert ids(events) == list(range(80))
    numbers = events.read(columns=["_kafka_offset"])["_kafka_offset"].to_pylist()
    assert len(set(numbers)) == 80
    for folder in folders:
        (check,) = events.verify_migration(str(folder))
        assert (check.rows, check.dead_letters, check.problem) == (40, 1, None)


def test_of_two_migrations_of_the_same_files_one_gives_way(events, tmp_path):
    folder = tmp_path / "json" / "2024"
    folder.mkdir(parents=True)
    records = [{"id": n} for n in range(60)]
    (folder / "batch_1.json").write_text(json.dumps(records))
    reports = migrated_at_once(events, folder, tmp_path / "json")
    for error in (report for report in reports if isinstance(report, PipelineError)):
        assert "another process migrates" in error.message
    events.migrate(str(tmp_path / "json"))
    assert ids(events) == list(range(60))
    assert [c.problem for c in events.verify_migration(str(folder))] == [None]


def test_a_file_that_another_migration_has_reached_by_a_link_is_not_migrated_again(
    events, tmp_path
):
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "batch_1.json").write_text(json.dumps([{"id": n} for n in range(12)]))
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(PipelineError, match="another process migrates"):
        migrated_with(events, folder, lambda: events.migrate(str(tmp_path / "link")))
    events.migrate(str(folder))
    assert ids(events) == list(range(12))


def test_files_that_another_migration_did_before_this_one_came_to_them_are_left_alone(
    events, tmp_path
):
    inner = tmp_path / "json" / "later"
    inner.mkdir(parents=True)
    (tmp_path / "json" / "batch_1.json").write_text(json.dumps([{"id": n} for n in range(12)]))
    (inner / "batch_2.json").write_text(json.dumps([{"id": n} for n in range(12, 20)]))
    with pytest.raises(PipelineError, match="another process migrates"):
        migrated_with(events, tmp_path / "json", lambda: events.migrate(str(inner)))
    events.migrate(str(tmp_path / "json"))
    assert ids(events) == list(range(20))
    assert [c.problem for c in events.verify_migration(str(tmp_path / "json"))] == [None] * 2


def migrated_with(events, source, rival):
    """A migration in whose first batch another one comes."""
    rivals = [rival]

    def told(_):
        while rivals:
            rivals.pop()()

    migration.migrate_json(
        events._configuration, events.topic, str(source), batch_records=4, on_commit=told
    )


def test_records_that_the_table_has_from_kafka_or_will_get_are_left_to_it(events, tmp_path):
    values = [json.dumps({"id": n}).encode() for n in range(5, 9)]
    taken_in = record_batch("events", [*values, b"{no"], partition=0, first=5, timestamps=[0] * 5)
    DirectWriter(events._configuration, events.topic).write(
        [taken_in], {"kafka/cluster/events/-/0": 9}
    )
    old = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in (*range(10), 20)]
    old += [{"id": 100, "_kafka_partition": 1, "_kafka_offset": 7}, {"id": 101}]
    (tmp_path / "batch_1.json").write_text(json.dumps(old))
    report = events.migrate(str(tmp_path / "batch_1.json"))
    assert (report.records, report.rows, report.from_kafka) == (13, 7, 6)
    assert report.offsets == {0: 4, 1: 7}
    assert ids(events) == [*range(9), 100, 101]
    (check,) = events.verify_migration(str(tmp_path / "batch_1.json"))
    assert (check.rows, check.problem) == (7, None)


def test_records_with_rows_in_former_tables_of_route_by_are_left_out(events, tmp_path):
    path = events.topic.table_path
    records = record_batch("events", [b'{"id": 8}'], partition=0, first=8, timestamps=[0])
    registered = "kafka/cluster/events/route/former/registered"
    DirectWriter(events._configuration, events.topic).write(
        [records], {"kafka/cluster/events/-/0": 8, registered: 1}
    )
    rows = bayou.table(path).to_arrow()
    at = rows.schema.get_field_index("_kafka_offset")
    rows = rows.set_column(at, rows.schema.field(at), pa.array([5], pa.int64()))
    bayou.write(str(Path(path).with_name("former")), rows)
    old = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in range(3, 9)]
    (tmp_path / "batch_1.json").write_text(json.dumps(old))
    report = events.migrate(str(tmp_path / "batch_1.json"))
    assert (report.rows, report.from_kafka, report.offsets) == (2, 4, {0: 4})
    assert ids(events) == [3, 4, 8]


@pytest.mark.parametrize("form", [int, float, str])
def test_offsets_count_however_they_were_written(events, tmp_path, form):
    taken_in = record_batch("events", [b'{"id": 5}'], partition=0, first=5, timestamps=[0])
    DirectWriter(events._configuration, events.topic).write([taken_in], {"kafka/c/events/-/0": 5})
    old = [{"id": n, "_kafka_partition": form(0), "_kafka_offset": form(n)} for n in (3, 5)]
    odd = [True, -1, "5 ", "\u0665", 5.5, 1e30, None, [5]]
    old += [{"id": 9, "_kafka_partition": 0, "_kafka_offset": offset} for offset in odd]
    (tmp_path / "batch_1.json").write_text(json.dumps(old))
    report = events.migrate(str(tmp_path / "batch_1.json"))
    assert (report.rows, report.from_kafka, report.offsets) == (9, 1, {0: 3})
    assert ids(events) == [3, 5, *[9] * 8]


def test_offsets_of_another_topic_say_nothing(events, tmp_path):
    taken_in = record_batch("events", [b'{"id": 5}'], partition=0, first=5, timestamps=[0])
    DirectWriter(events._configuration, events.topic).write([taken_in], {"kafka/c/events/-/0": 5})
    at = {"_kafka_topic": "older", "_kafka_offset": 9}
    old = [{"id": 6, "_kafka_partition": 0, **at}, {"id": 7, "_kafka_partition": 1, **at}]
    (tmp_path / "batch_1.json").write_text(json.dumps(old))
    report = events.migrate(str(tmp_path / "batch_1.json"))
    assert (report.rows, report.from_kafka, report.offsets) == (2, 0, {})
    assert ids(events) == [5, 6, 7]
    (check,) = events.verify_migration(str(tmp_path / "batch_1.json"))
    assert check.problem is None


def test_verify_names_the_file_that_does_not_agree(events, folder):
    events.migrate(str(folder))
    (folder / "new.json").write_text('[{"id": 1}]')
    array = folder / "year=2024/month=01/day=05/batch_1.json"
    array.write_text(json.dumps([{"id": n} for n in range(1, 11)]))
    bayou.table(events.topic.table_path).delete("id = 20")
    problems = {c.file: c.problem for c in events.verify_migration(str(folder)) if c.problem}
    assert "1 of its records" in problems["2024/02/07/batch_2.json.gz"]
    assert problems["new.json"] == "it isn't migrated"
    assert "differ from the migrated" in problems["year=2024/month=01/day=05/batch_1.json"]


@pytest.fixture
def upserted(tmp_path):
    text = CONFIG.replace("[year, month, day]", "[]\n        key-columns: [id]")
    text = text.replace("{enable-schema-evolution", "{enable-upsert: true, enable-schema-evolution")
    (tmp_path / "p.yaml").write_text(text)
    return TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")


def test_a_batch_of_upserts_that_never_came_to_the_table_is_missed(upserted, folder):
    for there in (False, True):  # the table
        with pytest.MonkeyPatch.context() as killing:
            killing.setattr(migration.DirectWriter, "write", die)
            with pytest.raises(KilledError):
                upserted.migrate(str(folder))
        problems = [check.problem or "" for check in upserted.verify_migration(str(folder))]
        assert any("of its records aren't in the table" in problem for problem in problems)
        upserted.migrate(str(folder))
        assert {check.problem for check in upserted.verify_migration(str(folder))} == {None}
        if not there:
            (folder / "late.json").write_text('[{"id": 50}]')


def test_an_upsert_keeps_the_newer_row_of_kafka(upserted, folder):
    events = upserted
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


@pytest.mark.parametrize("upserts", [False, True])
def test_kafka_goes_on_behind_what_was_migrated_and_the_proof_holds(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    pipeline.produce(*({"id": n} for n in range(10)))
    pipeline.produce({"id": 20}, partition=1)
    table = TopicTable(pipeline.configuration, "events")
    old = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in range(6)]
    (pipeline.folder / "batch_1.json").write_text(json.dumps([*old, {"id": 30}]))
    table.migrate(str(pipeline.folder / "batch_1.json"))
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert {p: span.start for p, span in plan.spans.items()} == {0: 6, 1: 0}
    (standing,) = topic_status_reports(pipeline.configuration, pipeline.configuration.topics)
    assert standing.waiting == 5
    assert pipeline.take_in().rows == 5
    assert ids(table) == [*range(10), 20, 30]
    proof = prove_offsets(pipeline.configuration, pipeline.topic)
    assert [p.covered for p in proof.partitions] == [10, 1]
    assert proof.holds, proof


@pytest.mark.parametrize("upserts", [False, True])
def test_kafka_goes_on_behind_what_came_to_the_table_where_a_migration_was_cut_off(
    new_pipeline, upserts
):
    pipeline = new_pipeline(upserts=upserts)
    pipeline.produce(*({"id": n} for n in range(10)))
    table = TopicTable(pipeline.configuration, "events")
    files = [pipeline.folder / f"batch_{number}.json" for number in range(2)]
    for number, file in enumerate(files):
        offsets = range(3 * number, 3 * number + 3)
        old = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in offsets]
        file.write_text(json.dumps(old))
    table.migrate(str(files[0]))
    with pytest.MonkeyPatch.context() as killing:
        killing.setattr(migration.DirectWriter, "write", die)
        with pytest.raises(KilledError):
            table.migrate(str(files[1]))
    assert pipeline.take_in().rows == 7
    assert ids(table) == list(range(10))
    table.migrate(str(files[1]))
    assert ids(table) == list(range(10))
    assert {check.problem for file in files for check in table.verify_migration(str(file))} == {
        None
    }
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def use_another_topic(pipeline) -> None:
    """Change the Kafka topic of the section to a new one, which has ten records."""
    pipeline.kafka_topic += "-other"
    pipeline.broker.create_topic(pipeline.kafka_topic, 2)
    pipeline.produce(*({"id": 100 + n} for n in range(10)))
    pipeline.write_file()


@pytest.mark.parametrize("upserts", [False, True])
def test_offsets_of_migrated_records_skip_no_records_of_another_topic(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    file = pipeline.folder / "batch_1.json"
    old = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in range(6)]
    file.write_text(json.dumps(old))
    TopicTable(pipeline.configuration, "events").migrate(str(file))
    use_another_topic(pipeline)
    table = TopicTable(pipeline.configuration, "events")
    assert table.migrate(str(file)).known == 1
    file.with_name("batch_2.json").write_text('[{"id": 7}]')
    assert table.migrate(str(file.with_name("batch_2.json"))).offsets == {}
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert plan.spans[0].start == 0
    assert pipeline.take_in().rows == 10
    assert ids(table) == [*range(6), 7, *range(100, 110)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_a_batch_that_was_cut_off_is_written_for_the_topic_that_it_had(new_pipeline):
    pipeline = new_pipeline()
    first_topic = pipeline.kafka_topic
    file = pipeline.folder / "batch_1.json"
    old = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in range(6)]
    file.write_text(json.dumps(old))
    with pytest.MonkeyPatch.context() as killing:
        killing.setattr(migration.DirectWriter, "write", die)
        with pytest.raises(KilledError):
            TopicTable(pipeline.configuration, "events").migrate(str(file))
    use_another_topic(pipeline)
    assert pipeline.take_in().rows == 10
    table = TopicTable(pipeline.configuration, "events")
    table.migrate(str(file))
    rows = pipeline.table.to_arrow(columns=["_kafka_topic", "id"]).to_pylist()
    assert sorted(r["id"] for r in rows if r["_kafka_topic"] == first_topic) == list(range(6))
    assert [check.problem for check in table.verify_migration(str(file))] == [None]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_kafka_that_ends_before_the_migrated_records_is_told_and_nothing_is_covered(small_pipeline):
    small_pipeline.produce({"id": 0})
    (small_pipeline.folder / "batch_1.json").write_text(
        '[{"id": 7, "_kafka_partition": 0, "_kafka_offset": 7}]'
    )
    table = TopicTable(small_pipeline.configuration, "events")
    version = table.migrate(str(small_pipeline.folder / "batch_1.json")).version
    with pytest.raises(PipelineError, match="is at offset 8 .* but the topic ends at 1"):
        small_pipeline.take_in()
    assert table.history(1)[0]["version"] == version


def test_endings_in_upper_case_are_migrated_and_other_files_are_named(events, tmp_path):
    folder = tmp_path / "json"
    folder.mkdir()
    for number, name in enumerate(["a.json", "A.json", "B.JSON", "c.Jsonl", "d.NDJSON"]):
        (folder / name).write_text(json.dumps({"id": number}))
    for number, name in enumerate(["e.JSON.GZ", "f.json.Gz"], 5):
        (folder / name).write_bytes(gzip.compress(json.dumps({"id": number}).encode()))
    (folder / "a").mkdir()
    for name in ["g.json.zst", "h.jsonl.1", "_SUCCESS", ".h.json.crc"]:
        (folder / name).write_text("x")
    report = events.migrate(str(folder))
    assert ids(events) == list(range(7))
    assert (report.other_files, report.other_file) == (2, "g.json.zst")
    assert events.migrate(str(folder)).known == 7


@pytest.mark.parametrize("inside", ["x.json", "json/x.json"])
def test_a_file_with_the_name_of_its_folder_is_migrated_once(events, tmp_path, inside):
    folder = tmp_path / "json" / "x.json"
    (folder / inside).parent.mkdir(parents=True)
    (folder / inside).write_text('{"id": 1}\n')
    (folder / "part.json").write_text('{"id": 2}\n')
    assert events.migrate(str(folder)).files == 2
    assert events.migrate(str(folder)).known == 2
    assert events.migrate(str(folder / inside)).known == 1
    assert events.migrate(str(tmp_path / "json")).known == 2
    assert ids(events) == [1, 2]
    assert all(check.problem is None for check in events.verify_migration(str(folder)))


def test_a_batch_with_a_file_named_like_its_folder_is_repeated(events, tmp_path, monkeypatch):
    folder = tmp_path / "json" / "x.json"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text('{"id": 1}\n')
    with monkeypatch.context() as killed:
        killed.setattr(DirectWriter, "write", die)
        with pytest.raises(KilledError):
            events.migrate(str(folder))
    events.migrate(str(folder))
    assert ids(events) == [1]


def test_two_migrations_that_repeat_one_batch_write_its_dead_letters_once(
    events, growing, monkeypatch
):
    folder = growing('{"id": 1}\n{nope\n')
    with monkeypatch.context() as killed:
        killed.setattr(DirectWriter, "write", die)
        with pytest.raises(KilledError):
            events.migrate(folder)
    read = DirectWriter._read

    def read_after_the_other(writer, records):
        monkeypatch.setattr(DirectWriter, "_read", read)
        assert events.migrate(folder).known == 1
        return read(writer, records)

    monkeypatch.setattr(DirectWriter, "_read", read_after_the_other)
    with pytest.raises(PipelineError, match="another process migrates"):
        events.migrate(folder)
    assert dead_letter_values(events) == [b"{nope"]
    assert ids(events) == [1]
    assert all(check.problem is None for check in events.verify_migration(folder))
