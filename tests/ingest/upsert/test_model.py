"""Upserts against a dictionary, key for key."""

from __future__ import annotations

import datetime as dt
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou.engines import for_path
from bayou.errors import PipelineError
from bayou.ingest.upsert import DELETED, UpsertKeys, UpsertTable
from bayou.kernel import Table
from support.examples import examples

ROUNDS = examples(25)
SCHEMA = pa.schema(
    {
        "user": pa.string(),
        "item": pa.int64(),
        "kind": pa.string(),
        "rank": pa.int64(),
        "_kafka_topic": pa.string(),
        "_kafka_partition": pa.int32(),
        "_kafka_offset": pa.int64(),
        "_kafka_timestamp": pa.timestamp("us", tz="UTC"),
        DELETED: pa.bool_(),
    }
)

records = st.tuples(
    st.sampled_from(["u", "v", None]),
    st.sampled_from([1, 2]),
    st.sampled_from(["a", "b", None]),  # the partition column
    st.sampled_from([None, 1, 2, 3]),  # the ordering column
    st.integers(0, 4),  # the timestamp
    st.sampled_from(["row", "row", "row", "tombstone", "delete"]),
)


def at(second):
    return dt.datetime(2024, 1, 5, 0, 0, second, tzinfo=dt.UTC)


def batch_of(numbered):
    columns = {name: [] for name in SCHEMA.names}
    for offset, (user, item, kind, rank, second, what) in numbered:
        bare = what == "tombstone"
        row = (user, item, None if bare else kind, None if bare else rank)
        values = (*row, "t", 0, offset, at(second), what != "row")
        for name, value in zip(SCHEMA.names, values, strict=True):
            columns[name].append(value)
    return pa.table(columns, schema=SCHEMA)


def modelled(sent, *, ordering):
    """What a dictionary has after the records one by one."""
    state = {}
    for offset, (user, item, kind, rank, second, what) in enumerate(sent):
        known = state.get((user, item))
        value = rank if ordering else 0
        if what == "tombstone" and ordering:
            value = known[0][0] if known else -1
        order = (-1 if value is None else value, second, offset)
        # A tombstone without an ordering value, as a delete whose image lacks it, falls on all.
        bare = ordering and (what == "tombstone" or (what == "delete" and rank is None))
        if bare:
            order = (known[0][0] if known else -1, second, offset)
        if bare or known is None or order > known[0]:
            state[user, item] = (order, None if what != "row" else (kind, rank, offset))
    return {key: row for key, (_, row) in state.items() if row is not None}


class Pipeline:
    """Batches into a table, with the same commits as the pipeline's."""

    def __init__(self, path, keys, *, partitioned):
        self.engine = for_path(path, {})
        self.table = Table.for_path(self.engine, path)
        self.path = path
        self.upserts = UpsertTable(self.engine, path, keys, engine_info="test")
        self.partitioned = partitioned

    def process(self, rows, *, end, dies):
        snapshot = None
        if self.table.exists(self.engine):
            snapshot = self.table.latest_snapshot(self.engine)
        winners = self.upserts.last_of_each_key(snapshot, rows)
        if snapshot is None:
            columns = [n for n in winners.column_names if not n.startswith("_bayou_")]
            no_rows = winners.select(columns).slice(0, 0)
            bayou.write(self.path, no_rows, partition_by=["kind"] if self.partitioned else None)
            snapshot = self.table.latest_snapshot(self.engine)
        self.upserts.deleted_keys.remember(winners)
        if dies:
            return
        outcome = self.upserts.merge(
            snapshot, winners, transaction_ids={"t": end}, table_properties={}
        )
        assert outcome.version == snapshot.version + 1

    def rows(self):
        rows = bayou.table(self.path).to_arrow().to_pylist()
        found = {(r["user"], r["item"]): (r["kind"], r["rank"], r["_kafka_offset"]) for r in rows}
        assert len(found) == len(rows)
        return found


@settings(max_examples=ROUNDS)
@given(
    sent=st.lists(records, min_size=1, max_size=30),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=20),
    ordering=st.booleans(),
    partitioned=st.booleans(),
)
def test_a_table_of_upserts_equals_a_dictionary(sent, sizes, ordering, partitioned):
    keys = UpsertKeys(columns=("user", "item"), ordering="rank" if ordering else None)
    pipeline = Pipeline(f"memory://upserts/{uuid.uuid4()}", keys, partitioned=partitioned)
    numbered = list(enumerate(sent))
    begin = 0
    turns = iter([*sizes, *[(len(sent), False)] * len(sent)])
    while begin < len(sent):
        size, dies = next(turns)
        part = numbered[begin : begin + size]
        pipeline.process(batch_of(part), end=begin + size, dies=dies)
        begin += 0 if dies else size
    assert pipeline.rows() == modelled(sent, ordering=ordering)


def one(offset, user, *, rank=None, what="row"):
    return batch_of([(offset, (user, 1, "a", rank, 0, what))])


def test_an_ordering_column_may_come_later():
    path = f"memory://upserts/{uuid.uuid4()}"
    old = Pipeline(path, UpsertKeys(columns=("user", "item")), partitioned=False)
    for offset, what in enumerate(["row", "row", "delete"]):
        rows = one(offset, "u" if what == "row" else "w", what=what)
        old.process(rows.drop_columns("rank"), end=offset, dies=False)
    new = Pipeline(path, UpsertKeys(columns=("user", "item"), ordering="rank"), partitioned=False)
    new.process(one(3, "u", rank=2), end=3, dies=False)
    new.process(one(4, "u", rank=1), end=4, dies=False)
    new.process(one(5, "w", rank=1, what="delete"), end=5, dies=False)
    new.process(one(6, "w", rank=0), end=6, dies=False)
    assert new.rows() == {("u", 1): ("a", 2, 3)}


def test_of_the_deleted_keys_only_those_of_the_batch_are_held():
    keys = UpsertKeys(columns=("user", "item"))
    pipeline = Pipeline(f"memory://upserts/{uuid.uuid4()}", keys, partitioned=False)
    rows = [(n, (user, 1, "a", None, 0, "delete")) for n, user in enumerate("abcd")]
    pipeline.upserts.deleted_keys.remember(pipeline.upserts.last_of_each_key(None, batch_of(rows)))
    asked = pa.concat_tables([one(9, "a"), one(10, "d")])
    assert sorted(pipeline.upserts.deleted_keys.of(asked)["user"].to_pylist()) == ["a", "d"]
    assert pipeline.upserts.deleted_keys.of(asked.slice(0, 0)).num_rows == 0


def by_user():
    keys = UpsertKeys(columns=("user",))
    return Pipeline(f"memory://upserts/{uuid.uuid4()}", keys, partitioned=False)


def remembered(pipeline):
    snapshot = bayou.table(pipeline.upserts.deleted_keys.path)
    return sorted(snapshot.to_arrow()["user"].to_pylist())


def test_a_deleted_key_is_forgotten_after_the_retention_by_both_clocks():
    pipeline = Pipeline(
        f"memory://upserts/{uuid.uuid4()}", UpsertKeys(columns=("user",)), partitioned=False
    )
    known, second = pipeline.upserts.deleted_keys, dt.timedelta(seconds=1)
    for offset, user, moment in [(0, "a", 0), (1, "b", 30)]:
        rows = batch_of([(offset, (user, 1, "a", None, moment, "delete"))])
        known.remember(pipeline.upserts.last_of_each_key(None, rows))
    far = dt.datetime.now(dt.UTC) + dt.timedelta(days=9000)
    assert known.forget(31 * second, now=far) == 0  # this machine's clock has jumped ahead
    assert known.forget(29 * second) == 0  # the keys have come just now, old as they are
    assert remembered(pipeline) == ["a", "b"]
    assert known.forget(29 * second, now=at(40)) == 0  # it has jumped back


def test_what_is_forgotten_no_longer_keeps_out_older_records():
    pipeline = Pipeline(
        f"memory://upserts/{uuid.uuid4()}", UpsertKeys(columns=("user",)), partitioned=False
    )
    known = pipeline.upserts.deleted_keys
    old, new = dt.datetime.now(dt.UTC) - dt.timedelta(days=40), dt.datetime.now(dt.UTC)
    rows = batch_of([(n, (u, 1, "a", None, 0, "delete")) for n, u in enumerate("ab")])
    times = pa.array([old, new], pa.timestamp("us", tz="UTC"))
    rows = rows.set_column(
        rows.schema.get_field_index("_kafka_timestamp"), "_kafka_timestamp", times
    )
    known.remember(pipeline.upserts.last_of_each_key(None, rows))
    assert known.forget(dt.timedelta(days=30)) == 0  # they have come just now
    bayou.table(known.path).update({"_remembered_at": "TIMESTAMP '2020-01-01 00:00:00'"})
    assert known.forget(dt.timedelta(days=30)) == 1
    assert remembered(pipeline) == ["b"]
    pipeline.process(one(9, "a"), end=9, dies=False)
    pipeline.process(one(10, "b"), end=10, dies=False)
    assert pipeline.rows() == {("a", 1): ("a", None, 9)}


def test_other_keys_than_those_that_were_deleted_are_refused():
    path = f"memory://upserts/{uuid.uuid4()}"
    first = Pipeline(path, UpsertKeys(columns=("user",)), partitioned=False)
    first.process(one(0, "u", what="delete"), end=0, dies=False)
    second = Pipeline(path, UpsertKeys(columns=("user", "item")), partitioned=False)
    with pytest.raises(PipelineError, match="was created with other key-columns"):
        second.upserts.last_of_each_key(None, one(1, "u"))
