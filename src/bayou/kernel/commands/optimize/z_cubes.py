"""Which files of a clustered table are to be clustered (PROTOCOL.md, Clustered Table).

OPTIMIZE writes the files of a bin as one cube: they share the tags `ZCUBE_ID` and
`ZCUBE_ZORDER_BY`, by which delta-spark and we know what has been clustered, and by what. Cubes
that have grown large stay as they are; small ones are clustered together with new files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow.row import FilteredColumnarBatch
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch
from bayou.protocol.json_decoding import JsonDecoder

__all__ = [
    "CLUSTERING_PROVIDER",
    "CUBE_BYTES",
    "LARGE_CUBE_BYTES",
    "ClusteringFileStats",
    "ClusteringStats",
    "FilesToCluster",
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

pc: Any = pyarrow.compute
_NAMES = JsonDecoder(list[str])
_FACT_FIELDS: list[pa.Field[Any]] = [
    pa.field("cube", pa.string()),
    pa.field("other", pa.bool_()),
    pa.field("matches", pa.bool_()),
    pa.field("size", pa.int64()),
]
_FACTS = pa.schema(_FACT_FIELDS)
"""Of a file: its cube; whether it was clustered by something else; whether its cube is of the
clustering columns; its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringFileStats:
    """Some files: how many, and their bytes."""

    num_files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringStats:
    """What clustering found and took, in delta-spark's numbers.

    Attributes:
        input_zcube_files: live files in cubes of the clustering columns; with `full` in any cube.
        input_other_files: the other live files.
        input_num_zcubes: cubes of `input_zcube_files`.
        merged_files: files that are rewritten.
        num_output_zcubes: new cubes.
    """

    input_zcube_files: ClusteringFileStats
    input_other_files: ClusteringFileStats
    input_num_zcubes: int
    merged_files: ClusteringFileStats
    num_output_zcubes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToCluster:
    """What clustering rewrites.

    Attributes:
        files: those of one cube together; none where nothing is new.
        considered: how many live files there were.
        stats: with no output yet.
    """

    files: tuple[ScanFile, ...]
    considered: int
    stats: ClusteringStats


def files_to_cluster(
    batches: Iterable[FilteredColumnarBatch],
    columns: Sequence[str],
    *,
    large_cube_bytes: int = LARGE_CUBE_BYTES,
    full: bool = False,
) -> FilesToCluster:
    """Choose among the live files, in columns; only those that are chosen are looked at one by one.

    Args:
        batches: all live files, in `SCAN_SCHEMA`.
        columns: names of the clustering columns.
        full: also files that were clustered by other columns, or by another provider.
    """
    held = [batch.selected() for batch in batches]
    known = [_cubes(batch, tuple(columns)) for batch in held]
    facts = pa.Table.from_batches(known, schema=_FACTS)
    live = facts.filter(pc.and_(pc.is_valid(facts["cube"]), pc.invert(facts["other"])))
    totals: Any = live.group_by("cube").aggregate([("size", "sum")])
    small = totals.filter(pc.less(totals["size_sum"], large_cube_bytes))["cube"].combine_chunks()
    new = pc.and_(pc.is_null(facts["cube"]), pc.invert(facts["other"]))
    chosen: list[tuple[int, str, ScanFile]] = []
    if len(small) > 1 or pc.any(new).as_py() or (full and pc.any(facts["other"]).as_py()):
        for batch, cubes in zip(held, known, strict=True):
            wanted = _wanted(cubes, small, full=full)
            others, names = (cubes.column(n).filter(wanted).to_pylist() for n in ("other", "cube"))
            found = ScanFileBatch(batch, wanted).rows()
            for other, name, file in zip(others, names, found, strict=True):
                # Others first, then new ones, then cube by cube.
                order = (0, "") if other else (1, "") if name is None else (2, name)
                chosen.append((*order, file))
    chosen.sort(key=lambda one: one[:2])
    files = tuple(file for _, _, file in chosen)
    counted = pc.is_valid(facts["cube"]) if full else facts["matches"]
    inside = facts.filter(counted)
    return FilesToCluster(
        files=files,
        considered=facts.num_rows,
        stats=ClusteringStats(
            input_zcube_files=_stats(inside),
            input_other_files=_stats(facts.filter(pc.invert(counted))),
            input_num_zcubes=pc.count_distinct(inside["cube"]).as_py(),
            merged_files=ClusteringFileStats(num_files=len(files), size=sum(f.size for f in files)),
            num_output_zcubes=0,
        ),
    )


def new_cube_tags(columns: Sequence[str]) -> dict[str, str]:
    """Tags of the files of a new cube."""
    return {_ID: str(uuid.uuid4()), _COLUMNS: msgspec.json.encode(list(columns)).decode()}


def _cubes(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """`_FACTS` of a batch's files."""
    add: Any = batch.column("add")
    tags = add.field("tags")
    ids = pc.map_lookup(tags, pa.scalar(_ID), "first").cast(pa.string())
    texts = pc.map_lookup(tags, pa.scalar(_COLUMNS), "first").cast(pa.string()).dictionary_encode()
    names = [_names(text) for text in texts.dictionary.to_pylist()]
    readable = pa.array([n is not None for n in names], pa.bool_()).take(texts.indices)
    alike = pa.array([n == columns for n in names], pa.bool_()).take(texts.indices)
    is_cube = pc.and_(pc.is_valid(ids), pc.fill_null(readable, False))
    matches = pc.and_(is_cube, pc.fill_null(alike, False))
    foreign = pc.fill_null(
        pc.not_equal(add.field("clusteringProvider"), CLUSTERING_PROVIDER), False
    )
    return pa.RecordBatch.from_arrays(
        [
            pc.if_else(is_cube, ids, pa.scalar(None, pa.string())),
            pc.or_(foreign, pc.and_not(is_cube, matches)),
            matches,
            add.field("size"),
        ],
        schema=_FACTS,
    )


def _wanted(cubes: pa.RecordBatch, small: Any, *, full: bool) -> Any:
    name, other = cubes.column("cube"), cubes.column("other")
    of_small = pc.or_(pc.is_null(name), pc.is_in(name, value_set=small))
    kept = pc.and_not(of_small, other)
    return pc.or_(kept, other) if full else kept


def _stats(files: pa.Table) -> ClusteringFileStats:
    size: Any = pc.sum(files.column("size"))
    return ClusteringFileStats(num_files=files.num_rows, size=size.as_py() or 0)


def _names(text: str | None) -> tuple[str, ...] | None:
    try:
        return None if text is None else tuple(_NAMES.decode(text))
    except msgspec.DecodeError:
        return None
