from __future__ import annotations

import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou.api.rows.parallel_iteration import _ReaderPool, available_cores, interleaved
from bayou.kernel import CloseableIterator
from support.examples import examples
from support.waiting import wait_until


class Source:
    """Numbers, and whether somebody closed it."""

    def __init__(self, numbers, log=None, error=None):
        self.numbers = numbers
        self.opened = False
        self.closed = False
        self.error = error

    def __call__(self):
        self.opened = True
        return CloseableIterator(self.items(), self)

    def items(self):
        yield from self.numbers
        if self.error is not None:
            raise self.error

    def close(self):
        self.closed = True


def blocked_readers():
    """Number of reader threads that wait for another thread: for the caller to take an item."""
    frames = sys._current_frames()
    readers = [t for t in threading.enumerate() if t.name.startswith("bayou-read")]
    return sum(frames[t.ident].f_code is threading.Condition.wait.__code__ for t in readers)


@settings(max_examples=examples(50))
@given(
    st.lists(st.lists(st.integers(), max_size=20), max_size=8),
    st.integers(1, 5),
    st.integers(1, 6),
)
def test_each_source_keeps_its_order_and_nothing_is_lost(contents, workers, ahead):
    sources = [Source(numbers) for numbers in contents]
    found = {i: [] for i in range(len(contents))}
    with interleaved(iter(sources), workers=workers, ahead=ahead) as items:
        for number, item in items:
            found[number].append(item)
    assert found == dict(enumerate(contents))
    assert all(source.closed for source in sources)


def test_stopping_early_closes_what_is_open_and_begins_nothing_new():
    sources = [Source(range(1000)) for _ in range(20)]
    items = interleaved(iter(sources), workers=3, ahead=2)
    next(items)
    items.close()
    opened = [source for source in sources if source.opened]
    assert len(opened) <= 4
    assert all(source.closed for source in opened)
    assert not [t for t in threading.enumerate() if t.name.startswith("bayou-read")]


def test_no_more_items_are_read_ahead_than_allowed():
    read = []

    def numbers():
        for i in range(100):
            read.append(i)
            yield i

    sources = [lambda: CloseableIterator(numbers()) for _ in range(4)]
    with interleaved(iter(sources), workers=2, ahead=3) as items:
        for taken in range(1, 21):
            next(items)
            # Three items wait for the caller, and each reader has one in hand.
            allowed = taken + 3 + 2
            wait_until(lambda n=allowed: len(read) >= n and blocked_readers() == 2)
            assert len(read) == allowed


def test_the_error_of_a_source_is_raised_and_the_others_are_closed():
    sources = [Source(range(100)), Source([1], error=ValueError("broken")), Source(range(100))]
    with pytest.raises(ValueError, match="broken"):
        list(interleaved(iter(sources), workers=3, ahead=4))
    assert all(source.closed for source in sources if source.opened)


def test_an_error_while_looking_for_sources_is_raised():
    def failing():
        yield Source([1])
        yield Source([2])
        raise ValueError("no more files")

    with pytest.raises(ValueError, match="no more files"):
        list(interleaved(failing(), workers=2, ahead=4))


def test_one_source_is_read_by_the_caller_s_own_thread():
    threads = []

    def numbers():
        threads.append(threading.current_thread())
        yield 1

    found = list(interleaved(iter([lambda: CloseableIterator(numbers())]), workers=4, ahead=2))
    assert found == [(0, 1)]
    assert threads == [threading.current_thread()]


def test_there_is_a_core():
    assert available_cores() >= 1


@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(st.integers(), max_size=20), max_size=8),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_in_order_sources_come_one_after_another(contents, workers, ahead):
    sources = [Source(numbers) for numbers in contents]
    with interleaved(iter(sources), workers=workers, ahead=ahead, in_order=True) as items:
        found = list(items)
    assert found == [(i, item) for i, numbers in enumerate(contents) for item in numbers]
    assert all(source.closed for source in sources)


def test_in_order_later_sources_wait_for_the_first_with_few_items():
    others_are_full = threading.Event()

    class First(Source):
        def items(self):
            for number in self.numbers:
                yield number
                assert others_are_full.wait(60)

    class Counted(Source):
        given = 0

        def items(self):
            for number in self.numbers:
                self.given += 1
                yield number

    def given():
        return sum(source.given for source in sources[1:])

    sources = [First(range(5)), *(Counted(range(100)) for _ in range(5))]
    with interleaved(iter(sources), workers=3, ahead=2, in_order=True) as items:
        assert next(items)[0] == 0
        # Of each open source two items wait for the caller, and its reader has one more in hand.
        wait_until(lambda: given() >= 2 * (2 + 1) and blocked_readers() == 3)
        assert given() == 2 * (2 + 1)
        others_are_full.set()
        for _ in range(4):
            assert next(items)[0] == 0
        wait_until(lambda: given() >= 3 * (2 + 1) and blocked_readers() == 3)
        assert given() == 3 * (2 + 1)
        assert [number for number, _ in items] == [i for i in range(1, 6) for _ in range(100)]


def test_in_order_an_error_is_raised_and_everything_is_closed():
    sources = [Source([1]), Source([2], error=ValueError("broken")), Source(range(100))]
    with pytest.raises(ValueError, match="broken"):
        list(interleaved(iter(sources), workers=2, ahead=2, in_order=True))
    assert all(source.closed for source in sources if source.opened)


def test_a_consumer_that_waits_when_the_process_ends_gets_an_error():
    released, waiting = threading.Event(), threading.Event()

    def items():
        yield 1
        waiting.set()
        released.wait()

    def open_items():
        return CloseableIterator(items())

    pool = _ReaderPool([open_items], iter(()), 2, in_order=False)
    reader = threading.Thread(target=pool.read_sources)
    reader.start()
    received = pool.items()
    assert next(received) == (0, 1)
    waiting.wait()
    stopper = threading.Timer(0.05, pool.stop)  # while `next` waits
    stopper.start()
    with pytest.raises(RuntimeError, match="process is ending"):
        next(received)
    released.set()
    reader.join()


STOPPED_EARLY = """
import sys
import bayou
reader = bayou.table(sys.argv[1]).to_batches()
print(reader.read_next_batch().num_rows)
"""


@pytest.mark.process
def test_a_process_ends_normally_while_files_are_read_ahead(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"id": range(200_000), "name": [f"name {i}" for i in range(200_000)]})
    for _ in range(4):
        bayou.write(path, rows, mode="append")
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", STOPPED_EARLY, path], capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout == "65536\n"
