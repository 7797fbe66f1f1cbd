"""The records of a batch that end the worker process that reads them, found by bisection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bayou.ingest.offsets import OffsetSpan

__all__ = ["MAX_CRASHING_RECORDS", "crashing_offsets"]

MAX_CRASHING_RECORDS = 20
"""Of one batch. With more, the machine or the program is at fault and not the records."""


def crashing_offsets(
    spans: Mapping[int, OffsetSpan], crashes: Callable[[Mapping[int, OffsetSpan]], bool]
) -> dict[int, tuple[int, ...]]:
    """Offsets whose records end a worker process each time they are read alone.

    Args:
        spans: a batch that has ended a worker process, for each Kafka partition.
        crashes: reads a part of the batch; whether this ends a worker process.

    Returns:
        For each Kafka partition its offsets, sorted. Empty where no single record is at fault
        (a lack of memory, a killed machine), or more than `MAX_CRASHING_RECORDS` are.
    """
    found: dict[int, list[int]] = {}
    waiting = [dict(spans)]
    while waiting:
        part = waiting.pop()
        if _size(part) > 1:
            first, second = _halves(part)
            waiting += [half for half in (second, first) if crashes(half)]
            continue
        ((partition, span),) = part.items()
        if crashes(part):  # a second time: the first may have had another cause
            found.setdefault(partition, []).append(span.start)
        if sum(map(len, found.values())) > MAX_CRASHING_RECORDS:
            return {}
    return {partition: tuple(sorted(offsets)) for partition, offsets in sorted(found.items())}


def _size(spans: Mapping[int, OffsetSpan]) -> int:
    return sum(span.end - span.start for span in spans.values())


def _halves(
    spans: Mapping[int, OffsetSpan],
) -> tuple[dict[int, OffsetSpan], dict[int, OffsetSpan]]:
    """Two parts of the same size, none of them empty; the order is that of partition and offset."""
    left = _size(spans) // 2
    first: dict[int, OffsetSpan] = {}
    second: dict[int, OffsetSpan] = {}
    for partition, span in sorted(spans.items()):
        cut = min(span.end, span.start + left)
        left -= cut - span.start
        if cut > span.start:
            first[partition] = OffsetSpan(start=span.start, end=cut)
        if cut < span.end:
            second[partition] = OffsetSpan(start=cut, end=span.end)
    return first, second
