"""Compares the properties, layout and protocol of two table versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayou.api import SnapshotHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """A property that differs between two versions of a table.

    Attributes:
        before: value in the first version; None if this version doesn't have the property.
        after: value in the second version; None if this version doesn't have the property.
    """

    name: str
    before: str | None
    after: str | None


def compare_properties(before: SnapshotHandle, after: SnapshotHandle) -> tuple[PropertyChange, ...]:
    """Return the differences in partitioning, clustering, protocol, name and table properties."""
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
