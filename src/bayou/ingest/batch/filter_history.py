"""The history of a topic's filter condition (`processing.where`), stored in the target table.

A table property stores each condition with the first offsets to which it applies. The first batch
with a new condition updates the property in its commit. With this history, `bayou verify` can tell
filtered records from missing records, even after `processing.where` was changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from bayou.ingest.config import Topic, TopicConfig
from bayou.ingest.offsets import OffsetSpan, join_spans

_FILTERS = "bayou.filters"
"""The table property: a JSON object with the `FilterPeriod`s of each Kafka topic."""


class FilterPeriod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A filter condition and the first offsets to which it applies.

    Attributes:
        where: the condition; None if records weren't filtered.
        columns: the expression of each derived column, by column name. Empty if the condition
            reads no derived column.
        deletes: for an upsert, whether records that are filtered out delete the rows of their keys.
        starts: for each Kafka partition, the first offset to which the condition applies. The
            offset is 0 for a partition that isn't in the mapping.
        replays: for each Kafka partition, the offset ranges (start, exclusive end) of the dead
            letters that were replayed with the condition. To limit the number of ranges, nearby
            ranges are joined. A range may therefore contain offsets of other records.
    """

    where: str | None = None
    columns: dict[str, str] = {}
    deletes: bool = False
    starts: dict[int, int] = {}
    replays: dict[int, list[tuple[int, int]]] = {}

    def topic(self, topic: Topic) -> Topic:
        """Return a copy of the topic whose settings have this period's condition and columns."""
        on_filtered = "delete" if self.deletes else "skip"
        update: dict[str, object] = {"where": self.where, "on_filtered": on_filtered}
        if self.columns:
            update["columns"] = self.columns
        processing = topic.config.processing.model_copy(update=update)
        config = topic.config.model_copy(update={"processing": processing})
        return replace(topic, config=config)


def filter_periods(topic: Topic, properties: Mapping[str, str]) -> list[FilterPeriod]:
    """Read the filter periods of a topic from a table's properties, the oldest first."""
    value = properties.get(_FILTERS)
    return [] if value is None else _DECODER.decode(value).get(topic.config.kafka_topic, [])


def updated_periods(
    topic: Topic, properties: Mapping[str, str], covered: Mapping[int, int]
) -> list[FilterPeriod]:
    """Return the stored periods; if the configured condition has changed, append a new period.

    Args:
        properties: the table's properties.
        covered: the next offset to read of each Kafka partition; the new period starts there.
    """
    periods = filter_periods(topic, properties)
    last = periods[-1] if periods else FilterPeriod()
    new = msgspec.structs.replace(_current(topic.config), starts=dict(covered))
    same = new == msgspec.structs.replace(last, starts=new.starts, replays={})
    return periods if same else [*periods, new]


def filter_properties(
    topic: Topic,
    properties: Mapping[str, str],
    covered: Mapping[int, int],
    replayed: Mapping[int, Iterable[OffsetSpan]] | None = None,
) -> dict[str, str]:
    """Return the table property with the `updated_periods`; an empty dict if nothing has changed.

    Args:
        replayed: for each Kafka partition, the offsets of the dead letters that are replayed with
            the configured condition; None if no dead letters are replayed.
    """
    periods = updated_periods(topic, properties, covered)
    if replayed and periods and periods[-1].where is not None:
        periods = [*periods[:-1], _with_replays(periods[-1], replayed)]
    if periods == filter_periods(topic, properties):
        return {}
    known = _DECODER.decode(properties.get(_FILTERS, "{}"))
    known[topic.config.kafka_topic] = periods
    return {_FILTERS: msgspec.json.encode(known).decode()}


def split_by_period(
    periods: Sequence[FilterPeriod], partition: int, span: OffsetSpan
) -> Iterator[tuple[OffsetSpan, int]]:
    """Split a range of offsets by filter period; yield each part with the index of its period.

    Offsets before the first period have the index -1.
    """
    starts = [min(max(p.starts.get(partition, 0), span.start), span.end) for p in periods]
    bounds = [span.start, *starts, span.end]
    for index, (start, end) in enumerate(itertools.pairwise(bounds)):
        if start < end:
            yield OffsetSpan(start=start, end=end), index - 1


def _with_replays(
    period: FilterPeriod, replayed: Mapping[int, Iterable[OffsetSpan]]
) -> FilterPeriod:
    replays = dict(period.replays)
    for partition, offsets in replayed.items():
        known = (OffsetSpan(start=a, end=b) for a, b in replays.get(partition, []))
        joined = join_spans([*known, *offsets])
        replays[partition] = [(span.start, span.end) for span in joined]
    return msgspec.structs.replace(period, replays=replays)


def _current(config: TopicConfig) -> FilterPeriod:
    processing = config.processing
    if processing.where is None:
        return FilterPeriod()
    return FilterPeriod(
        where=processing.where.strip(),
        columns=processing.columns if processing.where_reads_derived_columns else {},
        deletes=config.deletes_filtered,
    )


_DECODER = msgspec.json.Decoder(dict[str, list[FilterPeriod]])
