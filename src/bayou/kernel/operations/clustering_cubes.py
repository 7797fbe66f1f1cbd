"""Which files of a clustered table are to be clustered (PROTOCOL.md, Clustered Table).

OPTIMIZE writes the files of a bin as one cube: they share the tags `ZCUBE_ID` and
`ZCUBE_ZORDER_BY`, by which delta-spark and we know what has been clustered, and by what. Cubes
that have grown large stay as they are; small ones are clustered together with new files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import msgspec

from bayou.kernel.scan_file import ScanFile

__all__ = [
    "CLUSTERING_PROVIDER",
    "CUBE_BYTES",
    "LARGE_CUBE_BYTES",
    "cube_of",
    "files_to_cluster",
    "new_cube_tags",
]

CLUSTERING_PROVIDER = "liquid"
"""`add.clusteringProvider` of what is clustered so, delta-spark's name."""

CUBE_BYTES = 150 << 30
"""Size of a new cube at most, as in delta-spark."""

LARGE_CUBE_BYTES = 100 << 30
"""Size from which a cube is left alone, as in delta-spark."""

_ID = "ZCUBE_ID"
_COLUMNS = "ZCUBE_ZORDER_BY"
_NAMES = msgspec.json.Decoder(list[str])


def files_to_cluster(
    files: Iterable[ScanFile],
    columns: Sequence[str],
    *,
    large_cube_bytes: int = LARGE_CUBE_BYTES,
    full: bool = False,
) -> list[ScanFile]:
    """The files that clustering rewrites, those of one cube together; none where nothing is new.

    Args:
        columns: names of the clustering columns.
        full: also files that were clustered by other columns, or by another provider.
    """
    cubes: dict[str, list[ScanFile]] = {}
    new: list[ScanFile] = []
    others: list[ScanFile] = []
    for file in files:
        cube = cube_of(file)
        foreign = file.add.clustering_provider not in (None, CLUSTERING_PROVIDER)
        if foreign or (cube is not None and cube[1] != tuple(columns)):
            others.append(file)
        elif cube is None:
            new.append(file)
        else:
            cubes.setdefault(cube[0], []).append(file)
    small = {
        number: members
        for number, members in cubes.items()
        if sum(file.size for file in members) < large_cube_bytes
    }
    again = others if full else []
    if not new and not again and len(small) < 2:
        return []
    return [*again, *new, *(file for number in sorted(small) for file in small[number])]


def cube_of(file: ScanFile) -> tuple[str, tuple[str, ...]] | None:
    """Id and columns of the cube that a file belongs to, None for none."""
    tags = file.add.tags or {}
    number, columns = tags.get(_ID), tags.get(_COLUMNS)
    if number is None or columns is None:
        return None
    try:
        return number, tuple(_NAMES.decode(columns))
    except msgspec.DecodeError:
        return None


def new_cube_tags(columns: Sequence[str]) -> dict[str, str]:
    """Tags of the files of a new cube."""
    return {_ID: str(uuid.uuid4()), _COLUMNS: msgspec.json.encode(list(columns)).decode()}
