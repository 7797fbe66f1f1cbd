"""Files of a table put into bins, each of files of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from bayou.kernel.commands.optimize.rewrite import typed_partition_values
from bayou.kernel.data_writer.partitioner import zoneless_texts
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.partition_values import PartitionValue

__all__ = ["by_partition", "packed"]

_Key: TypeAlias = tuple[PartitionValue | tuple[str, str], ...]


def by_partition(state: TransactionState, files: Iterable[ScanFile]) -> list[list[ScanFile]]:
    """Files grouped by the values of their partition, whatever texts these have in the log.

    Timestamps without a zone and those with one are values apart: only in UTC they are the same.

    Raises:
        CorruptTableError: a text that isn't a value of its column's type.
    """
    groups: dict[_Key, list[ScanFile]] = {}
    known: dict[tuple[tuple[str, str | None], ...], _Key] = {}
    for file in files:
        texts = tuple(file.partition_values.items())
        key = known.get(texts)
        if key is None:
            typed = typed_partition_values(state, file.partition_values, file.path)
            local = zoneless_texts(state, file.partition_values)
            key = known[texts] = (*typed.values(), *sorted(local.items()))
        groups.setdefault(key, []).append(file)
    return list(groups.values())


def packed(files: Iterable[ScanFile], most_bytes: int) -> Iterator[list[ScanFile]]:
    """Neighbours together in bins of at most so many bytes; a larger file is a bin of its own."""
    current: list[ScanFile] = []
    size = 0
    for file in files:
        if current and size + file.size > most_bytes:
            yield current
            current, size = [], 0
        current.append(file)
        size += file.size
    if current:
        yield current
