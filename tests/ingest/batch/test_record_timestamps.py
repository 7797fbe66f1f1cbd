"""Timestamps of an upsert's records, for any division into batches, tasks and reads."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.ingest.batch.record_timestamps import (
    ORDER_TIME,
    RecordTimes,
    last_times,
    times_before_ranges,
)
from support.examples import examples


def records(times, start, partition):
    count = len(times)
    columns = {
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(start, start + count), pa.int64()),
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_pydict(columns)


def parts(draw, first, last):
    """Divide a range at random offsets; return pairs of start and end."""
    inside = draw(st.sets(st.integers(first + 1, last - 1), max_size=3)) if last - first > 1 else ()
    cuts = sorted({first, last, *inside})
    return list(itertools.pairwise(cuts))


class Reading:
    """Reads the records of a batch, divided into tasks and reads, as the driver and tasks do."""

    def __init__(self, draw, topic):
        self._draw = draw
        self._topic = topic
        self._times = {}
        self.found = {partition: [] for partition in topic}

    def read(self, spans):
        tasks = {p: parts(self._draw, *span) for p, span in spans.items()}
        before = {p: {spans[p][0]: self._times[p]} for p in spans if p in self._times}
        found, ranges, unknown = self._run(tasks, before, exact=True)
        if unknown:
            known = {p: self._last(p, spans[p][0]) for p in spans} | self._times
            found, ranges, unknown = self._run(
                tasks, times_before_ranges(known, ranges), exact=False
            )
        assert not unknown
        self._times = last_times(self._times, ranges)
        for partition, times in found.items():
            self.found[partition] += times

    def restart(self):
        self._times = {}

    def _last(self, partition, end):
        """What the last row of the table has."""
        known = [t for t in self._topic[partition][:end] if t is not None]
        return known[-1] if known else None

    def _run(self, tasks, before, *, exact):
        found, ranges, unknown = {p: [] for p in tasks}, [], False
        for partition, spans in tasks.items():
            for start, end in spans:
                times = RecordTimes({partition: start}, before, exact=exact)
                for first, last in parts(self._draw, start, end):
                    batch = records(self._topic[partition][first:last], first, partition)
                    filled = times.fill(batch).column(ORDER_TIME).cast(pa.int64())
                    found[partition] += filled.to_pylist()
                ranges += times.ranges
                unknown |= bool(times.unknown)
        return found, ranges, unknown


@settings(max_examples=examples(100))
@given(data=st.data())
def test_a_missing_timestamp_is_the_nearest_earlier_one_however_records_are_divided(data):
    moment = st.none() | st.integers(1, 9)
    topic = {p: data.draw(st.lists(moment, min_size=1, max_size=14)) for p in (0, 1)}
    reading = Reading(data.draw, topic)
    ends = {p: parts(data.draw, 0, len(times)) for p, times in topic.items()}
    for batch in range(max(map(len, ends.values()))):
        reading.read({p: spans[batch] for p, spans in ends.items() if batch < len(spans)})
        if data.draw(st.booleans()):
            reading.restart()
    for partition, times in topic.items():
        last = None
        following = next((t for t in times if t is not None), 0)
        for given_time, found in zip(times, reading.found[partition], strict=True):
            last = last if given_time is None else given_time
            assert found == last if last is not None else found in (0, following)
