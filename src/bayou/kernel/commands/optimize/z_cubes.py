"""Selection of files to cluster in a clustered table (PROTOCOL.md, Clustered Table).

A cube is a set of files whose rows OPTIMIZE sorted together. The `add` actions of its files have
the same tags, as in delta-spark: `ZCUBE_ID` identifies the cube, and `ZCUBE_ZORDER_BY` lists the
clustering columns. Large cubes aren't rewritten. Small cubes are rewritten together with new files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from bayou.json_decoding import JsonDecoder
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.row import FilteredColumnarBatch
from bayou.kernel.scan.scan_file import ScanFile, ScanFileBatch

CLUSTERING_PROVIDER = "liquid"
"""`clusteringProvider` of clustered files, as in delta-spark."""

CUBE_BYTES = 150 << 30
"""Maximum size of a new cube in bytes, as in delta-spark."""

LARGE_CUBE_BYTES = 100 << 30
"""Size in bytes from which a cube is large and isn't rewritten, as in delta-spark."""

_ID = "ZCUBE_ID"
_COLUMNS = "ZCUBE_ZORDER_BY"

_NAMES = JsonDecoder(list[str])
_FILE_FIELDS: list[pa.Field[Any]] = [
    pa.field("cube", pa.string()),
    pa.field("other", pa.bool_()),
    pa.field("matches", pa.bool_()),
    pa.field("size", pa.int64()),
]
_FILE_SCHEMA = pa.schema(_FILE_FIELDS)
"""Schema of a batch with one row for each file.

- `cube`: id of the file's cube; null if the file is in no cube.
- `other`: whether the cube was sorted by columns other than the table's clustering columns, or the
  file has a `clusteringProvider` other than `CLUSTERING_PROVIDER`.
- `matches`: whether the cube was sorted by the table's clustering columns.
- `size`: size of the file in bytes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringFileStats:
    """Number of files and their total size in bytes."""

    num_files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringStats:
    """Metrics of clustering, under delta-spark's names.

    Attributes:
        input_zcube_files: for OPTIMIZE, live files in cubes that were sorted by the table's
            clustering columns. For OPTIMIZE FULL, live files in any cube.
        input_other_files: all other live files.
        input_num_zcubes: number of cubes that contain the files of `input_zcube_files`.
        merged_files: rewritten files.
        num_output_zcubes: number of new cubes.
    """

    input_zcube_files: ClusteringFileStats
    input_other_files: ClusteringFileStats
    input_num_zcubes: int
    merged_files: ClusteringFileStats
    num_output_zcubes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToCluster:
    """Files that clustering rewrites.

    Attributes:
        files: the files, grouped by cube; empty if there is nothing to cluster.
        considered: number of live files.
        stats: metrics of clustering. `num_output_zcubes` is 0, because it isn't known before the
            rewrite.
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
    """Select the files that clustering rewrites.

    Args:
        batches: all live files, in `SCAN_SCHEMA`.
        columns: the table's clustering columns.
        large_cube_bytes: size from which a cube is large. Large cubes aren't rewritten.
        full: whether to also select files that were clustered by columns other than `columns`, and
            files whose `clusteringProvider` isn't `CLUSTERING_PROVIDER`.
    """
    live_batches = [batch.selected() for batch in batches]
    cube_batches = [_cubes(batch, tuple(columns)) for batch in live_batches]
    all_files = pa.Table.from_batches(cube_batches, schema=_FILE_SCHEMA)
    live = all_files.filter(pc.and_(pc.is_valid(all_files["cube"]), pc.invert(all_files["other"])))
    totals: Any = live.group_by("cube").aggregate([("size", "sum")])
    small = totals.filter(pc.less(totals["size_sum"], large_cube_bytes))["cube"].combine_chunks()
    new = pc.and_(pc.is_null(all_files["cube"]), pc.invert(all_files["other"]))
    chosen: list[tuple[int, str, ScanFile]] = []
    if len(small) > 1 or pc.any(new).as_py() or (full and pc.any(all_files["other"]).as_py()):
        for batch, cubes in zip(live_batches, cube_batches, strict=True):
            mask = _selection(cubes, small, full=full)
            others, names = (cubes.column(n).filter(mask).to_pylist() for n in ("other", "cube"))
            selected = ScanFileBatch(batch, mask).rows()
            for other, name, file in zip(others, names, selected, strict=True):
                # Files of other clustering columns come first, then files without a cube, then the
                # small cubes one by one.
                order = (0, "") if other else (1, "") if name is None else (2, name)
                chosen.append((*order, file))
    chosen.sort(key=lambda entry: entry[:2])
    files = tuple(file for _, _, file in chosen)
    is_cube_file = pc.is_valid(all_files["cube"]) if full else all_files["matches"]
    cube_files = all_files.filter(is_cube_file)
    return FilesToCluster(
        files=files,
        considered=all_files.num_rows,
        stats=ClusteringStats(
            input_zcube_files=_stats(cube_files),
            input_other_files=_stats(all_files.filter(pc.invert(is_cube_file))),
            input_num_zcubes=pc.count_distinct(cube_files["cube"]).as_py(),
            merged_files=ClusteringFileStats(num_files=len(files), size=sum(f.size for f in files)),
            num_output_zcubes=0,
        ),
    )


def new_cube_tags(columns: Sequence[str]) -> dict[str, str]:
    """Return the tags for the files of a new cube."""
    return {_ID: str(uuid.uuid4()), _COLUMNS: msgspec.json.encode(list(columns)).decode()}


def _cubes(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return a row of `_FILE_SCHEMA` for each file: its cube, how it is clustered, and its size."""
    add: Any = batch.column("add")
    tags = add.field("tags")
    ids = pc.map_lookup(tags, pa.scalar(_ID), "first").cast(pa.string())
    json = pc.map_lookup(tags, pa.scalar(_COLUMNS), "first").cast(pa.string()).dictionary_encode()
    names = [_names(value) for value in json.dictionary.to_pylist()]
    is_valid = pa.array([n is not None for n in names], pa.bool_()).take(json.indices)
    is_equal = pa.array([n == columns for n in names], pa.bool_()).take(json.indices)
    is_cube = pc.and_(pc.is_valid(ids), pc.fill_null(is_valid, False))
    matches = pc.and_(is_cube, pc.fill_null(is_equal, False))
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
        schema=_FILE_SCHEMA,
    )


def _selection(cubes: pa.RecordBatch, small: Any, *, full: bool) -> Any:
    name, other = cubes.column("cube"), cubes.column("other")
    new_or_small = pc.or_(pc.is_null(name), pc.is_in(name, value_set=small))
    selected = pc.and_not(new_or_small, other)
    return pc.or_(selected, other) if full else selected


def _stats(files: pa.Table) -> ClusteringFileStats:
    size: Any = pc.sum(files.column("size"))
    return ClusteringFileStats(num_files=files.num_rows, size=size.as_py() or 0)


def _names(json: str | None) -> tuple[str, ...] | None:
    try:
        return None if json is None else tuple(_NAMES.decode(json))
    except msgspec.DecodeError:
        return None
