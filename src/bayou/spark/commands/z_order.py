"""Z-order and clustering on executors: rows go through a shuffle, as Arrow batches.

Three steps: tasks sample the ordering columns of some files each; tasks put their files' rows into
buckets of the curve; a task for each new file sorts the buckets that it is made of.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bayou.engines import from_description
from bayou.kernel import Engine, EngineDescription
from bayou.kernel.commands.optimize.rewrite import Rewrite
from bayou.kernel.commands.optimize.rewrite_plan import RunItems
from bayou.kernel.commands.optimize.sorted_rewrite import (
    OrderedParts,
    for_files,
    sample_item,
    split_item,
    write_ordered,
)
from bayou.protocol.actions import AddFile, encode_actions
from bayou.spark.commands.rewrite import adds_in, discarding
from bayou.spark.executors.arrow_cells import from_cell, to_cell
from bayou.spark.executors.executor_tasks import run_shares, run_shuffled, shares_by_size

__all__ = ["order_on_executors"]

_SHARE_BYTES = 64 << 20


def order_on_executors(spark: Any, engine: Engine, table: str, description: str) -> RunItems:
    """What runs items that have an order; arguments as of `rewrite_on_executors`."""
    reach = engine.description()
    discard = discarding(reach, table)

    def run(items: Sequence[Rewrite]) -> list[list[AddFile]]:
        shares = [
            _Share(item=number, work=for_files(item, files).to_bytes())
            for number, item in enumerate(items)
            for files in _file_shares(item)
        ]
        samples: list[list[Any]] = [[] for _ in items]
        sampled = run_shares(
            spark,
            shares,
            _Sampling(reach),
            table=table,
            description=f"{description}: sample",
            discard=lambda _: None,
        )
        for share, sample in zip(shares, sampled, strict=True):
            samples[share.item].append(pickle.loads(sample))  # noqa: S301  # our own tasks' bytes
        parts = [OrderedParts.of(item, found) for item, found in zip(items, samples, strict=True)]
        groups = [number for number, item in enumerate(items) for _ in range(item.num_files)]
        shuffle = _Shuffle(
            engine=reach,
            parts=parts,
            first=[groups.index(number) for number in range(len(items))],
            groups=groups,
            works=[for_files(item, [0]).to_bytes() for item in items],
        )
        outcomes = run_shuffled(
            spark,
            shares,
            shuffle.split,
            shuffle.merge,
            len(groups),
            table=table,
            description=description,
            discard=discard,
        )
        adds: list[list[AddFile]] = [[] for _ in items]
        for group in sorted(outcomes):
            adds[groups[group]] += adds_in(outcomes[group])
        return adds

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    item: int
    work: bytes


class _Sampling:
    def __init__(self, engine: EngineDescription) -> None:
        self._engine = engine

    def __call__(self, _: int, share: _Share) -> bytes:
        engine = from_description(self._engine)
        return pickle.dumps(sample_item(engine, Rewrite.from_bytes(share.work)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Shuffle:
    """Attributes:
    parts: of each item.
    first: of each item, the group of its first file.
    groups: of each new file, its item.
    works: of each item, with one of its files.
    """

    engine: EngineDescription
    parts: Sequence[OrderedParts]
    first: Sequence[int]
    groups: Sequence[int]
    works: Sequence[bytes]

    def split(self, share: _Share) -> Iterator[tuple[int, int, bytes]]:
        parts, first = self.parts[share.item], self.first[share.item]
        engine = from_description(self.engine)
        for bucket, rows in split_item(engine, Rewrite.from_bytes(share.work), parts):
            yield first + parts.file_of(bucket), bucket, to_cell(rows)

    def merge(self, group: int, buckets: Iterator[list[bytes]]) -> bytes:
        work = Rewrite.from_bytes(self.works[self.groups[group]])
        rows = ([from_cell(cell) for cell in bucket] for bucket in buckets)
        return encode_actions(write_ordered(from_description(self.engine), work, rows))


def _file_shares(item: Rewrite) -> list[list[int]]:
    count = max(1, -(-item.size // _SHARE_BYTES))
    return shares_by_size(range(len(item.files)), lambda number: item.files[number].size, count)
