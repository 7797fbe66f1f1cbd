"""VACUUM: what goes, what stays, and what the history says of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from bayou.api import write
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    ArgumentError,
    CorruptTableError,
    StorageError,
    UnsupportedFeatureError,
)
from bayou.kernel import Table
from bayou.kernel.commands.vacuum.orphan_files import (
    LISTING_SCHEMA,
    ListingRange,
    ListingResult,
    filter_inventory,
)
from bayou.kernel.commands.vacuum.referenced_files import ReferencedFiles
from bayou.kernel.commands.vacuum.vacuum import vacuum
from bayou.kernel.engine import TEMPORARY_FILE_PATTERN
from bayou.protocol.deletion_vectors import z85_encode
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import LogWriter, add, protocol, remove
from support.vacuums import HEAD, HOUR, OLD, age_the_log, ago, history, names, put, run
from support.waiting import wait_until


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
        lists_logs=False,
    )
    assert names(log) == ["sub/t/0.parquet", "sub/t/_delta_log/0.json"]


def test_rows_are_the_same_after_a_vacuum(tmp_path):
    path = str(tmp_path / "t")
    for i in range(3):
        write(path, pa.table({"id": [i], "p": [i % 2]}), partition_by=["p"])
    write(path, pa.table({"id": [7, 8], "p": [0, 1]}), mode="overwrite")
    engine = ArrowEngine()
    written = time.time_ns() // 1_000_000
    # What was written or removed in the last millisecond stays.
    wait_until(lambda: time.time_ns() // 1_000_000 > written + 1, what="the next millisecond")
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


@pytest.mark.parametrize("kind", ["add", "remove"])
def test_a_checkpoint_with_an_action_without_a_path_is_refused(log, kind):
    action = {"add": add("a"), "remove": remove("a")}[kind]
    actions = [*HEAD, add("b"), {kind: {**action[kind], "path": None}}]
    log.commit(*HEAD, add("b"))
    log.checkpoint(0, actions)
    with pytest.raises(CorruptTableError, match="is damaged: an add or remove action has no path"):
        run(log, 2)
