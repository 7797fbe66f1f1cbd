"""Rows of `TableMachine`'s tables: generation, writing and reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from bayou.kernel import (
    CommitBoundary,
    Engine,
    Snapshot,
    Table,
    read_change_file,
    read_scan_file,
)
from bayou.protocol.schema import LONG, STRING, StructField, StructType
from support.table_model import Condition, Rows

__all__ = [
    "COLUMNS",
    "VALUES",
    "batch_of",
    "conditions",
    "read_feed",
    "read_rows",
    "replayed",
    "schema_of",
]

COLUMNS = ("id", "p", "v", "s")
"""Initial columns, which are never dropped. `p` may be the partition column. Columns that are added
later are integers."""

VALUES = st.fixed_dictionaries(
    {
        "p": st.none() | st.integers(0, 3),
        "v": st.none() | st.integers(-5, 10),
        "s": st.none() | st.sampled_from(["a", "ab", "b", "ö"]),
    }
)


def conditions() -> st.SearchStrategy[Condition]:
    """Return a strategy for conditions on a row."""
    return st.one_of(
        st.just(Condition(None, lambda _: True)),
        st.integers(0, 3).map(
            lambda p: Condition(f"p = {p}", lambda r: None if r["p"] is None else r["p"] == p)
        ),
        st.just(Condition("p IS NULL", lambda r: r["p"] is None)),
        st.integers(-3, 9).map(
            lambda v: Condition(f"v > {v}", lambda r: None if r["v"] is None else r["v"] > v)
        ),
        st.tuples(st.integers(2, 4), st.integers(0, 3)).map(
            lambda m: Condition(f"id % {m[0]} = {m[1]}", lambda r: r["id"] % m[0] == m[1])
        ),
        st.just(Condition("v IS NULL", lambda r: r["v"] is None)),
        st.just(
            Condition("NOT s LIKE 'a%'", lambda r: None if r["s"] is None else r["s"][0] != "a")
        ),
    )


def schema_of(columns: tuple[str, ...]) -> StructType:
    """Return the schema of a table with these columns."""
    return StructType(
        tuple(StructField(name=name, data_type=STRING if name == "s" else LONG) for name in columns)
    )


def batch_of(rows: Rows, columns: tuple[str, ...] = COLUMNS) -> list[pa.RecordBatch]:
    """Return rows as one batch. Its columns are those of the rows, or `columns` without rows."""
    names = list(next(iter(rows.values()))) if rows else list(columns)
    types = {name: pa.string() if name == "s" else pa.int64() for name in names}
    return [
        pa.RecordBatch.from_arrays(
            [pa.array([row[n] for row in rows.values()], types[n]) for n in names], names
        )
    ]


def read_rows(
    engine: Engine, snapshot: Snapshot, metadata: tuple[str, ...] = (), filter: str | None = None
) -> Rows:
    """Read the rows of a version.

    A filter only skips files; the result may have rows for which it is false.
    """
    scan = snapshot.scan_builder().with_filter(filter).with_metadata_columns(metadata).build()
    state = scan.scan_state(engine)
    rows: dict[int, Mapping[str, Any]] = {}
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            with read_scan_file(engine, state, file) as batches:
                for row in (row for batch in batches for row in batch.to_pylist()):
                    assert rows.setdefault(row["id"], row) is row, f"{row} is there twice"
    return rows


def read_feed(engine: Engine, table: Table, first: int, last: int) -> list[dict[str, Any]]:
    """Read the change data feed of a version range, ordered by version, deletes before inserts."""
    start, end = CommitBoundary.at_version(first), CommitBoundary.at_version(last)
    changes = table.changes(engine, start, end).scan_builder().build()
    state = changes.change_state(engine)
    with changes.change_files(engine) as files:
        found = [
            row
            for file in files
            for batch in read_change_file(engine, state, file)
            for row in batch.to_pylist()
        ]
    return sorted(found, key=lambda row: (row["_commit_version"], row["_change_type"] in _COMING))


def replayed(feed: list[dict[str, Any]], before: Rows, columns: tuple[str, ...]) -> Rows:
    """Apply the changes of a feed to the rows of the version before it."""
    rows = dict(before)
    for row in feed:
        values = {name: row[name] for name in columns}
        if row["_change_type"] in _COMING:
            assert rows.setdefault(row["id"], values) is values, f"{row} was there"
        else:
            assert rows.pop(row["id"], None) == values, f"{row} wasn't there"
    return rows


_COMING = ("insert", "update_postimage")
