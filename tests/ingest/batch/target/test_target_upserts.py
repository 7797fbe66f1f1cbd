"""Upserts of a topic's rows into its target table."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.engines.arrow.json import ArrowJsonHandler
from bayou.errors import CommitConflictError
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.batch.target.target_upserts import TargetUpserts, empty_rows
from bayou.ingest.config import load_configuration
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.schema.policy import SchemaPolicy
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.ingest.upsert import DELETED
from bayou.ingest.upsert.deleted_keys import DeletedKeys
from bayou.protocol.schema import LONG, STRING, StructField, StructType

CONFIG = """\
connector:
  topics:
    people:
      kafka-topic: people
      destination:
        table-path: people
        key-columns: [name]
        delta-config: {enable-upsert: true}
"""
TOKYO = "  spark: {spark.sql.session.timeZone: Asia/Tokyo}\n"
COLUMNS = StructType(
    (StructField(name="name", data_type=STRING), StructField(name="age", data_type=LONG))
)
KAFKA = KafkaTopic(
    name="people", cluster_id="c", topic_id="t", bounds={0: OffsetSpan(start=0, end=9)}
)


class People:
    """A topic of people, whose rows are upserted as the driver of a batch does it."""

    def __init__(self, folder):
        (folder / "p.yaml").write_text(CONFIG)
        topic = load_configuration(folder / "p.yaml", environment={}).topic("people")
        engine = for_path(topic.table_path, {})
        self.path = topic.table_path
        self.target = TargetTable(engine, topic, KAFKA)
        self.target.open()
        self.upserts = TargetUpserts(engine, topic, self.target)
        self.layout = SchemaPolicy(topic, self.target, RecordSchema(columns=COLUMNS)).layout(
            COLUMNS
        )

    def rows(self, *rows):
        """Return a batch's rows of (offset, name, age); None as the age deletes the name."""
        now = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
        values = [
            {
                "name": name,
                "age": age,
                "_kafka_topic": "people",
                "_kafka_partition": 0,
                "_kafka_offset": offset,
                "_ingestion_timestamp": now,
                "_processed_at": now,
                "_kafka_timestamp": now,
                DELETED: age is None,
            }
            for offset, name, age in rows
        ]
        return pa.Table.from_pylist(values, empty_rows(self.layout).schema)

    def upsert(self, rows, spans):
        winners = self.upserts.last_of_each_key(rows)
        return self.upserts.upsert(winners, self.layout, spans)

    def upsert_with(self, rows, spans):
        def merge(table, snapshot, transaction_ids, table_properties):
            winners = table.last_of_each_key(snapshot, rows)
            table.deleted_keys.remember(winners)
            return table.merge(
                snapshot,
                winners,
                transaction_ids=transaction_ids,
                table_properties=table_properties,
            )

        return self.upserts.upsert_with(merge, self.layout, spans, tags={"n": "1"})

    def read(self):
        rows = bayou.table(self.path).to_arrow(columns=["name", "age"]).to_pylist()
        return {row["name"]: row["age"] for row in rows}


@pytest.mark.parametrize("method", ["upsert", "upsert_with"])
def test_the_last_row_of_each_key_is_merged_with_the_offsets(tmp_path, method):
    people = People(tmp_path)
    write = getattr(people, method)
    write(people.rows((0, "ann", 1), (1, "bob", 1), (2, "ann", 2)), {0: OffsetSpan(start=0, end=3)})
    assert people.read() == {"ann": 2, "bob": 1}
    assert people.target.covered == {0: 3}
    people.target.open()
    assert people.target.covered == {0: 3}
    write(people.rows((3, "bob", None), (4, "cleo", 5)), {0: OffsetSpan(start=3, end=5)})
    assert people.read() == {"ann": 2, "cleo": 5}
    assert people.target.covered == {0: 5}


def test_deleted_keys_of_an_earlier_table_are_cleared_only_before_the_target_exists(tmp_path):
    people = People(tmp_path)
    people.upsert(people.rows((0, "ann", 1), (1, "bob", None)), {0: OffsetSpan(start=0, end=2)})
    deleted = bayou.table(f"{people.path}_deleted_keys")
    assert deleted.to_arrow(columns=["name"]).to_pylist() == [{"name": "bob"}]
    people.target.open()
    people.upserts.clear_deleted_keys()
    assert deleted.to_arrow(columns=["name"]).num_rows == 1
    fresh = People(tmp_path)
    (tmp_path / "people").rename(tmp_path / "moved")
    fresh.target.open()
    fresh.upserts.clear_deleted_keys()
    assert deleted.to_arrow(columns=["name"]).num_rows == 0


def test_deleted_keys_of_a_table_that_another_process_creates_meanwhile_remain(
    tmp_path, monkeypatch
):
    before, slow, other = (People(tmp_path) for _ in range(3))
    before.upsert(before.rows((0, "bob", None)), {0: OffsetSpan(start=0, end=1)})
    (tmp_path / "people").rename(tmp_path / "moved")
    latest_snapshot = TargetTable.latest_snapshot

    def then_other_creates_it(target):
        missing = latest_snapshot(target)
        monkeypatch.setattr(TargetTable, "latest_snapshot", latest_snapshot)
        other.upsert(other.rows((0, "ann", 1)), {0: OffsetSpan(start=0, end=1)})
        other.target.open()
        other.upsert(other.rows((1, "ann", None)), {0: OffsetSpan(start=1, end=2)})
        return missing

    monkeypatch.setattr(TargetTable, "latest_snapshot", then_other_creates_it)
    with pytest.raises(CommitConflictError):
        slow.upsert(slow.rows((0, "ann", 1)), {0: OffsetSpan(start=0, end=1)})
    deleted = bayou.table(f"{slow.path}_deleted_keys")
    assert deleted.to_arrow(columns=["name"]).to_pylist() == [{"name": "ann"}]


@pytest.mark.parametrize("first_batch", ["upsert", "upsert_with"])
def test_a_delete_is_kept_if_another_process_is_about_to_create_the_table(
    tmp_path, monkeypatch, first_batch
):
    one, other = People(tmp_path), People(tmp_path)
    remember = DeletedKeys.remember

    def then_other_clears(keys, rows):
        remember(keys, rows)
        monkeypatch.setattr(DeletedKeys, "remember", remember)
        with pytest.raises(CommitConflictError):
            other.upsert(other.rows((0, "ann", 1)), {0: OffsetSpan(start=0, end=1)})

    monkeypatch.setattr(DeletedKeys, "remember", then_other_clears)
    getattr(one, first_batch)(
        one.rows((1, "bob", None), (2, "cleo", 3)), {0: OffsetSpan(start=1, end=3)}
    )
    assert one.read() == {"cleo": 3}
    deleted = bayou.table(f"{one.path}_deleted_keys")
    assert deleted.to_arrow(columns=["name"]).to_pylist() == [{"name": "bob"}]
    one.target.open()
    one.upsert(one.rows((0, "bob", 1)), {0: OffsetSpan(start=3, end=4)})
    assert one.read() == {"cleo": 3}


class Stopped(BaseException):
    """The process stops."""


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("commit", range(4))
def test_a_first_batch_that_stopped_at_a_commit_is_repeated(
    tmp_path, monkeypatch, commit, is_written
):
    earlier = People(tmp_path)
    earlier.upsert(earlier.rows((9, "ann", None)), {0: OffsetSpan(start=9, end=10)})
    (tmp_path / "people").rename(tmp_path / "moved")
    batch, spans = [(1, "ann", 1), (2, "bob", None)], {0: OffsetSpan(start=1, end=3)}
    write = ArrowJsonHandler.write_json_file_atomically
    commits = []

    def stop(handler, path, *arguments, **options):
        if len(commits) == commit and not is_written:
            raise Stopped
        written = write(handler, path, *arguments, **options)
        commits.append(path)
        if len(commits) > commit:
            raise Stopped
        return written

    stopped = People(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(ArrowJsonHandler, "write_json_file_atomically", stop)
        with pytest.raises(Stopped):
            stopped.upsert(stopped.rows(*batch), spans)
    people = People(tmp_path)
    is_committed = commit == 3 and is_written
    assert people.target.covered == ({0: 3} if is_committed else {})
    if not is_committed:
        people.upsert(people.rows(*batch), spans)
    people.target.open()
    people.upsert(people.rows((0, "bob", 1)), {0: OffsetSpan(start=3, end=4)})
    assert people.read() == {"ann": 1}


def test_a_first_batch_without_deletes_creates_the_table_in_one_commit(tmp_path):
    people = People(tmp_path)
    people.upsert(people.rows((0, "ann", 1)), {0: OffsetSpan(start=0, end=1)})
    assert bayou.table(people.path).snapshot().version == 0
    assert people.read() == {"ann": 1}


def test_the_time_zone_of_a_topic_is_that_of_the_session(tmp_path):
    file = tmp_path / "p.yaml"
    for conf, zone in (("", "UTC"), (TOKYO, "Asia/Tokyo")):
        file.write_text(CONFIG + conf)
        topic = load_configuration(file, environment={}).topic("people")
        assert topic.time_zone == zone
