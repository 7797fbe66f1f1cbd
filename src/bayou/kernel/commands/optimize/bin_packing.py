"""Grouping of files by partition, and packing of each group into bins to rewrite together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from bayou.kernel.commands.optimize.rewrite import typed_partition_values
from bayou.kernel.data_writer.partitioner import zoneless_values
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.partition_values import PartitionValue

_Key: TypeAlias = tuple[PartitionValue | tuple[str, str], ...]


def by_partition(state: TransactionState, files: Iterable[ScanFile]) -> list[list[ScanFile]]:
    """Group files by their parsed partition values.

    The value of a timestamp that is serialized without a time zone depends on the reader's time
    zone. Two of these timestamps are equal only if their serialized strings are equal.
    """
    groups: dict[_Key, list[ScanFile]] = {}
    keys: dict[tuple[tuple[str, str | None], ...], _Key] = {}
    for file in files:
        serialized = tuple(file.partition_values.items())
        key = keys.get(serialized)
        if key is None:
            typed = typed_partition_values(state, file.partition_values, file.path)
            local = zoneless_values(state, file.partition_values)
            key = keys[serialized] = (*typed.values(), *sorted(local.items()))
        groups.setdefault(key, []).append(file)
    return list(groups.values())


def pack(files: Iterable[ScanFile], max_bytes: int) -> Iterator[list[ScanFile]]:
    """Group consecutive files into bins with a total size of at most `max_bytes`.

    A file that is larger than `max_bytes` gets its own bin.
    """
    current: list[ScanFile] = []
    size = 0
    for file in files:
        if current and size + file.size > max_bytes:
            yield current
            current, size = [], 0
        current.append(file)
        size += file.size
    if current:
        yield current
