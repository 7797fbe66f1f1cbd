"""The description of a table version that `DESCRIBE DETAIL` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayou.kernel.arrow.compute import pc
from bayou.kernel.crc.read import FileTotals
from bayou.kernel.engine import Engine
from bayou.kernel.snapshot import Snapshot
from bayou.protocol.features import all_features


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetail:
    """Description of a table version.

    Attributes:
        created_at: when the table was created, ms since the epoch; None if it isn't recorded.
        last_modified: when the version was committed, ms since the epoch.
        partition_columns: names; the column of the outermost partition directory comes first.
        clustering_columns: dotted paths.
        size_in_bytes: total size of all live files.
        properties: table properties as written in the log.
        table_features: features that the protocol lists or implies by its versions, sorted.
    """

    id: str
    name: str | None
    description: str | None
    location: str
    version: int
    created_at: int | None
    last_modified: int
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    num_files: int
    size_in_bytes: int
    properties: Mapping[str, str]
    min_reader_version: int
    min_writer_version: int
    table_features: tuple[str, ...]


def table_detail(engine: Engine, snapshot: Snapshot) -> TableDetail:
    """Describe a table version. Lists the live files if the version has no version checksum."""
    totals = file_totals(engine, snapshot)
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return TableDetail(
        id=metadata.id,
        name=metadata.name,
        description=metadata.description,
        location=snapshot.path,
        version=snapshot.version,
        created_at=metadata.created_time,
        last_modified=snapshot.timestamp,
        partition_columns=tuple(snapshot.partition_columns),
        clustering_columns=tuple(".".join(path) for path in snapshot.clustering_columns),
        num_files=totals.files,
        size_in_bytes=totals.size,
        properties=dict(snapshot.properties),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        table_features=tuple(sorted(all_features(protocol))),
    )


def file_totals(engine: Engine, snapshot: Snapshot) -> FileTotals:
    """Return the number and total size of the live files.

    They are read from the version checksum. Without a version checksum, the files are listed.
    """
    if snapshot.checksum_totals is not None:
        return snapshot.checksum_totals
    files = size = 0
    with snapshot.scan_builder().build().scan_files(engine) as batches:
        for batch in batches:
            adds: Any = batch.selected().column("add")
            files += len(adds)
            size += pc.sum(adds.field("size")).as_py() or 0
    return FileTotals(files, size)
