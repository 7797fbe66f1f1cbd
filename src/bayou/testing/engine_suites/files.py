"""Tests of `FileSystemClient`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ClassVar

import pytest

from bayou.errors import FileMissingError
from bayou.kernel.engine import ByteRange, Engine
from bayou.testing.engine_suites.fixtures import HandlerSuite


class FileSystemClientSuite(HandlerSuite):
    """Tests the contract of `FileSystemClient`."""

    ODD_NAMES: ClassVar[Sequence[str]] = (
        "x#1",
        "with space",
        "a%20b",
        "%2525",
        "100%",
        "day=2024-01-05 10:00:00+02:00",
        "q?x=1&y",
        "naïve-日本-😀",
        "[b]{c}^`~;,'\"",
        ".hidden",
    )
    """Names that every file system client must support."""

    def test_a_resolved_path_has_no_trailing_slash_and_resolves_to_itself(
        self, engine: Engine, root: str
    ) -> None:
        resolved = engine.files.resolve_path(f"{root}/table/")
        assert not resolved.endswith("/")
        assert resolved.endswith("/table")
        assert engine.files.resolve_path(resolved) == resolved

    def test_a_real_path_is_its_own_real_path(self, engine: Engine, root: str) -> None:
        real = engine.files.real_path(f"{root}/table/")
        assert real.endswith("/table")
        assert engine.files.real_path(real) == real

    def test_listing_starts_at_the_name_and_is_in_order_of_bytes(
        self, engine: Engine, root: str
    ) -> None:
        names = ["00000.json", "00001.json", "00001.x.json", "00002.json", "Z", "_a", "é", "🦆"]
        _put_all(engine, root, reversed(names))
        listed = [s.path for s in engine.files.list_from(f"{root}/00001")]
        assert listed == [f"{root}/{name}" for name in names[1:]]

    def test_the_first_name_itself_is_listed(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a", "b", "c"])
        assert [s.path for s in engine.files.list_from(f"{root}/b")] == [f"{root}/b", f"{root}/c"]

    def test_listing_leaves_out_folders_and_what_is_in_them(
        self, engine: Engine, root: str
    ) -> None:
        _put_all(engine, root, ["a"])
        _put_all(engine, f"{root}/folder", ["b"])
        assert [s.path for s in engine.files.list_from(f"{root}/")] == [f"{root}/a"]

    def test_a_listing_past_the_last_name_is_empty(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a"])
        assert list(engine.files.list_from(f"{root}/b")) == []

    def test_listing_a_missing_folder_is_an_error(self, engine: Engine, root: str) -> None:
        with pytest.raises(FileMissingError) as caught:
            list(engine.files.list_from(f"{root}/missing/0"))
        assert f"{root}/missing" in caught.value.path

    def test_a_tree_has_the_files_of_every_depth(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a", "b"], b"12")
        _put_all(engine, f"{root}/x", ["c"])
        _put_all(engine, f"{root}/x/y=1%202", ["d"])
        actual = list(engine.files.list_tree(root, lambda _: False))
        files = {s.path: s.size for s in actual if not s.path.endswith("/")}
        names = ["a", "b", "x/c", "x/y=1%202/d"]
        assert sorted(files) == [f"{root}/{name}" for name in names]
        assert files[f"{root}/a"] == 2
        folders = {s.path for s in actual if s.path.endswith("/")}
        assert folders <= {f"{root}/x/", f"{root}/x/y=1%202/"}

    def test_a_tree_is_without_the_folders_that_are_skipped(
        self, engine: Engine, root: str
    ) -> None:
        for folder in ("x", "x/deep", "y", "xx"):
            _put_all(engine, f"{root}/{folder}", ["1", "2"])
        calls: list[str] = []

        def skips(folder: str) -> bool:
            calls.append(folder)
            return folder.endswith("/x")

        actual = engine.files.list_tree(root, skips)
        files = sorted(s.path for s in actual if not s.path.endswith("/"))
        assert files == [f"{root}/{name}" for name in ("xx/1", "xx/2", "y/1", "y/2")]
        assert sorted(calls) == [f"{root}/{name}" for name in ("x", "xx", "y")]

    def test_ranges_of_a_tree_make_up_the_tree(self, engine: Engine, root: str) -> None:
        for folder in ("x", "x/deep", "y"):
            _put_all(engine, f"{root}/{folder}", ["1", "2", "\u00e4"])

        def listed(after: str | None, until: str | None) -> list[str]:
            return [
                status.path
                for status in engine.files.list_tree(
                    root, lambda folder: folder.endswith("/deep"), after=after, until=until
                )
            ]

        ends = [None, f"{root}/x/1", f"{root}/x/2b", f"{root}/y/2", None]
        ranges = [listed(after, until) for after, until in itertools.pairwise(ends)]
        assert sorted(itertools.chain(*ranges)) == sorted(listed(None, None))
        files = [[p for p in actual if not p.endswith("/")] for actual in ranges]
        assert files[0] == [f"{root}/x/1"]
        assert files[1] == [f"{root}/x/2"]
        assert files[3] == [f"{root}/y/\u00e4"]
        assert len(files[2]) == 3

    def test_the_tree_of_a_missing_folder_is_empty(self, engine: Engine, root: str) -> None:
        assert list(engine.files.list_tree(f"{root}/missing", lambda _: False)) == []

    def test_only_empty_folders_are_deleted(self, engine: Engine, root: str) -> None:
        _put_all(engine, f"{root}/full", ["a"])
        _put_all(engine, f"{root}/emptied", ["a"])
        engine.files.delete_files([f"{root}/emptied/a"])
        engine.files.delete_empty_folders(
            [f"{root}/{name}" for name in ("full", "emptied", "missing")]
        )
        assert engine.files.status(f"{root}/full/a").path == f"{root}/full/a"
        actual = [s.path for s in engine.files.list_tree(root, lambda _: False)]
        assert f"{root}/emptied/" not in actual

    def test_a_status_has_size_and_modification_time(self, engine: Engine, root: str) -> None:
        before = time.time() * 1000 - 2000  # clocks of file systems are coarse
        _put_all(engine, root, ["a"], b"12345")
        status = engine.files.status(f"{root}/a")
        assert (status.path, status.size) == (f"{root}/a", 5)
        assert before <= status.modification_time <= time.time() * 1000 + 2000
        assert list(engine.files.list_from(f"{root}/a")) == [status]

    def test_the_status_of_a_missing_file_is_an_error(self, engine: Engine, root: str) -> None:
        with pytest.raises(FileMissingError) as caught:
            engine.files.status(f"{root}/missing")
        assert caught.value.path == f"{root}/missing"

    def test_the_status_of_a_folder_is_an_error(self, engine: Engine, root: str) -> None:
        _put_all(engine, f"{root}/folder", ["a"])
        with pytest.raises(FileMissingError):
            engine.files.status(f"{root}/folder")

    def test_listings_and_readings_can_be_closed_early(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a", "b", "c"], b"1")
        with engine.files.list_from(f"{root}/a") as listed:
            assert next(listed).path == f"{root}/a"
        assert list(listed) == []
        with engine.files.read_files([ByteRange(path=f"{root}/a")] * 50) as contents:
            assert next(contents) == b"1"
        assert list(contents) == []

    def test_files_are_read_in_the_order_asked_for(self, engine: Engine, root: str) -> None:
        names = [f"{i:03d}" for i in range(100)]
        for name in names:
            _put_all(engine, root, [name], name.encode() * 50)
        ranges = [ByteRange(path=f"{root}/{name}") for name in reversed(names)]
        contents = list(engine.files.read_files(iter(ranges)))
        assert contents == [name.encode() * 50 for name in reversed(names)]

    def test_ranges_of_files_are_read(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a"], b"0123456789")
        path = f"{root}/a"
        ranges = [
            ByteRange(path=path, offset=2, length=3),
            ByteRange(path=path, offset=7),
            ByteRange(path=path, length=1),
            ByteRange(path=path, offset=4, length=0),
            ByteRange(path=path),
        ]
        actual = list(engine.files.read_files(ranges))
        assert actual == [b"234", b"789", b"0", b"", b"0123456789"]

    def test_a_range_beyond_the_end_gives_what_there_is(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a"], b"0123456789")
        path = f"{root}/a"
        ranges = [
            ByteRange(path=path, offset=8, length=5),
            ByteRange(path=path, offset=10),
            ByteRange(path=path, offset=12, length=2),
        ]
        assert list(engine.files.read_files(ranges)) == [b"89", b"", b""]

    def test_reading_a_missing_file_is_an_error_in_its_turn(
        self, engine: Engine, root: str
    ) -> None:
        _put_all(engine, root, ["a"], b"1")
        ranges = [ByteRange(path=f"{root}/a"), ByteRange(path=f"{root}/missing")]
        contents = engine.files.read_files(ranges)
        assert next(contents) == b"1"
        with pytest.raises(FileMissingError) as caught:
            next(contents)
        assert caught.value.path == f"{root}/missing"

    def test_an_input_reads_anywhere(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a"], b"0123456789")
        for size in (None, 10):
            with engine.files.open_input(f"{root}/a", size) as file:
                file.seek(-3, 2)
                assert file.tell() == 7
                assert file.read(2) == b"78"
                assert file.tell() == 9
                file.seek(1)
                assert file.read(3) == b"123"
                assert file.read() == b"456789"
                assert file.read(5) == b""

    def test_opening_a_missing_file_is_an_error(self, engine: Engine, root: str) -> None:
        with pytest.raises(FileMissingError):
            engine.files.open_input(f"{root}/missing")

    def test_an_output_is_a_file_once_it_is_closed(self, engine: Engine, root: str) -> None:
        path = f"{root}/new/folder/a"
        with engine.files.open_output(path) as file:
            file.write(b"01")
            assert file.tell() == 2
            with pytest.raises(FileMissingError):
                engine.files.status(path)
            file.write(b"23")
        assert _read(engine, path) == b"0123"

    def test_an_output_that_fails_leaves_nothing_behind(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["other"])
        with suppress(ZeroDivisionError), engine.files.open_output(f"{root}/a") as file:
            file.write(b"01")
            raise ZeroDivisionError
        assert [s.path for s in engine.files.list_from(f"{root}/")] == [f"{root}/other"]

    def test_put_if_absent_keeps_the_file_that_is_there(self, engine: Engine, root: str) -> None:
        engine.files.mkdirs(root)
        assert engine.files.put_if_absent(f"{root}/a", b"first") is True
        assert engine.files.put_if_absent(f"{root}/a", b"second") is False
        assert _read(engine, f"{root}/a") == b"first"

    def test_of_many_threads_that_put_one_name_one_wins(self, engine: Engine, root: str) -> None:
        engine.files.mkdirs(root)

        def put(writer: int) -> list[bool]:
            data = b"%d" % writer * 1000
            return [engine.files.put_if_absent(f"{root}/{key}", data) for key in range(20)]

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(put, range(8)))
        for key in range(20):
            winners = [writer for writer, won in enumerate(results) if won[key]]
            assert len(winners) == 1
            assert _read(engine, f"{root}/{key}") == b"%d" % winners[0] * 1000

    def test_put_replaces(self, engine: Engine, root: str) -> None:
        engine.files.mkdirs(root)
        engine.files.put(f"{root}/a", b"a longer first text")
        engine.files.put(f"{root}/a", b"second")
        assert _read(engine, f"{root}/a") == b"second"

    def test_folders_can_be_made_twice(self, engine: Engine, root: str) -> None:
        engine.files.mkdirs(f"{root}/a/b")
        engine.files.mkdirs(f"{root}/a/b")

    def test_deleting_passes_over_what_is_not_there(self, engine: Engine, root: str) -> None:
        _put_all(engine, root, ["a", "b", "c"])
        engine.files.delete_files(iter([f"{root}/x", f"{root}/a", f"{root}/y/z", f"{root}/c"]))
        assert [s.path for s in engine.files.list_from(f"{root}/")] == [f"{root}/b"]

    def test_odd_names_are_names_like_others(self, engine: Engine, root: str) -> None:
        for name in self.ODD_NAMES:
            _put_all(engine, f"{root}/odd {name}", [name], name.encode())
        for name in self.ODD_NAMES:
            path = f"{root}/odd {name}/{name}"
            assert engine.files.status(path).path == path
            assert [s.path for s in engine.files.list_from(f"{root}/odd {name}/")] == [path]
            assert _read(engine, path) == name.encode()
            with engine.files.open_input(path) as file:
                assert file.read() == name.encode()


def _put_all(engine: Engine, folder: str, names: Iterable[str], data: bytes = b"") -> None:
    engine.files.mkdirs(folder)
    for name in names:
        engine.files.put(f"{folder}/{name}", data)


def _read(engine: Engine, path: str) -> bytes:
    return next(engine.files.read_files([ByteRange(path=path)]))
