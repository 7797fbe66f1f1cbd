"""`tightBounds`: statistics of a table with deletion vectors say whether their bounds are tight."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.kernel import TransactionState
from bayou.protocol.schema import LONG, StructField, StructType
from bayou.protocol.stats import FileStatistics

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "table")


def bounds_said(path: str) -> dict[str, object]:
    """By file that is live: what its statistics say of their bounds."""
    files = bayou.table(path).snapshot().files()
    names, texts = files["path"].to_pylist(), files["stats"].to_pylist()
    return {
        name: json.loads(text).get("tightBounds") for name, text in zip(names, texts, strict=True)
    }


@pytest.mark.parametrize("partition_by", [None, ["p"]])
def test_new_files_say_that_their_bounds_are_tight(path, partition_by):
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    bayou.write(path, rows, partition_by=partition_by, configuration=VECTORS)
    assert set(bounds_said(path).values()) == {True}


def test_without_the_feature_nothing_is_said(path):
    bayou.write(path, pa.table({"id": [1]}))
    assert list(bounds_said(path).values()) == [None]


def test_the_feature_counts_and_not_whether_vectors_are_wanted_now(path):
    bayou.write(path, pa.table({"id": [1]}), configuration=VECTORS)
    bayou.table(path).alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    bayou.write(path, pa.table({"id": [2]}))
    assert list(bounds_said(path).values()) == [True, True]


def test_a_vector_makes_the_bounds_wide_and_what_is_written_anew_has_tight_ones(path):
    bayou.write(path, pa.table({"id": list(range(10))}), configuration=VECTORS)
    table = bayou.table(path)
    table.delete("id = 3")
    assert list(bounds_said(path).values()) == [False]
    table.update({"id": "id + 100"}, predicate="id = 4")
    assert sorted(bounds_said(path).values(), key=bool) == [False, True]
    source = pa.table({"id": [5, 50]})
    merge = table.merge(source, "target.id = source.id")
    merge.when_matched_update({"id": "source.id + 200"}).when_not_matched_insert_all().execute()
    said = bounds_said(path)
    assert sorted(said.values(), key=bool)[:2] == [False, True]
    table.optimize()
    assert list(bounds_said(path).values()) == [True]


def test_a_folder_becomes_a_table_whose_bounds_are_tight(tmp_path):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    bayou.table(str(tmp_path)).convert(configuration=VECTORS)
    assert list(bounds_said(str(tmp_path)).values()) == [True]


def test_what_a_connectors_own_writer_says_of_its_bounds_stays():
    state = TransactionState(
        table="/lake/t",
        schema=StructType((StructField(name="id", data_type=LONG),)),
        partition_columns=(),
        configuration={},
        records_tight_bounds=True,
    )
    state = TransactionState.from_bytes(state.to_bytes())
    said = [
        json.loads(state.statistics_json(FileStatistics(num_records=1, tight_bounds=given)))
        for given in (None, False)
    ]
    assert [s["tightBounds"] for s in said] == [True, False]
