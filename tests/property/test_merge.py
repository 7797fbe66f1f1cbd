"""Random merges into random tables, against a dictionary."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import deltalake
import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import bayou
from bayou.api.commands.merge import TableMerger
from bayou.api.table import TableHandle
from bayou.errors import MultipleMatchesError
from support.examples import examples

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "p": pa.string(),
        "n": pa.int32(),
        "t": pa.string(),
        "s": pa.struct({"x": pa.int64(), "y": pa.string()}),
    }
)
SOURCE_SCHEMA = SCHEMA.set(2, pa.field("n", pa.int64()))
PARTITIONS = ["a", "b c", None]
FEATURES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
    "tracking": {"delta.enableRowTracking": "true"},
}

Row = dict[str, Any]
Test = Callable[[Row, Row], bool]
Change = Callable[[Row, Row], Row]


def same(one: Any, other: Any) -> bool:
    return one is not None and one == other


def less(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


def joined(*texts: str | None) -> str | None:
    return None if None in texts else "".join(t for t in texts if t)


def with_field(row: Row, **values: Any) -> Row:
    return {**(row["s"] or {"x": None, "y": None}), **values}


ON: list[tuple[str, Test]] = [
    ("target.k = source.k", lambda t, s: same(t["k"], s["k"])),
    ("source.K = TARGET.k", lambda t, s: same(t["k"], s["k"])),
    (
        "target.k = source.k AND target.p = source.p",
        lambda t, s: same(t["k"], s["k"]) and same(t["p"], s["p"]),
    ),
    ("target.k <=> source.k", lambda t, s: t["k"] == s["k"]),
    (
        "target.k <=> source.k AND target.p <=> source.p",
        lambda t, s: t["k"] == s["k"] and t["p"] == s["p"],
    ),
    (
        "target.k = source.k AND target.n < source.n",
        lambda t, s: same(t["k"], s["k"]) and less(t["n"], s["n"]),
    ),
    (
        "target.k = source.k AND target.p = 'a' AND source.n > 3",
        lambda t, s: same(t["k"], s["k"]) and t["p"] == "a" and less(3, s["n"]),
    ),
    (
        "target.k + 1 = source.k * 2",
        lambda t, s: None not in (t["k"], s["k"]) and t["k"] + 1 == s["k"] * 2,
    ),
    (
        "target.k < source.n AND target.k > source.k",
        lambda t, s: less(t["k"], s["n"]) and less(s["k"], t["k"]),
    ),
    ("target.p = source.p", lambda t, s: same(t["p"], s["p"])),
    ("target.k = source.t", lambda t, s: None not in (t["k"], s["t"]) and t["k"] == int(s["t"])),
    ("false", lambda t, s: False),
    ("true", lambda t, s: True),
]
CONDITIONS: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("source.n > 4", lambda t, s: less(4, s["n"])),
    ("target.n < source.n", lambda t, s: less(t["n"], s["n"])),
    ("target.p = 'a'", lambda t, s: t["p"] == "a"),
    (
        "target.n IS NULL OR source.s.x > 2",
        lambda t, s: t["n"] is None or less(2, (s["s"] or {}).get("x")),
    ),
]
UPDATES: list[tuple[dict[str, str] | None, Change]] = [
    (None, lambda t, s: dict(s)),
    ({"n": "source.n"}, lambda t, s: {"n": s["n"]}),
    (
        {"t": "target.t || source.t", "n": "target.n + 1"},
        lambda t, s: {"t": joined(t["t"], s["t"]), "n": None if t["n"] is None else t["n"] + 1},
    ),
    (
        {"s.x": "source.n", "target.s.y": "target.p"},
        lambda t, s: {"s": with_field(t, x=s["n"], y=t["p"])},
    ),
    ({"P": "source.p", "s": "source.s"}, lambda t, s: {"p": s["p"], "s": s["s"]}),
    (
        {"t": "'x'", "n": "NULL", "k": "source.k", "p": "source.p", "s": "source.s"},
        lambda t, s: {**s, "t": "x", "n": None},
    ),
]
SOURCE_CONDITIONS: list[tuple[str | None, Callable[[Row], bool]]] = [
    (None, lambda s: True),
    ("source.n % 2 = 0", lambda s: s["n"] is not None and s["n"] % 2 == 0),
    ("p IS NULL", lambda s: s["p"] is None),
]
INSERTS: list[tuple[dict[str, str] | None, Callable[[Row], Row]]] = [
    (None, dict),
    (
        {"k": "source.k", "t": "concat(source.t, '!')"},
        lambda s: {"k": s["k"], "p": None, "n": None, "t": joined(s["t"], "!"), "s": None},
    ),
]
TARGET_CONDITIONS: list[tuple[str | None, Callable[[Row], bool]]] = [
    (None, lambda t: True),
    ("target.p = 'a'", lambda t: t["p"] == "a"),
    ("n IS NULL", lambda t: t["n"] is None),
    ("k > 5", lambda t: less(5, t["k"])),
]
TARGET_UPDATES: list[tuple[dict[str, str], Callable[[Row], Row]]] = [
    (
        {"n": "target.n * 2", "t": "'alone'"},
        lambda t: {"n": None if t["n"] is None else t["n"] * 2, "t": "alone"},
    ),
    ({"p": "'b c'"}, lambda t: {"p": "b c"}),
]


@dataclass
class Clauses:
    """Clauses of a merge and what they mean; a change of None is a delete."""

    matched: list[tuple[str | None, Test, Change | None]] = field(default_factory=list)
    not_matched: list[tuple[Callable[[Row], bool], Callable[[Row], Row]]] = field(
        default_factory=list
    )
    alone: list[tuple[Callable[[Row], bool], Callable[[Row], Row] | None]] = field(
        default_factory=list
    )

    @property
    def may_match_several(self) -> bool:
        if not self.matched and not self.alone:
            return True
        return [(text, change) for text, _, change in self.matched] == [(None, None)]


def add_clauses(draw: st.DrawFn, merge: TableMerger) -> tuple[TableMerger, Clauses]:
    clauses = Clauses()
    counts = draw(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)).filter(any))
    for last in reversed(range(counts[0])):
        text, test = draw(st.sampled_from(CONDITIONS if not last else CONDITIONS[1:]))
        values, change = draw(st.sampled_from([*UPDATES, *[(None, None)] * 3]))
        note(f"matched {text}: {'delete' if change is None else values}")
        clauses.matched.append((text, test, change))
        if change is None:
            merge = merge.when_matched_delete(text)
        elif values is None:
            merge = merge.when_matched_update_all(text)
        else:
            merge = merge.when_matched_update(values, text)
    for last in reversed(range(counts[1])):
        text, holds = draw(
            st.sampled_from(SOURCE_CONDITIONS if not last else SOURCE_CONDITIONS[1:])
        )
        values, made = draw(st.sampled_from(INSERTS))
        note(f"not matched {text}: {values}")
        clauses.not_matched.append((holds, made))
        if values is None:
            merge = merge.when_not_matched_insert_all(text)
        else:
            merge = merge.when_not_matched_insert(values, text)
    for last in reversed(range(counts[2])):
        text, holds = draw(
            st.sampled_from(TARGET_CONDITIONS if not last else TARGET_CONDITIONS[1:])
        )
        values, made = draw(st.sampled_from([*TARGET_UPDATES, (None, None)]))
        note(f"not matched by source {text}: {'delete' if made is None else values}")
        clauses.alone.append((holds, made))
        if values is None:
            merge = merge.when_not_matched_by_source_delete(text)
        else:
            merge = merge.when_not_matched_by_source_update(values, text)
    return merge, clauses


@dataclass
class Outcome:
    """What a merge must come to."""

    rows: list[Row] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)
    several: bool = False
    kept_ids: int = 0

    def tell(self, kind: str, row: Row) -> None:
        self.changes.append((kind, repr(row)))


def outcome(target: list[Row], source: list[Row], on: Test, clauses: Clauses) -> Outcome:
    result = Outcome()
    matched: set[int] = set()
    for row in target:
        found = [i for i, s in enumerate(source) if on(row, s)]
        matched.update(found)
        change: Callable[[], Row] | None = None
        taken = False
        if found:
            if len(found) > 1 and not clauses.may_match_several:
                result.several = True
            s = source[found[0]]
            for _, test, made in clauses.matched:
                if test(row, s):
                    taken = True
                    change = None if made is None else lambda m=made, t=row, s=s: m(t, s)
                    break
        else:
            for holds, alone in clauses.alone:
                if holds(row):
                    taken = True
                    change = None if alone is None else lambda m=alone, t=row: m(t)
                    break
        if not taken:
            result.rows.append(row)
        elif change is None:
            result.tell("delete", row)
            continue
        else:
            after = {**row, **change()}
            result.rows.append(after)
            result.tell("update_preimage", row)
            result.tell("update_postimage", after)
        result.kept_ids += 1
    for i, s in enumerate(source):
        if i in matched:
            continue
        for holds, made in clauses.not_matched:
            if holds(s):
                row = made(s)
                result.rows.append(row)
                result.tell("insert", row)
                break
    return result


def rows(draw: st.DrawFn, most: int) -> list[Row]:
    return [
        {
            "k": draw(st.none() | st.integers(0, 9)),
            "p": draw(st.sampled_from(PARTITIONS)),
            "n": draw(st.none() | st.integers(0, 9)),
            "t": draw(st.none() | st.sampled_from("0123456789")),
            "s": draw(st.none() | st.just({"x": draw(st.integers(0, 5)), "y": "y"})),
        }
        for _ in range(draw(st.integers(0, most)))
    ]


def distinct_by(key: str, found: list[Row]) -> list[Row]:
    return list({row[key]: row for row in found}.values())


def bag(table: TableHandle) -> Counter[str]:
    return Counter(map(repr, table.to_arrow().to_pylist()))


def check_changes(table: TableHandle, version: int, expected: Outcome) -> None:
    found = table.changes(version, version).to_arrow()
    told = [
        (row.pop("_change_type"), repr(row))
        for row in found.drop(["_commit_timestamp", "_commit_version"]).to_pylist()
    ]
    assert Counter(told) == Counter(expected.changes)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.data_too_large])
@given(st.data())
def test_any_merge(data: st.DataObject) -> None:
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
        table = bayou.table(path)
        target: list[Row] = []
        for first in (True, False, False):
            more = rows(draw, 6)
            target += more
            bayou.write(
                path,
                pa.Table.from_pylist(more, SCHEMA),
                partition_by=partition_by if first else None,
                configuration=properties if first else None,
            )
        for _ in range(draw(st.integers(1, 3))):
            source = rows(draw, 6)
            if draw(st.booleans()):
                source = distinct_by("k", source)
            text, on = draw(st.sampled_from(ON))
            note(f"target {target}")
            note(f"source {source}")
            note(f"on {text}")
            before = table.snapshot().version
            merge, clauses = add_clauses(
                draw, table.merge(pa.Table.from_pylist(source, SOURCE_SCHEMA), text)
            )
            expected = outcome(target, source, on, clauses)
            tracked = "delta.enableRowTracking" in properties
            names = ["_metadata.row_id"]
            ids = set(table.to_arrow(names)[0].to_pylist()) if tracked else set()
            try:
                metrics = merge.execute()
            except MultipleMatchesError:
                assert expected.several
                assert table.snapshot().version == before
                assert bag(table) == Counter(map(repr, target))
                continue
            if expected.several:
                # Files that no clause can change aren't looked into, as in delta-spark.
                assert not clauses.not_matched
                assert not clauses.alone
                assert all(condition is not None for condition, _, _ in clauses.matched)
            assert bag(table) == Counter(map(repr, expected.rows))
            kinds = Counter(kind for kind, _ in expected.changes)
            assert metrics.num_target_rows_inserted == kinds["insert"]
            assert metrics.num_target_rows_updated == kinds["update_postimage"]
            assert metrics.num_target_rows_deleted == kinds["delete"]
            assert metrics.version == before + (1 if expected.changes else 0)
            if expected.changes and "delta.enableChangeDataFeed" in properties:
                check_changes(table, metrics.version, expected)
            if tracked:
                now = table.to_arrow(names)[0].to_pylist()
                assert len(set(now)) == len(now)
                assert len(ids.intersection(now)) == expected.kept_ids
            target = table.to_arrow().to_pylist()
        if on_disk and not {"delta.enableDeletionVectors", "delta.columnMapping.mode"} & set(
            properties
        ):
            theirs = deltalake.DeltaTable(path).to_pyarrow_table().select(SCHEMA.names)
            assert Counter(map(repr, theirs.to_pylist())) == bag(table)
