"""Random rows deleted and updated in random tables, against a dictionary."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import bayou
from bayou.api.table import TableHandle
from bayou.engines.memory import MemoryEngine
from support.examples import examples

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "p": pa.string(),
        "n": pa.int32(),
        "s": pa.struct({"x": pa.int64(), "y": pa.string()}),
    }
)
COLUMNS = SCHEMA.names
PARTITIONS = ["a", "b c", None]
FEATURES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
    "tracking": {"delta.enableRowTracking": "true"},
    "prefixes": {"delta.randomizeFilePrefixes": "true"},
    "struct stats": {"delta.checkpoint.writeStatsAsStruct": "true"},
}

Row = dict[str, Any]
Condition = tuple[str | None, Callable[[Row], bool]]


def conditions(draw: st.DrawFn) -> Condition:
    """SQL text and what it means."""
    v = draw(st.integers(-1, 30))
    p = draw(st.sampled_from(["a", "b c", "z", "none"]))
    known: list[Condition] = [
        (None, lambda _: True),
        (f"id % {abs(v) + 2} = 1", lambda r: r["id"] % (abs(v) + 2) == 1),
        (f"id < {v}", lambda r: r["id"] < v),
        (f"id >= {v} AND id < {v + 3}", lambda r: v <= r["id"] < v + 3),
        (f"n > {v}", lambda r: r["n"] is not None and r["n"] > v),
        ("n IS NULL", lambda r: r["n"] is None),
        (f"p = '{p}'", lambda r: r["p"] == p),
        ("p IS NULL", lambda r: r["p"] is None),
        (f"p IS NULL OR id = {v}", lambda r: r["p"] is None or r["id"] == v),
        (f"p = '{p}' AND id <> {v}", lambda r: r["p"] == p and r["id"] != v),
        (
            f"s.x = {v} OR s.y = 'y1'",
            lambda r: r["s"] is not None and (r["s"]["x"] == v or r["s"]["y"] == "y1"),
        ),
    ]
    return draw(st.sampled_from(known))


def with_field(row: Row, **values: Any) -> dict[str, Any]:
    return {**(row["s"] or {"x": None, "y": None}), **values}


ASSIGNMENTS: list[tuple[dict[str, str], Callable[[Row], Row]]] = [
    ({"n": "n + 1"}, lambda r: {"n": None if r["n"] is None else r["n"] + 1}),
    ({"n": "CAST(id AS INT)", "p": "'z'"}, lambda r: {"n": r["id"], "p": "z"}),
    ({"s.x": "id * 2"}, lambda r: {"s": with_field(r, x=r["id"] * 2)}),
    ({"p": "CASE WHEN id % 2 = 0 THEN 'a' END"}, lambda r: {"p": None if r["id"] % 2 else "a"}),
    ({"s": "NULL", "n": "7"}, lambda r: {"s": None, "n": 7}),
    (
        {"s.y": "p", "p": "s.y"},
        lambda r: {"s": with_field(r, y=r["p"]), "p": (r["s"] or {}).get("y")},
    ),
]


@dataclass
class Model:
    """The table and what must be in it."""

    table: TableHandle
    properties: dict[str, str]
    rows: dict[int, Row] = field(default_factory=dict)
    row_ids: dict[int, int] = field(default_factory=dict)
    commit_versions: dict[int, int] = field(default_factory=dict)
    told: list[tuple[int, str, str]] = field(default_factory=list)
    next_id: int = 0

    @property
    def tracked(self) -> bool:
        return "delta.enableRowTracking" in self.properties

    def tell(self, version: int, kind: str, row: Row) -> None:
        self.told.append((version, kind, repr(row)))

    def check(self) -> None:
        expected = sorted(self.rows.values(), key=lambda row: row["id"])
        names = [*COLUMNS]
        if self.tracked:
            names += ["_metadata.row_id", "_metadata.row_commit_version"]
        found = self.table.to_arrow(names).sort_by("id")
        assert found.select(COLUMNS).to_pylist() == expected
        if not self.tracked:
            return
        ids = found["id"].to_pylist()
        row_ids = dict(zip(ids, found["_metadata.row_id"].to_pylist(), strict=True))
        assert len(set(row_ids.values())) == len(row_ids)
        for key, row_id in row_ids.items():
            assert self.row_ids.setdefault(key, row_id) == row_id
        versions = dict(zip(ids, found["_metadata.row_commit_version"].to_pylist(), strict=True))
        assert versions == {key: self.commit_versions[key] for key in ids}

    def check_changes(self) -> None:
        if "delta.enableChangeDataFeed" not in self.properties:
            return
        found = [
            (row.pop("_commit_version"), row.pop("_change_type"), repr(row))
            for row in self.table.changes(0).to_arrow().drop(["_commit_timestamp"]).to_pylist()
        ]
        assert Counter(found) == Counter(self.told)


def append(model: Model, draw: st.DrawFn, partition_by: list[str]) -> None:
    rows = [
        {
            "id": model.next_id + i,
            "p": draw(st.sampled_from(PARTITIONS)),
            "n": draw(st.none() | st.integers(0, 30)),
            "s": draw(st.none() | st.just({"x": model.next_id + i, "y": f"y{i % 3}"})),
        }
        for i in range(draw(st.integers(1, 12)))
    ]
    model.next_id += len(rows)
    version = bayou.write(
        model.table.table_uri,
        pa.Table.from_pylist(rows, SCHEMA),
        partition_by=partition_by,
        configuration=model.properties if model.next_id == len(rows) else None,
    )
    for row in rows:
        model.rows[row["id"]] = row
        model.commit_versions[row["id"]] = version
        model.tell(version, "insert", row)


def delete(model: Model, draw: st.DrawFn) -> None:
    text, holds = conditions(draw)
    note(f"delete {text}")
    gone = [row for row in model.rows.values() if holds(row)]
    metrics = model.table.delete(text)
    assert metrics.num_deleted_rows == len(gone)
    for row in gone:
        model.tell(metrics.version, "delete", row)
        del model.rows[row["id"]]


def update(model: Model, draw: st.DrawFn) -> None:
    text, holds = conditions(draw)
    values, change = draw(st.sampled_from(ASSIGNMENTS))
    note(f"update {values} where {text}")
    hit = [row for row in model.rows.values() if holds(row)]
    metrics = model.table.update(values, predicate=text)
    assert metrics.num_updated_rows == len(hit)
    for row in hit:
        after = {**row, **change(row)}
        model.tell(metrics.version, "update_preimage", row)
        model.tell(metrics.version, "update_postimage", after)
        model.rows[row["id"]] = after
        model.commit_versions[row["id"]] = metrics.version


def checkpoint(model: Model, draw: st.DrawFn) -> None:
    model.table.create_checkpoint()


def read_by_others(model: Model, folder: Path) -> None:
    """By the reference engine, and by `deltalake` where it reads such tables."""
    copy = f"memory://{uuid.uuid4().hex}/table"
    files = MemoryEngine().files
    for file in folder.rglob("*"):
        if file.is_file():
            files.put(f"{copy}/{file.relative_to(folder)}", file.read_bytes())
    expected = sorted(model.rows.values(), key=lambda row: row["id"])
    assert bayou.table(copy).to_arrow().sort_by("id").to_pylist() == expected
    if not {"delta.enableDeletionVectors", "delta.columnMapping.mode"} & set(model.properties):
        theirs = deltalake.DeltaTable(str(folder)).to_pyarrow_table()
        assert theirs.select(COLUMNS).sort_by("id").to_pylist() == expected


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.data_too_large])
@given(st.data())
def test_any_history_of_rows(data: st.DataObject) -> None:
    draw = data.draw
    properties: dict[str, str] = {}
    for name in draw(st.sets(st.sampled_from(sorted(FEATURES)))):
        properties |= FEATURES[name]
    mode = draw(st.sampled_from(["none", "name", "id"]))
    if mode != "none":
        properties["delta.columnMapping.mode"] = mode
    partition_by = draw(st.sampled_from([[], ["p"]]))
    note(f"{properties} {partition_by}")
    with tempfile.TemporaryDirectory() as folder:
        on_disk = draw(st.booleans())
        path = folder if on_disk else f"memory://{uuid.uuid4().hex}/table"
        model = Model(table=bayou.table(path), properties=properties)
        append(model, draw, partition_by)
        model.check()
        for _ in range(draw(st.integers(1, 7))):
            step = draw(st.sampled_from([append, delete, delete, update, update, checkpoint]))
            if step is append:
                append(model, draw, partition_by)
            else:
                step(model, draw)
            model.check()
        model.check_changes()
        if on_disk:
            read_by_others(model, Path(folder))
