"""Skips manifests by comparing partitions with the bounds in the manifests' field summaries."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from bayou.kernel.iceberg.manifests.entries import FieldSummary, ManifestFile, PartitionSpec
from bayou.kernel.iceberg.values import IcebergValue

_FORMATS = {4: "<i", 8: "<q"}


def may_contain(
    manifest: ManifestFile,
    spec: PartitionSpec,
    partitions: Collection[tuple[IcebergValue, ...]] | None,
) -> bool:
    """Whether a manifest may contain a file of at least one of the partitions.

    If `partitions` is None, the partitions are unknown, and the result is True.
    """
    if partitions is None or len(manifest.partitions) != len(spec.types):
        return True
    return any(
        all(
            _matches(summary, value, iceberg_type)
            for summary, value, iceberg_type in zip(
                manifest.partitions, partition, spec.types, strict=True
            )
        )
        for partition in partitions
        if len(partition) == len(spec.types)
    )


def _matches(summary: FieldSummary, value: IcebergValue, iceberg_type: str) -> bool:
    if value is None:
        return summary.contains_null
    low = _decoded(summary.lower_bound, iceberg_type)
    high = _decoded(summary.upper_bound, iceberg_type)
    if isinstance(value, float) or (low is None and summary.lower_bound is not None):
        return True
    if low is None or high is None:
        return False
    if isinstance(value, str):
        comparable: Any = value.encode()
        return bool(low <= comparable <= high)
    return bool(low <= value <= high)


def _decoded(bound: bytes | None, iceberg_type: str) -> Any:
    """Return a bound as a comparable value; None if it is missing or its type isn't supported."""
    if bound is None:
        return None
    if iceberg_type in ("int", "long", "date", "timestamp", "timestamptz"):
        return struct.unpack(_FORMATS[len(bound)], bound)[0]
    if iceberg_type in ("string", "binary"):
        return bound
    return None
