"""What a vacuum finds in a listing, against a loop over the same files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.kernel.commands.vacuum.orphan_files import (
    LISTING_SCHEMA,
    ListingRange,
    ListingResult,
    filter_inventory,
    list_range,
)
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles
from bayou.kernel.commands.vacuum.table_folder import HiddenNames
from bayou.kernel.engine import TEMPORARY_FILE_PATTERN

NOW = 1001  # a file of 1000 may be from 1999, if its store truncates times to seconds
NAMES = HiddenNames(prefixes=("_p=", ".q="), iceberg=True)

folders = st.sampled_from(
    [
        "a",
        "_p=1",
        ".q=2",
        "_x",
        ".y",
        "_change_data",
        "_delta_index",
        "_delta_log",
        "metadata",
        "ä b",
    ]
)
names = st.sampled_from(
    [
        "1.parquet",
        "metadata",
        "_hidden",
        ".crc",
        "_p=3",
        f".begun.{'0a' * 16}.tmp",
        "x#%20y",
        "\U0001f600",
    ]
)
files = st.dictionaries(
    st.tuples(st.lists(folders, max_size=3), names).map(lambda p: "/".join([*p[0], p[1]])),
    st.tuples(st.integers(0, 9), st.integers(NOW - 2, NOW + 1), st.booleans()),
    max_size=12,
)
"""Size, time, and whether the log needs it; by path."""


def hides(name: str, *, folder: bool) -> bool:
    if folder and name == "metadata":
        return True
    return name[:1] in "._" and not name.startswith(
        ("_delta_index", "_change_data", *NAMES.prefixes)
    )


def unneeded(listed: dict[str, tuple[int, int, bool]]) -> dict[str, int]:
    """The model: a file is looked at alone."""
    nested = set()
    for path in listed:
        parts = path.split("/")[:-1]
        for at, name in enumerate(parts):
            if any(hides(above, folder=True) for above in parts[:at]):
                break
            if name == "_delta_log" and at:
                nested.add("/".join(parts[:at]) + "/")
    found = {}
    for path, (size, time, needed) in listed.items():
        *above, name = path.split("/")
        if any(hides(folder, folder=True) for folder in above):
            continue
        if hides(name, folder=False) and not TEMPORARY_FILE_PATTERN.fullmatch(name):
            continue
        latest = time if time % 1000 else time + 999
        if needed or latest >= NOW or any(path.startswith(folder) for folder in nested):
            continue
        found[path] = size
    return found


def told(found: ListingResult, root: str) -> dict[str, int]:
    rows = found.own_files().to_pylist()
    assert len({row["path"] for row in rows}) == len(rows)
    return {row["path"].removeprefix(f"{root}/"): row["size"] for row in rows}


def kept_of(
    listed: dict[str, tuple[int, int, bool]], *, stable_hash: bool = False
) -> ReferencedFiles:
    kept = ReferencedFiles(
        [[p for p, (*_, needed) in listed.items() if needed]], stable_hash=stable_hash
    )
    return pickle.loads(pickle.dumps(kept)) if stable_hash else kept


def no_file_is_a_folder(listed: dict[str, tuple[int, int, bool]]) -> bool:
    return not any(other.startswith(f"{path}/") for path in listed for other in listed)


@given(files.filter(no_file_is_a_folder), st.integers(1, 3))
def test_a_stores_listing_shows_what_a_loop_over_its_files_finds(listed, parts):
    engine, root = MemoryEngine(), "memory://listing/t"
    for path in [s.path for s in engine.files.list_tree(root, lambda _: False)]:
        engine.files.delete_files([path])
    for path, (size, time, _) in listed.items():
        engine.files.put(f"{root}/{path}", b"x" * size)
        engine.files.set_modification_time(f"{root}/{path}", time)
    whole = ListingRange(root=root, names=NAMES, before=NOW)
    kept = kept_of(listed)
    shares = [list_range(engine, share, kept) for share in whole.split(kept, parts)]
    assert told(ListingResult.combined(shares), root) == unneeded(listed)


@given(files, st.integers(1, 4), st.sampled_from(["", "file:", "file://"]), st.booleans())
def test_an_inventory_shows_the_same(listed, batch, spelling, slashes):
    root = "/some/where/t"
    rows = [
        {
            "path": f"{spelling}{root}/{path}",
            "size": size,
            "modification_time": time,
            "is_folder": False,
        }
        for path, (size, time, _) in listed.items()
    ]
    above = {path.rpartition("/")[0] for path in listed} - {""}
    end = "/" if slashes else ""
    rows += [
        {
            "path": f"{spelling}{root}/{folder}{end}",
            "size": None,
            "modification_time": 0,
            "is_folder": True,
        }
        for folder in (*above, "empty")
    ]
    rows += [
        {**dict.fromkeys(LISTING_SCHEMA.names), "path": f"{spelling}{root}/unknown"},
        {"path": "/some/where/table2/x", "size": 1, "modification_time": 0, "is_folder": False},
        {"path": f"{spelling}{root}", "size": 1, "modification_time": 0, "is_folder": True},
    ]
    batches = pa.Table.from_pylist(rows, schema=LISTING_SCHEMA).to_batches(batch)
    whole = ListingRange(root=root, names=NAMES, before=NOW)
    found = filter_inventory(
        whole, kept_of(listed, stable_hash=True), batches, [f"file:{root}", f"file://{root}"]
    )
    assert told(found, root) == unneeded(listed)
    assert found.empty_folders() == [f"{root}/empty"]


def test_many_files_are_compared_in_several_goes():
    root = "/t"
    paths = pa.array([f"{root}/p{i % 7}/{i}" for i in range(200_000)])
    count = len(paths)
    table = pa.table(
        [paths, pa.repeat(1, count), pa.repeat(0, count), pa.repeat(False, count)],
        schema=LISTING_SCHEMA,
    )
    kept = ReferencedFiles([[f"p{i % 7}/{i}" for i in range(0, count, 2)]])
    whole = ListingRange(root=root, names=NAMES, before=NOW)
    found = filter_inventory(whole, kept, table.to_batches(8192))
    assert found.files.num_rows == count // 2


def test_a_file_whose_name_is_no_text_stays(tmp_path: Path):
    for name in (b"\xff.parquet", b"x.parquet"):
        place = os.path.join(os.fsencode(tmp_path), name)
        with open(place, "wb"):
            os.utime(place, (0, 0))
    whole = ListingRange(root=str(tmp_path), names=NAMES, before=NOW)
    found = list_range(ArrowEngine(), whole, ReferencedFiles([]))
    assert found.files["path"].to_pylist() == [f"{tmp_path}/x.parquet"]
