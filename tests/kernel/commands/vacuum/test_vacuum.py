"""VACUUM: what goes, what stays, and what the history says of it."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bayou.api import write
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import (
    ArgumentError,
    CorruptTableError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel import Table
from bayou.kernel.commands.vacuum.orphan_files import (
    LISTING_SCHEMA,
    ListingRange,
    ListingResult,
    filter_inventory,
    list_range,
)
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles
from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics, vacuum
from bayou.kernel.engine import TEMPORARY_FILE_PATTERN
from bayou.protocol.deletion_vectors import z85_encode
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import LogWriter, add, metadata, protocol, remove
from support.waiting import wait_until

HOUR = 3_600_000
OLD = time.time_ns() // 1_000_000 - 1000 * HOUR
HEAD = (protocol(), metadata({"id": "long", "_p": "string", "day": "string"}, ["_p", "day"]))


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, table_path: str, tmp_path: Path) -> LogWriter:
    if request.param == "memory":
        return LogWriter(MemoryEngine(), table_path)
    return LogWriter(ArrowEngine(), str(tmp_path / "a table"))


def ago(hours: int) -> int:
    """When the test asks: the run of all tests may take longer than an hour."""
    return time.time_ns() // 1_000_000 - hours * HOUR


def put(log: LogWriter, name: str, *, at: int = OLD, size: int = 3) -> str:
    """A file below the table, as old as it is said to be."""
    path = f"{log.table}/{name}"
    with log.engine.files.open_output(path) as output:
        output.write(b"x" * size)
    if path.startswith("memory:"):
        log.engine.files.set_modification_time(path, at)
    else:
        os.utime(path, ns=(at * 1_000_000, at * 1_000_000))
    return path


def names(log: LogWriter) -> list[str]:
    """Files below the table but for its log."""
    found = log.engine.files.list_tree(log.table, lambda f: f == f"{log.table}/_delta_log")
    return sorted(s.path[len(log.table) + 1 :] for s in found if not s.path.endswith("/"))


def run(log: LogWriter, hours: float | None = 0, **options: Any) -> VacuumMetrics:
    """A vacuum, of which a dry run finds the same where the folder is listed in shares."""
    options.setdefault("enforce_retention_duration", False)

    def in_shares(whole: ListingRange, kept: ReferencedFiles) -> Iterator[ListingResult]:
        sent = pickle.loads(pickle.dumps(kept))
        for share in whole.split(kept, 3):
            yield list_range(log.engine, share, sent)

    if not options.get("lite"):
        shared = vacuum(
            log.engine, log.table, hours, **{**options, "dry_run": True}, list_ranges=in_shares
        )
        alone = vacuum(log.engine, log.table, hours, **{**options, "dry_run": True})
        assert shared.inventory.sort_by("path").equals(alone.inventory.sort_by("path"))
        assert shared.num_files_to_delete == alone.num_files_to_delete
        assert shared.num_vacuumed_directories == alone.num_vacuumed_directories
    return vacuum(log.engine, log.table, hours, **options)


def history(log: LogWriter) -> list[dict[str, Any]]:
    return Table.for_path(log.engine, log.table).history(log.engine)


def test_files_that_nothing_names_go_and_those_of_the_table_stay(log):
    log.commit(*HEAD, add("_p=1/day=2/a.parquet"), add("b.parquet"))
    for name in ("_p=1/day=2/a.parquet", "b.parquet", "_p=1/day=2/x.parquet", "y", "z/deep/w"):
        put(log, name)
    done = run(log)
    assert names(log) == ["_p=1/day=2/a.parquet", "b.parquet"]
    assert (done.num_files_to_delete, done.num_deleted_files) == (3, 3)
    assert done.size_of_data_to_delete == 9


def test_a_dry_run_deletes_nothing_and_tells_all(log):
    log.commit(*HEAD, add("a"))
    put(log, "a")
    paths = sorted([put(log, "x", size=5), put(log, "y", size=7)])
    done = run(log, dry_run=True)
    rows = sorted(done.inventory.to_pylist(), key=lambda row: row["path"])
    assert [row["path"] for row in rows] == paths
    assert [row["size"] for row in rows] == [5, 7]
    assert {row["modification_time"] for row in rows} == {OLD}
    assert (done.dry_run, done.num_deleted_files) == (True, 0)
    assert names(log) == ["a", "x", "y"]
    assert len(history(log)) == 1


def test_the_history_says_what_was_done_as_delta_spark_says_it(log):
    log.commit(*HEAD, add("a"))
    put(log, "x")
    run(log)
    end, start, _ = history(log)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationParameters"] == {
        "retentionCheckEnabled": False,
        "defaultRetentionMillis": 168 * HOUR,
        "specifiedRetentionMillis": 0,
    }
    assert start["operationMetrics"] == {"numFilesToDelete": "1", "sizeOfDataToDelete": "3"}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"]["numDeletedFiles"] == "1"
    assert {c["isolationLevel"] for c in (start, end)} == {"SnapshotIsolation"}


def test_the_table_says_how_long_files_stay(log):
    log.commit(*HEAD, add("a"))
    put(log, "young", at=ago(hours=167))
    put(log, "old", at=ago(hours=169))
    run(log, None, enforce_retention_duration=True)
    assert names(log) == ["young"]
    run(log, 100)
    assert names(log) == []


@pytest.mark.parametrize("hours", [0, 167.9])
def test_a_shorter_retention_than_the_tables_is_refused(log, hours):
    log.commit(*HEAD, add("a"))
    put(log, "x")
    with pytest.raises(ArgumentError, match=r"168 hours.*enforce_retention_duration=False"):
        vacuum(log.engine, log.table, hours)
    assert names(log) == ["x"]


@pytest.mark.parametrize("hours", [-1, float("nan")])
def test_a_retention_that_is_none_is_refused(log, hours):
    log.commit(*HEAD)
    with pytest.raises(ArgumentError, match="0 or more"):
        run(log, hours)


def test_files_of_young_tombstones_stay(log):
    log.commit(*HEAD, add("young"), add("old"), add("timeless"))
    log.commit(
        remove("young", deletionTimestamp=ago(hours=1)),
        remove("old", deletionTimestamp=OLD),
        remove("timeless"),
    )
    for name in ("young", "old", "timeless"):
        put(log, name)
    run(log, 2)
    assert names(log) == ["young"]


def test_a_checkpoint_tells_the_same_as_the_commits(log):
    actions = [*HEAD, add("live"), remove("young", deletionTimestamp=ago(hours=1))]
    log.commit(*actions)
    log.checkpoint(0, actions)
    log.delete(f"{0:020d}.json")
    log.commit(add("new"), remove("live", deletionTimestamp=OLD))
    for name in ("live", "young", "new", "x"):
        put(log, name)
    run(log, 2)
    assert names(log) == ["new", "young"]


def test_what_a_killed_writer_had_begun_goes_after_the_retention(log):
    log.commit(*HEAD)
    begun = f".part-00000-8f.{'0a' * 16}.tmp"
    for name in (begun, f"_p=1/day=2/{begun}", ".part-00000-8f.tmp", f"_other/{begun}"):
        put(log, name)
    put(log, f"_p=1/{begun}", at=ago(hours=0))
    run(log, hours=1)
    assert names(log) == sorted([f"_p=1/{begun}", ".part-00000-8f.tmp", f"_other/{begun}"])


def test_the_engine_s_unfinished_files_have_names_by_which_they_are_known(tmp_path):
    output = ArrowEngine().files.open_output(f"{tmp_path}/{'é' * 60}.parquet")
    (name,) = (path.name for path in tmp_path.iterdir())
    output.discard()
    assert TEMPORARY_FILE_PATTERN.fullmatch(name)


def test_hidden_files_and_folders_are_not_the_tables(log):
    log.commit(*HEAD, add("a"))
    for name in (".x", "_y", ".folder/x", "_folder/deep/x", "day=1/_x", "day=1/.x.crc"):
        put(log, name)
    for name in ("_change_data/x", "_delta_index/x", "_p=1/x", "day=1/_p=1/x"):
        put(log, name)
    run(log)
    hidden = [".folder/x", ".x", "_folder/deep/x", "_y", "day=1/.x.crc", "day=1/_x"]
    assert names(log) == sorted(hidden)


def test_another_table_below_is_left_alone(log):
    log.commit(*HEAD, add("a"))
    for name in ("sub/t/0.parquet", "sub/t/_delta_log/0.json", "sub/t/z=1/1.parquet", "sub/x"):
        put(log, name)
    run(log)
    assert names(log) == ["sub/t/0.parquet", "sub/t/_delta_log/0.json", "sub/t/z=1/1.parquet"]


def test_paths_are_decoded_once(log):
    log.commit(*HEAD, add("day=a%20b/100%2525.parquet"), add("day=x%2Fy/c.parquet"))
    kept = ["day=a b/100%25.parquet", "day=x/y/c.parquet"]
    for name in (*kept, "day=a b/100%.parquet", "day=a%20b/x.parquet"):
        put(log, name)
    run(log)
    assert names(log) == sorted(kept)


def test_a_percent_sign_that_a_writer_left_as_it_is_costs_no_file(log):
    log.commit(*HEAD, add("50%20.parquet"))
    put(log, "50%20.parquet")
    run(log)
    assert names(log) == ["50%20.parquet"]


def test_absolute_paths_of_the_table_are_its_own_and_others_are_not(log):
    log.commit(*HEAD, add(f"{log.table}/a"), add("/elsewhere/b"), add("./c//d"))
    for name in ("a", "c/d", "x"):
        put(log, name)
    run(log)
    assert names(log) == ["a", "c/d"]


@pytest.mark.parametrize("lite", [True, False])
@pytest.mark.parametrize(
    "root",
    [
        "abfs://c@lake.dfs.core.windows.net/t",
        "s3n://lake/t",
        "s3://lake//t",
        "https://lake.example.com/c/t",
        "file:/mnt/other%20name/t",
    ],
)
def test_a_live_file_that_is_named_by_an_alias_of_the_table_stays(log, root, lite):
    number = "00000001-0000-4000-8000-000000000000"
    alias = {
        "storageType": "p",
        "pathOrInlineDv": f"{root}/deletion_vector_{number}.bin",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 1,
    }
    log.commit(*HEAD, add(f"{root}/day=a%20b/live"), add(f"{root}/x", vector=alias))
    gone = ("day=a b/live", f"deletion_vector_{number}.bin", "x", "gone")
    log.commit(*(remove(name.replace(" ", "%20"), deletionTimestamp=OLD) for name in gone))
    age_the_log(log)
    for name in gone:
        put(log, name)
    run(log, lite=lite)
    assert names(log) == sorted(gone[:-1])


def vector(name: str, size: int = 36) -> dict[str, Any]:
    text = z85_encode(bytes.fromhex(name.replace("-", "")))
    body = {"storageType": "u", "pathOrInlineDv": f"ab{text}", "offset": 1}
    return {**body, "sizeInBytes": size, "cardinality": 1}


def test_files_of_deletion_vectors_stay_with_their_data(log):
    head = (protocol(3, 7, (["deletionVectors"], ["deletionVectors"])), HEAD[1])
    live, young, old = (f"0000000{i}-0000-4000-8000-000000000000" for i in (1, 2, 3))
    log.commit(*head, add("a", vector=vector(live)), add("b"))
    log.commit(
        remove("b", vector=vector(young), deletionTimestamp=ago(hours=1)),
        remove("c", vector=vector(old), deletionTimestamp=OLD),
    )
    files = [f"ab/deletion_vector_{name}.bin" for name in (live, young, old)]
    for name in (*files, "a", "b", "c"):
        put(log, name)
    run(log, 2)
    assert names(log) == sorted(["a", "b", *files[:2]])


def test_folders_that_were_emptied_go_and_others_stay(tmp_path):
    log = LogWriter(ArrowEngine(), str(tmp_path / "t"))
    log.commit(*HEAD, add("_p=1/day=1/a"))
    for name in ("_p=1/day=1/a", "_p=1/day=2/x", "_p=2/day=1/x", "_p=3/.hidden", "_p=3/x"):
        put(log, name)
    (tmp_path / "t" / "empty" / "deep").mkdir(parents=True)
    done = run(log)
    left = {str(p.relative_to(tmp_path / "t")) for p in (tmp_path / "t").rglob("*") if p.is_dir()}
    assert left == {"_delta_log", "_p=1", "_p=1/day=1", "_p=3"}
    assert done.num_deleted_files == 4  # three files, and the folder that was empty before
    assert done.num_vacuumed_directories == 9


def test_nothing_to_delete_is_said_too(log):
    log.commit(*HEAD, add("a"))
    put(log, "a")
    assert run(log).num_deleted_files == 0
    assert [c.get("operation") for c in history(log)][:2] == ["VACUUM END", "VACUUM START"]


def test_a_vacuum_that_fails_says_so_and_can_be_repeated(log):
    log.commit(*HEAD, add("a"))
    for name in ("a", "x", "y"):
        put(log, name)
    faulty = FaultInjectingEngine(log.engine, Fault(operation="delete_files", passing=1))
    with pytest.raises(StorageError):
        vacuum(faulty, log.table, 0, enforce_retention_duration=False)
    assert history(log)[0]["operationParameters"] == {"status": "FAILED"}
    run(log)
    assert names(log) == ["a"]


def test_a_table_that_asks_for_the_unknown_of_a_writer_is_refused(log):
    log.commit(protocol(1, 7, ([], ["rune"])), HEAD[1], add("a"))
    put(log, "x")
    with pytest.raises(UnsupportedFeatureError, match="rune"):
        run(log)
    assert names(log) == ["x"]


def test_a_table_that_checks_the_protocol_of_a_vacuum_is_vacuumed(log):
    features = (["vacuumProtocolCheck"], ["vacuumProtocolCheck"])
    log.commit(protocol(3, 7, features), HEAD[1], add("a"))
    put(log, "x")
    assert run(log).num_deleted_files == 1


def age_commits(log: LogWriter, *milliseconds: int) -> None:
    for version, at in enumerate(milliseconds):
        path = log.path(f"{version:020d}.json")
        if path.startswith("memory:"):
            log.engine.files.set_modification_time(path, at)
        else:
            os.utime(path, ns=(at * 1_000_000, at * 1_000_000))


def test_lite_takes_what_commits_removed_and_leaves_the_rest(log):
    cdc = {"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 9, "dataChange": False}}
    log.commit(*HEAD, add("a"), add("b"), add("back"))
    log.commit(
        remove("a", size=3, deletionTimestamp=OLD), cdc, remove("back", deletionTimestamp=OLD)
    )
    log.commit(add("back"), remove("b", deletionTimestamp=ago(hours=1)))
    age_commits(log, OLD, OLD + 1, ago(hours=1))
    for name in ("a", "b", "back", "_change_data/c", "stray"):
        put(log, name)
    done = run(log, 2, lite=True)
    assert names(log) == ["b", "back", "stray"]
    assert sorted(done.inventory["size"].to_pylist()) == [3, 9]
    assert run(log, 2, lite=True).num_files_to_delete == 0


def test_lite_goes_on_where_the_last_one_ended(log):
    log.commit(*HEAD, add("a"), add("b"))
    log.commit(remove("a", deletionTimestamp=OLD))
    age_commits(log, OLD, OLD + 1)
    run(log, 2, lite=True)
    log.checkpoint(1, [*HEAD, add("b")])
    log.delete(f"{0:020d}.json")
    log.delete(f"{1:020d}.json")
    put(log, "a")
    assert run(log, 2, lite=True).num_files_to_delete == 0  # it was taken before


def test_lite_without_the_commits_that_it_needs_is_refused(log):
    log.commit(*HEAD, add("a"))
    log.commit(add("b"))
    log.checkpoint(1, [*HEAD, add("a"), add("b")])
    log.delete(f"{0:020d}.json")
    with pytest.raises(VersionNotFoundError, match="Run a full vacuum"):
        run(log, 0, lite=True)


def test_lite_leaves_the_files_of_another_table_below_alone(log):
    """The table is a shallow clone of `source`, which lies in its folder."""
    inside = ["source/a", "source/deep/b", "source/deletion_vector.bin", "source/_delta_log/0.json"]
    theirs = [f"{log.table}/{name}" for name in inside[:2]]
    log.commit(*HEAD, *map(add, theirs), add("day=1/c"))
    gone = [*theirs, "source/deep/b", "day=1/c"]
    log.commit(*(remove(path, deletionTimestamp=OLD) for path in gone))
    age_commits(log, OLD, OLD + 1)
    for name in (*inside, "day=1/c"):
        put(log, name)
    run(log, 2, lite=True)
    assert names(log) == sorted(inside)


def test_lite_deletes_nothing_hidden(log):
    hidden = ["_delta_log/00000000000000000000.json", "_x/a", ".b", "day=1/_c"]
    log.commit(*HEAD, add("a"))
    log.commit(*(remove(path, deletionTimestamp=OLD) for path in (*hidden, "a", "_p=1/d")))
    age_commits(log, OLD, OLD + 1)
    for name in (*hidden[1:], "a", "_p=1/d"):
        put(log, name)
    run(log, 2, lite=True)
    assert names(log) == sorted(hidden[1:])
    assert Table.for_path(log.engine, log.table).latest_snapshot(log.engine).version == 3


def test_an_inventory_that_lacks_the_log_of_another_table_costs_it_no_file(log):
    log.commit(*HEAD, add("a"))
    for name in ("sub/t/0.parquet", "sub/t/_delta_log/0.json", "sub/x.parquet"):
        put(log, name)

    def only_data(whole: ListingRange, kept: ReferencedFiles) -> Iterator[ListingResult]:
        paths = [f"{log.table}/{name}" for name in ("sub/t/0.parquet", "sub/x.parquet")]
        listed = pa.table(
            [paths, [3, 3], [OLD, OLD], [False, False]], schema=LISTING_SCHEMA
        ).to_batches()
        yield filter_inventory(whole, kept, listed)

    vacuum(
        log.engine,
        log.table,
        0,
        enforce_retention_duration=False,
        list_ranges=only_data,
        lists_everything=False,
    )
    assert names(log) == ["sub/t/0.parquet", "sub/t/_delta_log/0.json"]


def test_rows_are_the_same_after_a_vacuum(tmp_path):
    path = str(tmp_path / "t")
    for i in range(3):
        write(path, pa.table({"id": [i], "p": [i % 2]}), partition_by=["p"])
    write(path, pa.table({"id": [7, 8], "p": [0, 1]}), mode="overwrite")
    engine = ArrowEngine()
    written = time.time_ns() // 1_000_000
    # What was removed in the millisecond of the vacuum stays.
    wait_until(lambda: time.time_ns() // 1_000_000 > written, what="the next millisecond")
    done = vacuum(engine, path, 0, enforce_retention_duration=False)
    assert done.num_deleted_files == 3
    scan = Table.for_path(engine, path).latest_snapshot(engine).scan_builder().build()
    files = [f.status.path for b in scan.scan_files(engine) for f in b.rows()]
    assert len(files) == 2
    assert all(os.path.exists(file) for file in files)
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 2


OUTSIDE = ["../other/x.parquet", "..%2Fother%2Fx.parquet", "day=a/../../other/x.parquet", ".."]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("lite", [True, False])
@pytest.mark.parametrize("action", ["add", "remove", "cdc"])
def test_a_relative_path_that_leaves_the_table_is_an_error_and_deletes_nothing(
    log, path, lite, action
):
    victim = put(LogWriter(log.engine, f"{log.table}/../other"), "x.parquet")
    named = {
        "add": add(path),
        "remove": remove(path, deletionTimestamp=OLD),
        "cdc": {"cdc": {"path": path, "partitionValues": {}, "size": 3, "dataChange": False}},
    }
    log.commit(*HEAD, named[action])
    age_the_log(log)
    if lite or action == "add":
        with pytest.raises(CorruptTableError, match="relative path that leaves the table"):
            run(log, lite=lite)
    else:
        run(log, lite=lite)
    assert log.engine.files.status(victim)


@pytest.mark.parametrize("lite", [True, False])
def test_a_deletion_vector_whose_folder_leaves_the_table_is_an_error(log, lite):
    body = vector("00000001-0000-4000-8000-000000000000")
    body["pathOrInlineDv"] = "../other/" + body["pathOrInlineDv"].removeprefix("ab")
    head = (protocol(3, 7, (["deletionVectors"], ["deletionVectors"])), HEAD[1])
    log.commit(*head, add("a", vector=body), remove("b", vector=body, deletionTimestamp=OLD))
    age_the_log(log)
    with pytest.raises(CorruptTableError, match="relative path that leaves the table"):
        run(log, lite=lite)


def test_lite_leaves_absolute_paths_outside_of_the_table_alone(log):
    victim = put(LogWriter(log.engine, f"{log.table}-other"), "x.parquet")
    uris = [victim, f"{log.table}/../{victim.rpartition('/')[0].rpartition('/')[2]}/x.parquet"]
    log.commit(*HEAD, *(remove(uri, deletionTimestamp=OLD) for uri in uris))
    age_the_log(log)
    assert run(log, lite=True).num_files_to_delete == 0
    assert log.engine.files.status(victim)


def age_the_log(log: LogWriter) -> None:
    for status in log.engine.files.list_from(f"{log.table}/_delta_log/"):
        if log.table.startswith("memory:"):
            log.engine.files.set_modification_time(status.path, OLD)
        else:
            os.utime(status.path, ns=(OLD * 1_000_000, OLD * 1_000_000))


def put_outside(path: Path) -> None:
    path.write_bytes(b"x")
    os.utime(path, ns=(OLD * 1_000_000, OLD * 1_000_000))


@pytest.fixture
def disk(tmp_path: Path) -> LogWriter:
    return LogWriter(ArrowEngine(), str(tmp_path / "table"))


def test_links_to_folders_are_neither_deleted_nor_followed(disk, tmp_path):
    disk.commit(*HEAD, add("day=a/live"), add("x"))
    disk_of_others = tmp_path / "others"
    disk_of_others.mkdir()
    for name in ("live", "orphan"):
        put_outside(disk_of_others / name)
    put(disk, "x")
    put(disk, "y")
    for name, target in {"day=a": disk_of_others, "day=b": tmp_path / "unmounted"}.items():
        os.symlink(target, f"{disk.table}/{name}")
        at = (OLD * 1_000_000, OLD * 1_000_000)
        os.utime(f"{disk.table}/{name}", ns=at, follow_symlinks=False)
    assert run(disk).inventory.column("path").to_pylist() == [f"{disk.table}/y"]
    assert sorted(os.listdir(disk.table)) == ["_delta_log", "day=a", "day=b", "x"]
    assert sorted(os.listdir(disk_of_others)) == ["live", "orphan"]


def test_lite_deletes_nothing_behind_a_link_to_another_place(disk, tmp_path):
    disk.commit(*HEAD, remove("day=a/gone", deletionTimestamp=OLD))
    age_the_log(disk)
    others = tmp_path / "others"
    others.mkdir()
    put_outside(others / "gone")
    os.symlink(others, f"{disk.table}/day=a")
    assert run(disk, lite=True).num_files_to_delete == 0
    assert os.listdir(others) == ["gone"]


@pytest.mark.parametrize("lite", [True, False])
@pytest.mark.parametrize("opened", ["real", "link"])
@pytest.mark.parametrize("named", ["real", "link"])
def test_a_file_is_the_same_by_every_name_of_its_folder(tmp_path, lite, opened, named):
    real = LogWriter(ArrowEngine(), str(tmp_path / "real" / "table"))
    os.symlink(tmp_path / "real", tmp_path / "link")
    root = f"file://{tmp_path}/{named}/table"
    real.commit(
        *HEAD,
        add(f"{root}/live"),
        add("inner=1/x"),
        remove(f"{tmp_path}/{opened}/table/live", deletionTimestamp=OLD),
        remove("inner=2/x", deletionTimestamp=OLD),
        remove(f"{root}/gone", deletionTimestamp=OLD),
    )
    age_the_log(real)
    for name in ("live", "gone", "inner=2/x"):
        put(real, name)
    os.symlink("inner=2", f"{real.table}/inner=1")
    run(LogWriter(real.engine, f"{tmp_path}/{opened}/table"), lite=lite)
    assert sorted(os.listdir(real.table)) == ["_delta_log", "inner=1", "inner=2", "live"]
    assert os.listdir(f"{real.table}/inner=2") == ["x"]
