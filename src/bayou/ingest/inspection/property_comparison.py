"""Compares the table properties, the layout and the protocol of two table versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayou.api import SnapshotHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """A table property, or another item such as `clustered by`, that differs between two versions.

    Attributes:
        before: the value in the first version; None if this version has no value.
        after: the value in the second version; None if this version has no value.
    """

    name: str
    before: str | None
    after: str | None


def compare_properties(before: SnapshotHandle, after: SnapshotHandle) -> tuple[PropertyChange, ...]:
    """Return the properties, and other items such as the partition columns, that differ."""
    old, new = _described(before), _described(after)
    return tuple(
        PropertyChange(name=name, before=old.get(name), after=new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def _described(snapshot: SnapshotHandle) -> Mapping[str, str]:
    kernel, protocol = snapshot.kernel, snapshot.protocol
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    described = {
        "name": kernel.metadata.name,
        "description": kernel.metadata.description,
        "partitioned by": ", ".join(snapshot.partition_columns),
        "clustered by": ", ".join(".".join(path) for path in kernel.clustering_columns),
        "reader version": str(protocol.min_reader_version),
        "writer version": str(protocol.min_writer_version),
        "features": ", ".join(features),
        **dict(sorted(snapshot.properties.items())),
    }
    return {name: value for name, value in described.items() if value}
