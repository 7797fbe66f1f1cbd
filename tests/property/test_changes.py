"""The change data feed of random histories, against dictionaries.

A history is written by hand: data files, change data files, deletion vectors. The model knows rows
by key: what each commit inserts, deletes and updates is what its changes must say.
"""

from __future__ import annotations

import io
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.engines.memory import MemoryEngine
from bayou.kernel import (
    ChangeFile,
    ChangeState,
    CommitBoundary,
    Table,
    read_change_file,
)
from bayou.kernel.arrow.types import from_arrow_schema
from support.examples import examples
from support.log_writer import LogWriter, WireAction, add, metadata, protocol, remove
from support.vectors import inline_vector, write_vectors

FIELDS = {"id": "long", "day": "string"}
FEED = {"delta.enableChangeDataFeed": "true"}
DAYS = ["mon", "tue", None]


@dataclass
class File:
    """A live file: the ids that it holds, in their order, and the positions that are deleted."""

    path: str
    size: int
    day: str | None
    ids: list[int]
    deleted: list[int] = field(default_factory=list)
    vector: Any = None

    def live(self) -> list[int]:
        return [n for i, n in enumerate(self.ids) if i not in self.deleted]


@dataclass
class History:
    """A table and the changes that it must tell: (version, type, id, day)."""

    log: LogWriter
    partitioned: bool
    files: list[File] = field(default_factory=list)
    told: list[tuple[int, str, int, str | None]] = field(default_factory=list)
    next_id: int = 0

    def write(self, ids: list[int], day: str | None, types: list[str] | None = None) -> File:
        columns: dict[str, Any] = {"id": pa.array(ids, pa.int64())}
        if not self.partitioned:
            columns["day"] = pa.array([day] * len(ids), pa.string())
        if types is not None:
            columns["_change_type"] = types
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink, row_group_size=2)
        path = uuid.uuid4().hex
        self.log.engine.files.put(f"{self.log.table}/{path}", sink.getvalue())
        return File(path=path, size=len(sink.getvalue()), day=day, ids=ids)

    def values(self, file: File) -> dict[str, str | None]:
        return {"day": file.day} if self.partitioned else {}

    def add(self, file: File, **fields: Any) -> WireAction:
        low, high = min(file.live(), default=0), max(file.live(), default=0)
        stats = {"numRecords": len(file.ids), "minValues": {"id": low}, "maxValues": {"id": high}}
        return add(
            file.path,
            partition_values=self.values(file),
            size=file.size,
            stats=stats,
            vector=file.vector,
            **fields,
        )

    def remove(self, file: File, bare: bool = False, **fields: Any) -> WireAction:
        facts = {} if bare else {"partitionValues": self.values(file), "size": file.size}
        return remove(file.path, vector=file.vector, **facts, **fields)

    def cdc(self, file: File) -> WireAction:
        body = {"path": file.path, "partitionValues": self.values(file), "size": file.size}
        return {"cdc": body}

    def commit(self, *actions: WireAction) -> int:
        return self.log.commit(*actions)

    def tell(self, version: int, kind: str, ids: list[int], day: str | None) -> None:
        self.told += [(version, kind, i, day) for i in ids]


def begin(history: History) -> None:
    partitions = ["day"] if history.partitioned else []
    history.commit(protocol(1, 4), metadata(FIELDS, partitions, FEED))


def append(history: History, draw: st.DrawFn) -> None:
    actions = []
    written = []
    for _ in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, 6))
        ids = list(range(history.next_id, history.next_id + count))
        history.next_id += count
        file = history.write(ids, draw(st.sampled_from(DAYS)))
        written.append(file)
        actions.append(history.add(file))
    version = history.commit(*actions)
    for file in written:
        history.tell(version, "insert", file.ids, file.day)
    history.files += written


def drop(history: History, draw: st.DrawFn) -> None:
    """Whole files go, some of them without a word about their partition values."""
    gone = draw(st.lists(st.sampled_from(history.files), min_size=1, unique_by=id))
    version = history.commit(*(history.remove(f, bare=draw(st.booleans())) for f in gone))
    for file in gone:
        history.tell(version, "delete", file.live(), file.day)
    history.files = [f for f in history.files if f not in gone]


def mark(history: History, draw: st.DrawFn) -> None:
    """Rows of a file are deleted, or come back, by another vector."""
    files = [f for f in history.files if f.ids]
    if not files:
        append(history, draw)
        return
    file = draw(st.sampled_from(files))
    before, old = file.live(), history.remove(file)
    file.deleted = sorted(draw(st.sets(st.sampled_from(range(len(file.ids))))))
    if not file.deleted:
        file.vector = None
    elif draw(st.booleans()):
        file.vector = inline_vector(file.deleted)
    else:
        (file.vector,) = write_vectors(history.log.engine, history.log.table, file.deleted)
    version = history.commit(old, history.add(file))
    after = file.live()
    history.tell(version, "delete", [i for i in before if i not in after], file.day)
    history.tell(version, "insert", [i for i in after if i not in before], file.day)


def update(history: History, draw: st.DrawFn) -> None:
    """A file is rewritten with some rows changed, which a change data file tells."""
    file = draw(st.sampled_from(history.files))
    ids = file.live()
    hit = [i for i in ids if draw(st.booleans())]
    fresh = list(range(history.next_id, history.next_id + len(hit)))
    history.next_id += len(hit)
    new = history.write([i for i in ids if i not in hit] + fresh, file.day)
    types = ["update_preimage"] * len(hit) + ["update_postimage"] * len(hit)
    recorded = history.write(hit + fresh, file.day, types)
    version = history.commit(history.cdc(recorded), history.remove(file), history.add(new))
    history.tell(version, "update_preimage", hit, file.day)
    history.tell(version, "update_postimage", fresh, file.day)
    history.files = [f for f in history.files if f is not file] + [new]


def compact(history: History, draw: st.DrawFn) -> None:
    """Files become one, and no data changes."""
    day = draw(st.sampled_from(history.files)).day
    old = [f for f in history.files if f.day == day]
    new = history.write([i for f in old for i in f.live()], day)
    actions = [history.remove(f, dataChange=False) for f in old]
    history.commit(*actions, history.add(new, dataChange=False))
    history.files = [f for f in history.files if f not in old] + [new]


@st.composite
def histories(draw: st.DrawFn) -> History:
    log = LogWriter(MemoryEngine(), f"memory://{uuid.uuid4().hex}/table")
    history = History(log=log, partitioned=draw(st.booleans()))
    begin(history)
    for _ in range(draw(st.integers(1, 8))):
        steps = [drop, mark, update, compact] if history.files else []
        draw(st.sampled_from([append, *steps]))(history, draw)
    return history


def read(history: History, start: int, end: int, filter: str | None = None) -> Counter[Any]:
    """What the kernel says, its files and state sent through bytes, the filter applied."""
    engine = history.log.engine
    changes = Table.for_path(engine, history.log.table).changes(
        engine, CommitBoundary.at_version(start), CommitBoundary.at_version(end)
    )
    scan = changes.scan_builder().with_filter(filter).build()
    state = ChangeState.from_bytes(scan.change_state(engine).to_bytes())
    found: Counter[Any] = Counter()
    for file in scan.change_files(engine):
        for batch in read_change_file(engine, state, ChangeFile.from_bytes(file.to_bytes())):
            rows = batch
            if scan.remaining_filter is not None:
                schema = from_arrow_schema(batch.schema)
                matching = engine.expressions.predicate_evaluator(schema, scan.remaining_filter)
                rows = batch.filter(matching.eval(batch))
            found.update(
                (r["_commit_version"], r["_change_type"], r["id"], r["day"])
                for r in rows.to_pylist()
            )
    return found


@settings(max_examples=examples(200))
@given(st.data())
def test_changes_are_what_each_commit_did(data: st.DataObject) -> None:
    history = data.draw(histories())
    latest = max([0, *(version for version, *_ in history.told)])
    start = data.draw(st.integers(0, latest))
    end = data.draw(st.integers(start, latest))
    expected = Counter(row for row in history.told if start <= row[0] <= end)
    assert read(history, start, end) == expected


FILTERS = {
    "day = 'mon'": lambda version, kind, number, day: day == "mon",
    "day IS NULL AND id >= 3": lambda version, kind, number, day: day is None and number >= 3,
    "id < 4": lambda version, kind, number, day: number < 4,
    "_change_type = 'delete'": lambda version, kind, number, day: kind == "delete",
    "_commit_version > 2 AND id > 1": lambda version, kind, number, day: version > 2 and number > 1,
    "_change_type <> 'insert' OR day = 'tue'": (
        lambda version, kind, number, day: kind != "insert" or day == "tue"
    ),
    "_commit_version = id": lambda version, kind, number, day: version == number,
}


@settings(max_examples=examples(150))
@given(histories(), st.sampled_from(sorted(FILTERS)))
def test_a_filter_loses_no_change(history: History, text: str) -> None:
    latest = max([0, *(version for version, *_ in history.told)])
    expected = Counter(row for row in history.told if FILTERS[text](*row))
    assert read(history, 0, latest, text) == expected
