"""Defines the order of the records of an upsert key, and finds the last record of each key.

The records of a key are ordered by the ordering column (if one is configured), Kafka timestamp,
offset and partition. Nulls are first. The last record of a key becomes the key's row, or deletes
the row.

A tombstone without an ordering value is called *bare*. Such a tombstone gets the highest ordering
value of the key's records that arrived earlier. Therefore it deletes the existing row, and older
records that are read later don't insert the row again.

The order of arrival is defined as follows:

- The records of a key in a batch arrived in the order of their offsets. If they are in several
  partitions, because partitions were added to the topic, they arrived in the order of their Kafka
  timestamps.
- Rows of the table arrived before the batch. There is an exception if a tombstone is a replayed
  dead letter: rows with a higher offset in the tombstone's partition arrived after the tombstone.

Offsets are only compared within a partition of one topic, because the Kafka topic of a table can
change.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.protocol.sql import quote_identifier

DELETED = "_bayou_deleted"
"""Boolean column of a batch's rows: true if the record of the row deletes its key."""

FORCED = "_bayou_forced"
"""Boolean column that `last_of_each_key` adds: true if a row replaces the target row in any case.

The two rows aren't compared, because a bare tombstone in the batch deletes the target row.
"""

BARE = "_bayou_bare"
"""Boolean column that is true if a row is a bare tombstone, which has no ordering value.

The rows from `last_of_each_key` and the table of deleted keys have this column. It is null if no
ordering column is configured.
"""

SUPERSEDED = "_bayou_superseded"
"""Boolean column that `last_of_each_key` adds: true for a bare tombstone that is not the last row.

Such a tombstone isn't merged into the target, because a later record of its key is in the batch. It
is stored in the table of deleted keys, because it also deletes older records that arrive later,
such as replayed dead letters.
"""

_KIND, _KEY, _AT, _NAN = "_bayou_kind", "_bayou_key", "_bayou_at", "_bayou_nan"

_KAFKA_ORDER = ("_kafka_timestamp", "_kafka_offset", "_kafka_partition")
_TOPIC = "_kafka_topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertKeys:
    """The key columns and the ordering column of an upsert. Can be pickled.

    Attributes:
        columns: the key columns. Two nulls are equal.
        ordering: the ordering column, which is compared before Kafka timestamp and offset; None if
            it isn't configured.
    """

    columns: tuple[str, ...]
    ordering: str | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which the records of a key are ordered, the most significant first."""
        return (*(() if self.ordering is None else (self.ordering,)), *_KAFKA_ORDER)

    @property
    def all_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns, *self.order, _TOPIC)))

    @property
    def matching(self) -> str:
        """SQL condition that row `s` of a batch and row `t` of a table have the same key."""
        return " AND ".join(f"t.{c} <=> s.{c}" for c in map(quote_identifier, self.columns))

    def newer_than(self, known: Collection[str]) -> str:
        """Return the SQL condition under which row `s` of a batch replaces row `t` of a table.

        Args:
            known: names of the table's columns. A column that the table lacks is treated as null.
        """
        condition = ""
        for name in reversed(self.order):
            old, new = f"t.{quote_identifier(name)}", f"s.{quote_identifier(name)}"
            above = f"({old} IS NULL AND {new} IS NOT NULL) OR {new} > {old}"
            equal = f"{new} <=> {old}"
            if name not in known:
                above, equal = f"{new} IS NOT NULL", f"{new} IS NULL"
            condition = f"{above} OR ({equal} AND ({condition}))" if condition else above
        return f"s.{FORCED} OR {condition}"


def last_of_each_key(
    keys: UpsertKeys, rows: pa.Table, deleted: pa.Table, orderings: pa.Table
) -> pa.Table:
    """Return the rows of a batch to merge into the target and the table of deleted keys.

    Args:
        rows: the batch, with the column `DELETED`.
        deleted: rows of the table of deleted keys, with the columns `keys.all_columns` and `BARE`.
            They can include deletes that aren't committed to the target yet.
        orderings: rows of the target whose keys are in the result of `keys_of_tombstones`, with the
            columns `keys.all_columns` except `_kafka_timestamp`.

    Returns:
        These rows, with the added columns `FORCED`, `BARE` and `SUPERSEDED`:

        - The last row of each key, unless `deleted` has a newer record of the key.
        - The last bare tombstone of each key, with `SUPERSEDED` true, unless the returned last row
          deletes the key.

        The last bare tombstone of a key gets the ordering value of the row in `orderings` with the
        same key and offset. Without such a row, the tombstone gets the highest ordering value of
        the key's records that arrived before it.
    """
    bare: Any = pa.nulls(rows.num_rows, pa.bool_())
    if keys.ordering is not None:
        bare = pc.and_(rows.column(DELETED), pc.is_null(rows.column(keys.ordering)))
    batch = (
        rows.select([*keys.all_columns, DELETED])
        .append_column(_KIND, pa.repeat(pa.scalar(_ROW, pa.int8()), rows.num_rows))
        .append_column(BARE, bare)
    )
    everything = _concatenate(
        [
            batch,
            _with_kind(batch.schema, deleted, _GONE),
            _with_kind(batch.schema, orderings, _KNOWN),
        ]
    )
    ids = key_numbers([everything.column(c) for c in keys.columns])
    kinds = everything.column(_KIND).combine_chunks()
    competing = pc.not_equal(kinds, _KNOWN)
    forced: Any = pa.repeat(pa.scalar(False), len(ids))
    tombstones: Any = forced
    ordering = None
    if keys.ordering is not None:
        ordering, removed, forced, tombstones = _order_tombstones(
            keys.ordering, everything, ids, kinds
        )
        at = everything.schema.get_field_index(keys.ordering)
        everything = everything.set_column(at, everything.schema.field(at), ordering)
        competing = pc.and_not(competing, removed)
    candidates = everything.append_column(_KEY, ids).append_column(
        _AT, arange(0, everything.num_rows)
    )
    candidates = candidates.filter(competing)
    # Among equal records, the record of the batch is last, so that a retried batch deletes again.
    sort_keys = [(c, "ascending", "at_start") for c in keys.order]
    if keys.ordering and ordering is not None and pa.types.is_floating(ordering.type):
        # With nulls first, Arrow sorts NaN before all numbers, but SQL sorts it after them.
        above = pc.is_nan(candidates.column(keys.ordering))
        candidates = candidates.append_column(_NAN, above)
        sort_keys = [(_NAN, "ascending", "at_start"), *sort_keys]
    sort_keys.append((_KIND, "descending", "at_start"))
    order = pc.sort_indices(candidates, sort_keys=sort_keys)
    sorted_ids = candidates.column(_KEY).combine_chunks().take(order)
    ranked = pa.table({"key": sorted_ids, "rank": arange(0, len(order))})
    last = ranked.group_by("key").aggregate([("rank", "max")]).column("rank_max").combine_chunks()
    winners = candidates.column(_AT).combine_chunks().take(order.take(last))
    winners = winners.filter(pc.equal(kinds.take(winners), _ROW))
    superseded_rows = _superseded(tombstones, ids, winners, rows.column(DELETED))
    winners = pa.concat_arrays([winners, superseded_rows])
    winners = winners.take(pc.sort_indices(winners))
    superseded: Any = pc.is_in(winners, value_set=superseded_rows)
    result = rows.take(winners)
    if ordering is not None:
        assert keys.ordering is not None
        at = result.schema.get_field_index(keys.ordering)
        result = result.set_column(at, result.schema.field(at), ordering.take(winners))
    bares = everything.column(BARE).combine_chunks()
    return (
        result.append_column(FORCED, forced.take(winners))
        .append_column(BARE, bares.take(winners))
        .append_column(SUPERSEDED, superseded)
    )


def _superseded(tombstones: Any, ids: Any, winners: Any, deleted: Any) -> Any:
    """Return the index of each key's last bare tombstone, unless the key's last row is a delete.

    Args:
        tombstones: mask that selects the last bare tombstone of each key.
        ids: for each row, an integer that identifies its key; see `key_numbers`.
        winners: indexes of the last rows of the keys. If the last row of a key is in the table of
            deleted keys, the key has no index here.
        deleted: the column `DELETED` of the batch.
    """
    indices = pc.indices_nonzero(tombstones).cast(pa.int64())
    deletes = winners.filter(deleted.combine_chunks().take(winners))
    is_deleted = pc.is_in(ids.take(indices), value_set=ids.take(deletes))
    return indices.filter(pc.invert(is_deleted))


def keys_of_tombstones(keys: UpsertKeys, rows: pa.Table) -> pa.Table | None:
    """Return the keys of the bare tombstones in a batch; None if there are none.

    The ordering values of these keys must be read from the target. The result is also None if no
    ordering column is configured.
    """
    if keys.ordering is None:
        return None
    bare = pc.and_(rows.column(DELETED), pc.is_null(rows.column(keys.ordering)))
    return rows.select(keys.columns).filter(bare) if pc.any(bare).as_py() else None


def key_numbers(columns: Sequence[Any]) -> Any:
    """Return an integer for each row; rows have the same integer if they have the same key.

    Two nulls are equal. The result is None if there are no key columns.
    """
    numbers: Any = None
    for column in columns:
        values = column.combine_chunks()
        if pa.types.is_floating(values.type):  # -0.0 equals 0.0, as in a merge
            values = pc.add(values, pa.scalar(0.0, values.type))
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        indices = encoded.indices.cast(pa.int64())
        if numbers is None:
            numbers = indices
            continue
        joined = pc.add(pc.multiply(numbers, len(encoded.dictionary)), indices)
        numbers = pc.dictionary_encode(joined).indices.cast(pa.int64())
    return numbers


def key_buckets(columns: Sequence[Any], count: int) -> Any:
    """Return a number from 0 to `count` - 1 for each row; rows with the same key have the same one.

    The number depends only on the key and on `count`, so it is the same in all processes.

    Args:
        columns: the key columns, at least one.
    """
    parts = [_as_binary(column) for column in columns]
    joined: Any = pc.fill_null(parts[0], b"")
    if len(parts) > 1:
        joined = pc.binary_join_element_wise(
            *parts, pa.scalar(b"\0", pa.binary()), null_handling="replace", null_replacement=b""
        )
    return pa.array([zlib.crc32(key) % count for key in joined.to_pylist()], pa.int32())


def _as_binary(values: Any) -> Any:
    """Convert key values to binary values, which are equal if the key values are equal."""
    if pa.types.is_floating(values.type):  # -0.0 equals 0.0
        values = pc.add(values, pa.scalar(0.0, values.type))
    elif pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string())
    return values.cast(pa.binary())


_ROW, _GONE, _KNOWN = 0, 1, 2
"""Values of `_KIND`: a row of the batch, of the table of deleted keys, or of the target."""


def _order_tombstones(ordering: str, everything: pa.Table, ids: Any, kinds: Any) -> Any:
    """Compute the ordering value of the last bare tombstone of each key.

    A tombstone gets the highest ordering value of the key's rows that arrived before the tombstone.

    Args:
        ordering: name of the ordering column.
        everything: rows of the batch, of the table of deleted keys and of the target.
        ids: for each row, an integer that identifies its key; see `key_numbers`.
        kinds: the column `_KIND`, which shows where each row is from.

    Returns:
        The ordering values of all rows, and three masks. The first mask selects the rows that a
        bare tombstone deletes, because they arrived before the tombstone. The second mask is the
        column `FORCED`. The third mask selects the last bare tombstone of each key.
    """
    values = everything.column(ordering).combine_chunks()
    replayed = _precedes_delete(everything, ids, kinds)
    bare = pc.and_(pc.equal(kinds, _ROW), everything.column(BARE).combine_chunks())
    if not pc.any(bare).as_py():
        none = pa.repeat(pa.scalar(False), len(ids))
        return values, replayed, none, none
    of_batch = pc.equal(kinds, _ROW)
    # Rows of the target and of the table of deleted keys arrived before the rows of the batch.
    arrival = pc.if_else(of_batch, _arrival(everything, ids, kinds), -1)
    last_tombstone = _per_key(ids, pc.if_else(bare, arrival, None), "max")
    is_last = pc.fill_null(pc.equal(arrival, last_tombstone), False)
    follows, known = _compare_offsets(everything, ids, kinds, is_last)
    later = pc.and_not(follows, of_batch)
    # Rows of the batch that don't come from Kafka have no Kafka offset; they count as later.
    not_kafka = pc.and_(of_batch, pc.less(everything.column("_kafka_partition"), 0))
    later = pc.or_(later, pc.fill_null(not_kafka, False).combine_chunks())
    before = pc.and_not(pc.fill_null(pc.less(arrival, last_tombstone), False), later)
    floor = _per_key(ids, pc.if_else(before, values, None), "max")
    known = pc.and_(known, pc.equal(kinds, _KNOWN))
    recorded = _per_key(ids, pc.if_else(known, values, None), "max")
    floor = pc.if_else(_per_key(ids, known, "any"), recorded, floor)
    forced = pc.and_not(pc.is_valid(last_tombstone), _per_key(ids, later, "any"))
    return pc.if_else(is_last, floor, values), pc.or_(before, replayed), forced, is_last


def _arrival(everything: pa.Table, ids: Any, kinds: Any) -> Any:
    """Number the rows of a batch in the order in which the records of each key arrived.

    Records arrive in the order of their offsets. If the records of a key are in several partitions,
    because partitions were added to the topic, they arrive in the order of their Kafka timestamps.

    See `_order_tombstones` for the arguments.
    """
    # Rows that don't come from Kafka have no partition, and count as later in any case.
    from_kafka = pc.greater_equal(everything.column("_kafka_partition").combine_chunks(), 0)
    of_batch = pc.and_(pc.equal(kinds, _ROW), from_kafka)
    partitions = pc.if_else(of_batch, _positions(everything, kinds)[0], None)
    first, last = (_per_key(ids, partitions, function) for function in ("min", "max"))
    moved = pc.fill_null(pc.not_equal(first, last), False)
    times = pc.if_else(moved, everything.column("_kafka_timestamp").combine_chunks(), None)
    columns = [_AT, *reversed(_KAFKA_ORDER[:2])]
    order = pc.sort_indices(
        everything.append_column(_AT, times),
        sort_keys=[(column, "ascending", "at_start") for column in columns],
    )
    return pc.inverse_permutation(order.cast(pa.int64())).cast(pa.int64())


def _precedes_delete(everything: pa.Table, ids: Any, kinds: Any) -> Any:
    """Return a mask of the batch's rows that arrived before a stored bare tombstone of their key.

    The table of deleted keys stores the tombstone. The row of a replayed dead letter can have
    arrived before the tombstone. Such a row must not insert the key again. Its ordering value can
    be higher, because the tombstone's ordering value was computed without the dead letter. The mask
    selects only rows in the tombstone's Kafka partition.

    See `_order_tombstones` for the arguments.
    """
    bare = pc.fill_null(everything.column(BARE).combine_chunks(), False)
    gone = pc.and_(pc.equal(kinds, _GONE), bare)
    if not pc.any(gone).as_py():
        return pa.repeat(pa.scalar(False), len(ids))
    partitions, offsets = _positions(everything, kinds)
    partition, offset = (
        _per_key(ids, pc.if_else(gone, values, None), "max") for values in (partitions, offsets)
    )
    precedes = pc.and_(pc.equal(partitions, partition), pc.less(offsets, offset))
    return pc.and_(pc.fill_null(precedes, False), pc.equal(kinds, _ROW))


def _compare_offsets(everything: pa.Table, ids: Any, kinds: Any, is_last: Any) -> Any:
    """Compare the offset of each row with the offset of the last bare tombstone of the row's key.

    Args:
        is_last: mask that selects the last bare tombstone of each key. The other arguments are
            those of `_order_tombstones`.

    Returns:
        A mask of the rows with a higher offset, and a mask of the rows with the same offset. Both
        select only rows in the tombstone's Kafka partition.
    """
    partitions, offsets = _positions(everything, kinds)
    partition, offset = (
        _per_key(ids, pc.if_else(is_last, values, None), "max") for values in (partitions, offsets)
    )
    same = pc.equal(partitions, partition)
    masks = (pc.and_(same, matches(offsets, offset)) for matches in (pc.greater, pc.equal))
    return tuple(pc.fill_null(mask, False) for mask in masks)


def _positions(everything: pa.Table, kinds: Any) -> tuple[Any, Any]:
    """Return two columns: integers that identify each row's topic and partition, and the offsets.

    Deleted keys that are stored without a topic belong to the batch's topic. The arguments are
    those of `_order_tombstones`.
    """
    topics = everything.column(_TOPIC).combine_chunks()
    own = topics.filter(pc.equal(kinds, _ROW)).drop_null()
    if len(own):
        topics = pc.fill_null(topics, own[0])
    encoded = pc.dictionary_encode(topics, null_encoding="encode")
    partitions = everything.column("_kafka_partition").combine_chunks().cast(pa.int64())
    numbers = pc.add(pc.multiply(partitions, len(encoded.dictionary)), encoded.indices)
    return numbers, everything.column("_kafka_offset").combine_chunks()


def _per_key(ids: Any, values: Any, function: str) -> Any:
    """Aggregate values by key; for each row, return the result of the row's key.

    Args:
        function: the name of Arrow's aggregation, such as `max`.
    """
    grouped: Any = pa.table({"key": ids, "value": values}).group_by("key")
    result = grouped.aggregate([("value", function)])
    keys = result.column("key").combine_chunks()
    per_key = result.column(f"value_{function}").combine_chunks()
    return per_key.take(pc.index_in(ids, value_set=keys))


def _with_kind(schema: pa.Schema, rows: pa.Table, kind: int) -> pa.Table:
    """Convert rows of the target or of the table of deleted keys to the columns of a batch.

    `DELETED` is true, `_KIND` is `kind`, and all other missing columns are null.
    """
    columns: dict[str, Any] = {
        name: rows.column(name).cast(schema.field(name).type) for name in rows.column_names
    }
    count = rows.num_rows
    columns[DELETED] = pa.repeat(pa.scalar(True), count)
    columns[_KIND] = pa.repeat(pa.scalar(kind, pa.int8()), count)
    return pa.table([columns.get(f.name, pa.nulls(count, f.type)) for f in schema], schema=schema)


def _concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    nullable = pa.schema([f.with_nullable(True) for f in tables[0].schema])
    return pa.concat_tables([t.cast(nullable) for t in tables]).combine_chunks()
