"""Records that end the worker process that reads them."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from bayou.ingest.batch.batch_task import MAX_CRASHING_RECORDS, crashing_offsets
from bayou.ingest.decode.formats import RecordFormat, Registry, RegistryAddress
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.retries import BatchFailedError
from bayou.ingest.schema import record_schema
from support.in_process_pipeline import InProcessContext, take_in

CRASH = "Job aborted: SparkException: Python worker exited unexpectedly (crashed)."


class CrashingContext(InProcessContext):
    """Tasks that read a record with this text end, as in a process that crashes."""

    def __init__(self, crashes):
        super().__init__()
        self.crashes = crashes
        self.jobs = 0

    def parallelize(self, values, _slices):
        self._values = list(values)
        return self

    def map(self, task):
        self.jobs += 1
        batch = task.__self__
        for share in self._values:
            for records in batch.records.read(share):
                for row in records.select(["value", "partition", "offset"]).to_pylist():
                    aside = row["offset"] in batch.crashing_offsets.get(row["partition"], ())
                    if not aside and self.crashes(row["value"]):
                        raise PySparkException(CRASH)
        return super().map(task)


@pytest.fixture
def pipeline(small_pipeline):
    for partition in (0, 1):
        values = [{"id": n, "name": "x" * partition} for n in range(20)]
        small_pipeline.produce(*values, partition=partition)
    return small_pipeline


def test_a_record_that_ends_its_worker_is_set_aside_and_all_others_are_rows(pipeline):
    pipeline.produce({"id": 100, "name": "poison"}, {"id": 101}, partition=1)
    pipeline.produce({"id": 102, "name": "poison"}, {"id": "no"}, partition=0)
    context = CrashingContext(lambda value: b"poison" in value)
    (report,) = take_in(pipeline.file, session=context)
    assert (report.rows, report.dead_letters, report.retries) == (41, 3, 0)
    ids = pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == sorted([*range(20), *range(20), 101])
    letters = pipeline.dead_letters.to_arrow().to_pylist()
    poison = {(r["partition"], r["offset"]) for r in letters if b"poison" in r["value"]}
    assert poison == {(0, 20), (1, 20)}
    assert {r["reason"] for r in letters if b"poison" in r["value"]} == {
        "the worker process crashed in each attempt to read this record"
    }
    (again,) = take_in(pipeline.file, session=context)
    assert (again.rows, again.dead_letters) == (0, 0)


def test_no_file_of_a_part_that_was_tried_alone_stays(pipeline):
    pipeline.produce({"id": 100, "name": "poison"})
    take_in(pipeline.file, session=CrashingContext(lambda value: b"poison" in value))
    files = {p.name for p in (pipeline.folder / "lake" / "events").rglob("*.parquet")}
    assert len(files) == pipeline.table.detail().num_files


def test_a_worker_that_ends_for_another_reason_sets_no_record_aside(pipeline, monkeypatch):
    left = [1]  # the system took its memory once

    def crashes(value):
        return bool(left and left.pop())

    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)
    (report,) = take_in(pipeline.file, session=CrashingContext(crashes))
    assert (report.rows, report.dead_letters, report.retries) == (40, 0, 1)


def test_workers_that_end_whatever_they_read_fail_the_batch(pipeline, monkeypatch):
    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)
    context = CrashingContext(lambda value: True)
    with pytest.raises(BatchFailedError, match="worker exited unexpectedly"):
        take_in(pipeline.file, session=context)
    assert not pipeline.dead_letters.exists()


spans = st.dictionaries(
    st.integers(0, 4),
    st.builds(
        lambda start, size: OffsetSpan(start=start, end=start + size),
        st.integers(0, 10**12),
        st.integers(1, 5000),
    ),
    min_size=1,
)


@given(spans=spans, data=st.data())
def test_exactly_the_records_that_crash_alone_are_found(spans, data):
    record = st.sampled_from(sorted(spans)).flatmap(
        lambda p: st.tuples(st.just(p), st.integers(spans[p].start, spans[p].end - 1))
    )
    bad = data.draw(st.sets(record, min_size=1, max_size=MAX_CRASHING_RECORDS))
    tried = 0

    def crashes(part):
        nonlocal tried
        tried += 1
        return any(p in part and part[p].start <= at < part[p].end for p, at in bad)

    found = crashing_offsets(spans, crashes)
    assert {(p, at) for p, offsets in found.items() for at in offsets} == bad
    assert tried <= len(bad) * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class KillingRegistry(Registry):
    """Ends the process that asks for the schema 66."""

    def schema(self, number, *, serialized=False):
        if number == 66:
            os.kill(os.getpid(), signal.SIGKILL)
        fields = [{"name": "id", "type": "long"}]
        return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}


def test_a_record_that_kills_a_process_of_spark_is_set_aside(small_pipeline, spark, monkeypatch):
    header = b"\0\0\0\0"
    small_pipeline.produce(header + b"\1\x02", header + b"\x42")
    registry = KillingRegistry(address=RegistryAddress(url="http://127.0.0.1:9"))
    values_are = RecordFormat(name="avro", registry=registry)
    monkeypatch.setattr(record_schema, "_topic_format", lambda *_: values_are)
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        (report,) = take_in(small_pipeline.file, session=spark)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert (report.rows, report.dead_letters, report.retries) == (1, 1, 0)
    (letter,) = small_pipeline.dead_letters.to_arrow().to_pylist()
    assert letter["value"] == header + b"\x42"
