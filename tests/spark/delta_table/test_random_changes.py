"""Random changes of random tables, by whoever does the work, against a dictionary."""

from __future__ import annotations

import shutil

import deltalake
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table
from bayou.spark import DeltaTable
from support.examples import examples
from support.table_rows import read_feed, replayed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

EXAMPLES = examples(2)
"""More for a long run: each is a table and some changes, about ten seconds."""

PLACES = {
    "driver": {},
    "executors": {"bayou.rowOperations.localBytes": "0"},
    "plan": {"bayou.rowOperations.localBytes": "0", "bayou.rowOperations.sourceBytes": "0"},
}
PROPERTIES = (
    "delta.enableDeletionVectors",
    "delta.enableChangeDataFeed",
    "delta.enableRowTracking",
    "delta.columnMapping.mode",
)

flags = st.lists(st.booleans(), min_size=len(PROPERTIES), max_size=len(PROPERTIES))
keys = st.integers(0, 30)
groups = st.sampled_from(["a", "b c", None])
rows = st.dictionaries(keys, st.tuples(st.integers(-5, 5), groups), max_size=12)
remainders = st.tuples(st.integers(2, 4), st.integers(0, 3))
changes = st.one_of(
    st.tuples(st.just("append"), rows),
    st.tuples(st.just("delete"), remainders),
    st.tuples(st.just("delete group"), groups),
    st.tuples(st.just("update"), remainders),
    st.tuples(st.just("merge"), rows),
    st.tuples(st.just("merge by source"), rows),
    st.tuples(st.just("optimize"), st.none()),
)
histories = st.lists(st.tuples(st.sampled_from(sorted(PLACES)), changes), min_size=3, max_size=6)


def arrow(model):
    return pa.table(
        {
            "id": pa.array(list(model), pa.int64()),
            "n": pa.array([n for n, _ in model.values()], pa.int64()),
            "p": pa.array([p for _, p in model.values()], pa.string()),
        }
    )


def change(spark, table, path, model, place, what):
    """Change the table, and give what the model is then."""
    kind, given_ = what
    if kind == "append":
        fresh = {k: v for k, v in given_.items() if k not in model}
        bayou.write(path, arrow(fresh), mode="append")
        return model | fresh
    if kind == "optimize":
        table.optimize().executeCompaction()
        return model
    if kind == "delete group":
        table.delete(F.col("p").isNull() if given_ is None else F.col("p") == given_)
        return {k: v for k, v in model.items() if v[1] != given_}
    if kind in ("delete", "update"):
        divisor, rest = given_
        chosen = f"id % {divisor} = {rest}"
        if place == "plan":  # what only Spark can evaluate
            spark.range(40).where(chosen).createOrReplaceTempView("chosen")
            chosen = "id IN (SELECT id FROM chosen)"
        if kind == "delete":
            table.delete(chosen)
            return {k: v for k, v in model.items() if k % divisor != rest}
        table.update(chosen, {"n": "n + 1", "p": "'new'"})
        return {k: (v[0] + 1, "new") if k % divisor == rest else v for k, v in model.items()}
    schema = "id long, n long, p string"
    source = spark.createDataFrame([(k, *v) for k, v in given_.items()], schema)
    merging = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenMatchedDelete("s.n < 0").whenMatchedUpdateAll("s.n > t.n")
    merging = merging.whenNotMatchedInsertAll("s.n <> 0")
    if kind == "merge by source":
        merging = merging.whenNotMatchedBySourceUpdate("t.id < 5", {"n": "t.n * 2"})
        merging = merging.whenNotMatchedBySourceDelete("t.n > 6")
    merging.execute()
    after = {}
    for key, (number, group) in model.items():
        if key in given_:
            brought = given_[key]
            if brought[0] >= 0:
                after[key] = brought if brought[0] > number else (number, group)
        elif kind == "merge" or (key >= 5 and number <= 6):
            after[key] = (number, group)
        elif key < 5:
            after[key] = (number * 2, group)
    return after | {k: v for k, v in given_.items() if k not in model and v[0] != 0}


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(flags, st.booleans(), rows, histories)
def test_rows_are_what_a_dictionary_says(spark, tmp_path, on, partitioned, first, history):
    path = str(tmp_path / "t")
    shutil.rmtree(path, ignore_errors=True)
    properties = {key: str(value).lower() for key, value in zip(PROPERTIES, on, strict=True)}
    properties["delta.columnMapping.mode"] = "name" if on[-1] else "none"
    bayou.write(
        path, arrow(first), partition_by=["p"] if partitioned else [], configuration=properties
    )
    table, model = DeltaTable.forPath(spark, path), first
    ids = check(path, first, {}, properties)
    for place, what in history:
        before = model
        for key, value in PLACES[place].items():
            spark.conf.set(key, value)
        try:
            model = change(spark, table, path, model, place, what)
        finally:
            for key in PLACES[place]:
                spark.conf.unset(key)
        found = {r["id"]: (r["n"], r["p"]) for r in table.toDF().collect()}
        assert found == model
        ids = check(path, model, {k: v for k, v in ids.items() if k in before}, properties)
        check_feed(path, before, model, properties)
    if properties["delta.enableDeletionVectors"] == "false" and not on[-1]:
        read = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
        assert {r["id"]: (r["n"], r["p"]) for r in read} == model


def check(path, model, ids, properties):
    """Rows as the kernel reads them; rows that stay, or get new values, keep their ids."""
    tracked = properties["delta.enableRowTracking"] == "true"
    columns = ["id", "n", "p", *(["_metadata.row_id"] if tracked else [])]
    read = [tuple(row.values()) for row in bayou.table(path).to_arrow(columns).to_pylist()]
    assert len(read) == len(model)
    assert {row[0]: row[1:3] for row in read} == model
    found = {row[0]: row[3] for row in read} if tracked else {}
    assert None not in found.values()
    assert len(set(found.values())) == len(found)
    assert {k: v for k, v in found.items() if k in ids} == {
        k: v for k, v in ids.items() if k in found
    }
    return found


def check_feed(path, before, after, properties):
    """The feed of the latest version leads from the rows before to the rows after."""
    if properties["delta.enableChangeDataFeed"] != "true" or before == after:
        return
    version = bayou.table(path).snapshot().version
    engine = ArrowEngine()
    feed = read_feed(engine, Table.for_path(engine, path), version, version)
    first = {k: {"id": k, "n": n, "p": p} for k, (n, p) in before.items()}
    last = {k: {"id": k, "n": n, "p": p} for k, (n, p) in after.items()}
    assert replayed(feed, first, ("id", "n", "p")) == last
