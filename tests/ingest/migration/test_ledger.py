"""The ledger in memory, brought up to date by each batch."""

from __future__ import annotations

from bayou.ingest.migration.ledger import LedgerState, Part


def part(batch, first, records=2, source="a"):
    return Part(
        source=source,
        batch=batch,
        file=f"{first}.json",
        size=1,
        skipped=0,
        records=records,
        first=first,
        complete=True,
        checksum="",
    )


def test_numbers_go_on_behind_what_was_read_and_what_was_added():
    state = LedgerState()
    assert (state.next_number, state.next_batch("a"), state.commits) == (0, 0, 0)
    state = LedgerState(parts=(part(0, 0), part(3, 2, source="b")), commits=4)
    assert (state.next_number, state.next_batch("a"), state.next_batch("b")) == (4, 1, 4)
    state.added([part(1, 4), part(1, 6)])
    assert (state.next_number, state.next_batch("a"), state.next_batch("b")) == (8, 2, 4)
    assert state.commits == 5
    assert [p.first for p in state.of("a")] == [0, 4, 6]


def test_a_batch_does_not_go_through_the_parts_before_it():
    class Parts(list):
        def __iter__(self):
            raise AssertionError

    state = LedgerState(parts=[part(0, 0)])
    state.parts = Parts(state.parts)
    state.added([part(1, 2)])
    assert (state.next_number, state.next_batch("a"), len(state.parts)) == (4, 2, 2)
