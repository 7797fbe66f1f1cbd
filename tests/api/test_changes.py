"""`bayou.table(...).changes`: rows of the change data feed."""

from __future__ import annotations

import datetime as dt
import gc
import os
import threading
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    ArgumentError,
    BayouError,
    ChangeDataFeedError,
    DataFileError,
    PredicateError,
    SchemaError,
    VersionNotFoundError,
)
from bayou.kernel import col

FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [f"p{i % 2}" for i in ids]})


@pytest.fixture
def table(path: str):
    """Version 0 makes the table with rows 1 to 4, 1 adds 5, 2 overwrites all with 6."""
    bayou.write(path, rows(1, 2, 3, 4), partition_by=["part"], configuration=FEED)
    bayou.write(path, rows(5))
    bayou.write(path, rows(6), mode="overwrite")
    return bayou.table(path)


def told(found: pa.Table) -> list[tuple[int, str, int]]:
    """(id, change type, version), sorted by version, type and id."""
    names = ["_commit_version", "_change_type", "id"]
    return [
        (row["id"], row["_change_type"], row["_commit_version"])
        for row in found.sort_by([(name, "ascending") for name in names]).to_pylist()
    ]


FIRST = [(i, "insert", 0) for i in (1, 2, 3, 4)]
LAST = [(i, "delete", 2) for i in (1, 2, 3, 4, 5)] + [(6, "insert", 2)]


def test_changes_are_the_rows_that_came_and_went(table):
    changes = table.changes(0)
    assert told(changes.to_arrow()) == [*FIRST, (5, "insert", 1), *LAST]
    assert (changes.start_version, changes.end_version) == (0, 2)
    assert repr(changes) == f"bayou.table({table.table_uri!r}).changes(0, 2)"


def test_rows_have_the_tables_columns_and_the_feeds(table):
    changes = table.changes(1, 1)
    found = changes.to_arrow()
    assert found.schema == changes.arrow_schema
    assert found.schema.names == [
        "id",
        "part",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    (row,) = found.to_pylist()
    moment = row.pop("_commit_timestamp")
    assert row == {"id": 5, "part": "p1", "_change_type": "insert", "_commit_version": 1}
    milliseconds = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    assert milliseconds == table.snapshot(version=1).timestamp


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 0, FIRST), (1, 1, [(5, "insert", 1)]), (2, None, LAST), (2, 50, LAST)],
)
def test_both_ends_of_a_range_are_part_of_it(table, start, end, expected):
    assert told(table.changes(start, end).to_arrow()) == expected


def test_columns_are_names_in_the_order_wanted_and_a_filter_may_speak_of_others(table):
    found = table.changes(0).to_arrow(
        columns=["_change_type", "id"], filter="part = 'p0' AND _commit_version >= 2"
    )
    assert found.schema.names == ["_change_type", "id"]
    assert sorted(map(tuple, (r.values() for r in found.to_pylist()))) == [
        ("delete", 2),
        ("delete", 4),
        ("insert", 6),
    ]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("_change_type = 'delete' AND id < 3", [1, 2]),
        ("_change_type <> 'delete' AND id > 3", [4, 5, 6]),
        ("_commit_version = 1 OR id = 6", [5, 6]),
        ("_commit_timestamp > '2020-01-01' AND id = 5", [5, 5]),
        ("_commit_timestamp < '2020-01-01'", []),
        ((col("_commit_version") == 2) & (col("id") >= 5), [5, 6]),
    ],
)
def test_a_filter_gives_the_changes_for_which_it_is_true(table, filter, expected):
    found = table.changes(0).to_arrow(filter=filter)
    assert sorted(found.column("id").to_pylist()) == expected


def test_columns_of_the_feed_alone_still_count_rows(table):
    found = table.changes(0).to_arrow(columns=["_commit_version"])
    assert sorted(found.column(0).to_pylist()) == [0] * 4 + [1] + [2] * 6
    assert table.changes(0).to_arrow(columns=[]).num_rows == 11


def test_batches_come_one_by_one_in_the_order_of_the_commits(table):
    versions = [
        version
        for batch in table.changes(0)
        for version in batch.column("_commit_version").to_pylist()
    ]
    assert versions == sorted(versions)
    assert len(versions) == 11
    reader = table.changes(0).to_batches(columns=["id"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_next_batch().num_rows > 0
    reader.close()


def test_what_cant_be_asked_for_is_refused(table):
    with pytest.raises(
        SchemaError, match="no column 'nope'. Its columns are id, part, _change_type"
    ):
        table.changes(0).to_arrow(columns=["nope"])
    with pytest.raises(ArgumentError, match="list of names"):
        table.changes(0).to_arrow(columns="id")
    with pytest.raises(PredicateError):
        table.changes(0).to_arrow(filter="nope = 1")
    with pytest.raises(VersionNotFoundError, match="latest version is 2"):
        table.changes(3)
    with pytest.raises(ArgumentError, match="at the earlier version"):
        table.changes(2, 1)


@pytest.mark.parametrize("start", [True, -1, "soon", 1.5, None])
def test_what_is_neither_version_nor_time_is_refused(table, start):
    with pytest.raises(ArgumentError):
        table.changes(start)
    if start is not None:
        with pytest.raises(ArgumentError):
            table.changes(0, start)


def test_a_table_without_the_feed_says_at_which_version_it_is_off(path):
    bayou.write(path, rows(1))
    with pytest.raises(ChangeDataFeedError, match=r"version 0 .*enableChangeDataFeed") as caught:
        bayou.table(path).changes(0)
    assert caught.value.version == 0


@pytest.fixture
def dated(tmp_path: Path):
    """Three versions, committed on the first three days of 2024."""
    path = tmp_path / "dated"
    for number in range(3):
        bayou.write(str(path), rows(number), configuration=FEED if number == 0 else None)
        moment = dt.datetime(2024, 1, 1 + number, tzinfo=dt.UTC).timestamp()
        os.utime(path / "_delta_log" / f"{number:020d}.json", (moment, moment))
    return bayou.table(str(path))


@pytest.mark.parametrize(
    ("start", "end", "versions"),
    [
        ("2024-01-01", "2024-01-02", [0, 1]),
        ("2023-01-01", None, [0, 1, 2]),
        (dt.datetime(2024, 1, 1, 12), None, [1, 2]),
        (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "2024-01-02T23:59:59Z", [1]),
        (1, "2024-01-02 05:00:00", [1]),
        ("2024-01-01 01:00:00", "2024-01-01 02:00:00", []),
    ],
)
def test_a_time_begins_with_the_first_commit_after_it_and_ends_with_the_last_before(
    dated, start, end, versions
):
    changes = dated.changes(start, end)
    assert changes.to_arrow().column("_commit_version").to_pylist() == versions
    assert changes.start_version == (versions[0] if versions else None)
    assert changes.end_version == (versions[-1] if versions else None)


@pytest.mark.parametrize(
    ("start", "end"), [("2024-01-04", None), (0, "2024-01-04"), (0, "2023-12-31")]
)
def test_a_time_outside_of_the_log_is_an_error(dated, start, end):
    with pytest.raises(VersionNotFoundError):
        dated.changes(start, end)


@pytest.mark.parametrize(
    ("arguments", "versions"),
    [
        ({"starting_version": 3}, []),
        ({"starting_timestamp": "2024-01-04"}, []),
        ({"starting_version": 1, "ending_version": 9}, [1, 2]),
        ({"starting_version": 1, "ending_timestamp": "2024-01-04"}, [1, 2]),
        ({"starting_timestamp": "2024-01-02", "ending_timestamp": "2024-01-04"}, [1, 2]),
    ],
)
def test_load_cdf_reads_the_part_of_a_range_that_is_in_the_log(dated, arguments, versions):
    found = dated.load_cdf(**arguments, columns=["_commit_version"], allow_out_of_range=True)
    assert found.read_all().column(0).to_pylist() == versions


def test_load_cdf_refuses_a_range_that_ends_before_the_first_commit(dated):
    with pytest.raises(VersionNotFoundError):
        dated.load_cdf(ending_timestamp="2023-12-31", allow_out_of_range=True)


def test_times_of_files_are_monotonic_in_the_rows_too(dated):
    folder = Path(dated.table_uri) / "_delta_log"
    os.utime(folder / f"{1:020d}.json", (0, 0))
    found = dated.changes(0).to_arrow(columns=["_commit_timestamp"]).column(0).to_pylist()
    assert found[1] - found[0] == dt.timedelta(milliseconds=1)


def test_a_vacuumed_file_of_an_old_change_is_named(dated):
    for file in Path(dated.table_uri).glob("*.parquet"):
        file.unlink()
    with pytest.raises(DataFileError, match="VACUUM"):
        dated.changes(0).to_arrow()


@pytest.fixture(params=[False, True])
def merged(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Written by `deltalake`: create, update, delete, merge, overwrite."""
    path = str(tmp_path / "merged")
    partitions = ["part"] if request.param else None
    deltalake.write_deltalake(path, rows(1, 2, 3, 4), partition_by=partitions, configuration=FEED)
    table = deltalake.DeltaTable(path)
    table.update(updates={"part": "'p1'"}, predicate="id = 2")
    table.delete("id = 3")
    source = pa.table({"id": pa.array([4, 9], pa.int64()), "part": ["p7", "p8"]})
    merge = table.merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    deltalake.write_deltalake(path, rows(5), mode="append")
    deltalake.write_deltalake(path, rows(6), mode="overwrite")
    deltalake.DeltaTable(path).optimize.compact()
    return path


def test_changes_that_deltalake_wrote_are_those_that_it_reads(merged):
    latest = deltalake.DeltaTable(merged).version()
    for start in range(latest + 1):
        for end in range(start, latest + 1):
            peer = deltalake.DeltaTable(merged).load_cdf(starting_version=start, ending_version=end)
            expected = pa.table(peer.read_all())
            found = bayou.table(merged).changes(start, end).to_arrow()
            names = ["id", "part", "_change_type", "_commit_version"]
            assert sorted(map(repr, found.select(names).to_pylist())) == sorted(
                map(repr, expected.select(names).to_pylist())
            )


def open_data_files() -> set[str]:
    gc.collect()
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {path for path in found if path.endswith(".parquet")}


def test_stopping_early_closes_the_files_that_are_read_ahead(tmp_path):
    path = str(tmp_path / "many")
    for number in range(12):
        bayou.write(path, rows(*range(number, number + 5000)), configuration=FEED)
    reader = bayou.table(path).changes(0).to_batches()
    assert reader.read_next_batch().num_rows > 0
    reader.close()
    del reader
    assert open_data_files() == set()


def test_changes_can_be_read_while_others_write(path):
    bayou.write(path, rows(0), configuration=FEED)
    failures: list[BaseException] = []

    def write() -> None:
        for number in range(1, 15):
            bayou.write(path, rows(number))

    def read() -> None:
        try:
            while True:
                found = bayou.table(path).changes(0).to_arrow()
                versions = sorted(found.column("_commit_version").to_pylist())
                assert versions == list(range(len(versions)))
                if len(versions) == 15:
                    return
        except (BayouError, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=write), *(threading.Thread(target=read) for _ in range(2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
