"""Dead letters of a routed topic, replayed into its tables."""

from __future__ import annotations

import pytest

import bayou
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.dead_letters import append_replay
from bayou.ingest.dead_letters.dead_letter_replay import delete_dead_letters, replay_dead_letters
from support.routed_pipelines import TEMPLATE, configured, ids, offsets, proof, reasons, tables


def replay(pipeline, **options):
    return replay_dead_letters(pipeline.configuration, pipeline.topic, **options)


@pytest.fixture
def full(routed):
    """A topic whose only table is that of the value a; the values b and c have dead letters."""
    pipeline = routed(TEMPLATE + "max-tables: 1")
    kinds = ["a", "a", "b", "c", "b"]
    pipeline.produce(*({"id": n, "kind": kind} for n, kind in enumerate(kinds)), b"no json")
    assert pipeline.take_in().dead_letters == 4
    return pipeline


def test_a_higher_limit_lets_a_replay_create_the_tables(full):
    assert replay(full).refused == 4
    configured(full, TEMPLATE + "max-tables: 3")
    dry = replay(full, dry_run=True)
    assert (dry.replayed, dry.refused) == (3, 1)
    assert tables(full) == ["events", "events_a", "events_dead_letters"]
    result = replay(full)
    assert (result.replayed, result.refused, result.skipped) == (3, 1, 0)
    assert (ids(full, "events_b"), ids(full, "events_c")) == ([2, 4], [3])
    assert len(reasons(full)) == 1
    full.produce({"id": 6, "kind": "b"}, {"id": 7, "kind": "d"})
    report = full.take_in()
    assert (report.rows, report.dead_letters) == (1, 1)
    assert set(offsets(full).values()) == {1}
    assert proof(full).holds


def test_a_replay_that_ended_before_it_deleted_dead_letters_is_finished_by_the_next(
    full, monkeypatch
):
    configured(full, 'expression: kind\ntable-path: "lake/events_{value}"\nmax-tables: 9')

    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(append_replay.AppendReplay, "_delete_done", killed)
        with pytest.raises(KeyboardInterrupt):
            replay(full)
    assert len(reasons(full)) == 4
    configured(full, "expression: kind\ntables: {b: lake/other}")  # the rows stay where they are
    result = replay(full)
    assert (result.replayed, result.already_rows, result.refused) == (0, 3, 1)
    assert proof(full).holds


def test_dead_letters_that_where_filters_out_now_are_deleted(full):
    configured(
        full, TEMPLATE + "max-tables: 9", more="      processing: {where: \"kind <> 'b'\"}\n"
    )
    result = replay(full)
    assert (result.replayed, result.filtered, result.refused) == (1, 2, 1)
    assert tables(full) == ["events", "events_a", "events_c", "events_dead_letters"]
    assert proof(full).holds


def test_dead_letters_of_the_default_table_are_replayed_into_it(routed):
    pipeline = routed("expression: kind\ntables: {a: lake/as}\non-unmatched: dead-letter")
    pipeline.produce({"id": 1, "kind": "x"}, {"id": 2, "kind": "a"})
    pipeline.take_in()
    configured(pipeline, "expression: kind\ntables: {a: lake/as}")
    assert replay(pipeline).replayed == 1
    assert (ids(pipeline), ids(pipeline, "as")) == ([1], [2])
    assert proof(pipeline).holds


def test_dead_letters_of_an_interrupted_batch_are_left(full):
    assert delete_dead_letters(full.configuration, full.topic) == 4
    assert replay(full).replayed == 0


def test_a_replay_that_begins_while_another_one_ends_doubles_nothing(full, monkeypatch):
    configured(full, TEMPLATE + "max-tables: 9")
    new_tables = TopicTables.of

    def replayed_before(*arguments):
        monkeypatch.undo()
        assert replay(full).replayed == 3
        return new_tables(*arguments)

    monkeypatch.setattr(TopicTables, "of", replayed_before)
    result = replay(full)
    assert (result.replayed, result.already_rows, result.refused) == (0, 3, 1)
    assert set(offsets(full).values()) == {1}
    assert proof(full).holds


def test_dead_letters_with_rows_in_former_tables_are_not_replayed_again(full, monkeypatch):
    configured(full, TEMPLATE + "max-tables: 9")

    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(append_replay.AppendReplay, "_delete_done", killed)
        with pytest.raises(KeyboardInterrupt):
            replay(full)
    full.write_file()  # without route-by
    full.file.write_text(full.file.read_text().replace("      schema-file: schema.json\n", ""))
    result = replay(full)
    assert (result.replayed, result.already_rows, result.refused) == (0, 3, 1)
    assert proof(full).holds


def test_dead_letters_of_one_record_in_several_batches_become_one_row(full):
    bayou.write(full.dead_letters.table_uri, full.dead_letters.to_arrow())
    configured(full, TEMPLATE + "max-tables: 9")
    result = replay(full)
    assert (result.replayed, result.already_rows, result.refused) == (3, 0, 1)
    assert (ids(full, "events_b"), ids(full, "events_c")) == ([2, 4], [3])
    assert len(reasons(full)) == 2  # the record that isn't JSON
