"""Histories of a routed topic whose process is killed between commits."""

from __future__ import annotations

import random
import textwrap

import pytest

from bayou.kernel import Transaction
from support.routed_pipelines import TEMPLATE, configured, offsets, proof, routed_table, tables

KINDS = ["click", "view", "buy", "Click", "a/b", "a b", "", "..", "déjà", "dead_letters", None]


class KilledError(BaseException):
    """The process has ended."""


class Killer:
    """Ends the process before or after the commit with a number; it commits nothing afterwards."""

    def __init__(self, monkeypatch):
        self._commit = Transaction.commit
        self._left = None
        self._after = False
        self.commits = 0
        monkeypatch.setattr(Transaction, "commit", lambda *a, **k: self._next(*a, **k))

    def arm(self, commits, *, after):
        self._left, self._after, self.commits = commits, after, 0

    def disarm(self):
        self._left = None

    def _next(self, *arguments, **options):
        if self._left is None:
            self.commits += 1
            return self._commit(*arguments, **options)
        if self._left < 0:
            raise KilledError
        self._left -= 1
        if self._left < 0 and not self._after:
            raise KilledError
        result = self._commit(*arguments, **options)
        self.commits += 1
        if self._left < 0:
            raise KilledError
        return result


@pytest.fixture
def killer(monkeypatch):
    return Killer(monkeypatch)


def killed(pipeline, killer, commits, *, after):
    """Run a batch and kill it; return whether it was killed."""
    killer.arm(commits, after=after)
    try:
        pipeline.take_in()
    except KilledError:
        return True
    finally:
        killer.disarm()
    return False


def records(rng, first, count, kinds=KINDS):
    for number in range(first, first + count):
        kind = rng.choice(kinds)
        if rng.random() < 0.1:
            yield b"not json"
        else:
            yield {"id": number, **({} if kind is None else {"kind": kind}), f"x{kind}": 1}


def check(pipeline, sent):
    """Each record is in one table, once, and the proof holds."""
    seen = offsets(pipeline)
    assert len(seen) == sent
    assert set(seen.values()) == {1}
    assert proof(pipeline).holds


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_each_commit_of_a_batch_neither_loses_nor_doubles(routed, killer, after):
    point = 0
    while True:
        pipeline = routed()
        pipeline.produce(*records(random.Random(1), 0, 40, KINDS[-4:]))
        if not killed(pipeline, killer, point, after=after):
            break
        pipeline.produce(*records(random.Random(2), 40, 10, KINDS[-4:]), partition=1)
        pipeline.take_in()
        check(pipeline, 50)
        point += 1
    assert point == 7  # dead letters, creation, registration, three tables, the default table


@pytest.mark.parametrize(
    "seeds", [range(2), pytest.param(range(2, 40), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_histories_with_kills_and_changed_routes_neither_lose_nor_double(routed, killer, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        pipeline = routed()
        sent = 0
        for _ in range(6):
            count = rng.randrange(1, 30)
            pipeline.produce(*records(rng, sent, count), partition=rng.randrange(2))
            sent += count
            killed(pipeline, killer, rng.randrange(12), after=rng.random() < 0.5)
            if rng.random() < 0.4:
                configured(pipeline, rng.choice(ROUTES))
        pipeline.take_in()
        check(pipeline, sent)


ROUTES = [
    TEMPLATE,
    'expression: "upper(kind)"\ntable-path: "lake/upper_{value}"\nmax-tables: 4',
    "expression: kind\ntables: {click: lake/clicks, view: lake/clicks, a/b: lake/other}",
    "expression: kind\ntables: {click: lake/clicks}\non-unmatched: dead-letter",
    'expression: "CAST(id % 3 AS STRING)"\ntable-path: "lake/events_{value}"',
]


def test_rows_of_an_interrupted_batch_stay_where_they_are_if_the_route_changes(routed, killer):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "click"}, {"id": 2, "kind": "view"})
    # The commits create the default table, register the others, and add rows to each.
    assert killed(pipeline, killer, 4, after=False)
    assert tables(pipeline) == ["events", "events_click", "events_view"]
    assert routed_table(pipeline, "events").to_arrow().num_rows == 0
    assert proof(pipeline).holds
    configured(pipeline, 'expression: "upper(kind)"\ntable-path: "lake/events_{value}"')
    pipeline.produce({"id": 3, "kind": "click"})
    pipeline.take_in()
    check(pipeline, 3)
    assert len(tables(pipeline)) == 4


@pytest.mark.parametrize("codec", ["zstd", "snappy", "uncompressed"])
def test_files_of_a_killed_batch_do_not_keep_a_value_from_its_table(routed, killer, codec):
    pipeline = routed()
    properties = f"          table-properties: {{delta.parquet.compression.codec: {codec}}}\n"
    text = pipeline.file.read_text()
    pipeline.file.write_text(
        text.replace("        delta-config:\n", f"        delta-config:\n{properties}")
    )
    pipeline.produce({"id": 1, "kind": "click"})
    with pytest.MonkeyPatch.context() as patch:
        # A killed process deletes nothing.
        patch.setattr("bayou.ingest.batch.target.target_table.delete_data_files", lambda *_: None)
        assert killed(pipeline, killer, 0, after=False)
    assert len(list((pipeline.folder / "lake" / "events_click").glob("*.parquet"))) == 1
    pipeline.take_in()
    check(pipeline, 1)
    assert tables(pipeline) == ["events", "events_click"]


def without_routes(pipeline):
    configured(pipeline)
    text = pipeline.file.read_text()
    routes = f"        route-by:\n{textwrap.indent(TEMPLATE.strip(), ' ' * 10)}\n"
    assert routes in text
    pipeline.file.write_text(text.replace(routes, ""))


@pytest.mark.parametrize("commits", range(3, 7))
def test_rows_of_an_interrupted_batch_stay_where_they_are_without_route_by(routed, killer, commits):
    pipeline = routed()
    pipeline.produce({"id": 1, "kind": "click"}, {"id": 2, "kind": "view"}, b"no json")
    pipeline.produce({"id": 3, "kind": "view"}, partition=1)
    # The commits: dead letters, the default table, the registration, rows to each table.
    assert killed(pipeline, killer, commits, after=False) == (commits < 6)
    without_routes(pipeline)
    pipeline.produce({"id": 4, "kind": "click"})
    pipeline.take_in()
    pipeline.take_in()
    check(pipeline, 5)
