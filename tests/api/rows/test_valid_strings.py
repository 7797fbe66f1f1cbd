"""Strings that aren't valid UTF-8 are refused before they are written."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.api.rows.arrow_stream import record_batches
from bayou.deltalake import DeltaTable, write_deltalake
from bayou.errors import ArgumentError

STRING = pa.string()
BINARY = {
    STRING: pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
VALUES = [b"a", "Größe 😀".encode(), None, b"", b"\xffx"]


def strings(values, kind=STRING):
    """An array of strings with the bytes of `values`, as a program makes it from raw buffers."""
    array = pa.array(values, BINARY[kind])
    return pa.Array.from_buffers(kind, len(array), array.buffers())


def is_accepted(column):
    table = pa.table({"id": range(len(column)), "s": column})
    try:
        return record_batches(table, "data").read_all().equals(table)
    except ArgumentError:
        return False


@pytest.mark.parametrize("kind", list(BINARY), ids=str)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: pa.ListArray.from_arrays(pa.array([0, 0, len(s)], pa.int32()), s),
        lambda s: pa.StructArray.from_arrays([s], ["x"]),
        lambda s: pa.DictionaryArray.from_arrays(pa.array(range(len(s)), pa.int8()), s),
        lambda s: pa.MapArray.from_arrays(
            pa.array([0, len(s)], pa.int32()), pa.array(range(len(s))), s
        ),
    ],
    ids=["plain", "list", "struct", "dictionary", "map"],
)
def test_strings_of_each_type_are_checked(kind, wrap):
    assert is_accepted(wrap(strings(VALUES[:4], kind)))
    assert not is_accepted(wrap(strings(VALUES, kind)))
    assert is_accepted(wrap(strings([b"ascii"] * 3, kind)))
    assert is_accepted(wrap(strings([None, None], kind)))


@pytest.mark.parametrize("kind", list(BINARY), ids=str)
@pytest.mark.parametrize(
    "broken",
    [
        b"\x80",  # a continuation byte without a first byte
        b"\xc3",  # a first byte without its continuation
        b"\xc0\x80",  # more bytes than necessary
        b"\xed\xa0\x80",  # a surrogate
        b"\xf4\x90\x80\x80",  # beyond U+10FFFF
        "Grüße".encode("latin-1"),
    ],
)
def test_each_violation_is_found(kind, broken):
    assert not is_accepted(strings([b"a" * 100, broken, b"b" * 100], kind))


@pytest.mark.parametrize("kind", list(BINARY), ids=str)
def test_a_character_split_over_two_strings_is_found(kind):
    first, second = "ü".encode()[:1], "ü".encode()[1:]
    assert not is_accepted(strings([first, second], kind))


def test_only_strings_of_the_data_are_checked():
    array = strings([b"\xff", b"a", "ü".encode(), b"\xff"])
    assert is_accepted(array.slice(1, 2))
    assert is_accepted(pa.StructArray.from_arrays([array.slice(1, 2)], ["x"]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), array)
    assert is_accepted(lists.slice(1, 1))
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), pa.array(range(4)), array)
    assert is_accepted(maps.slice(1, 1))
    hidden = pa.StructArray.from_arrays([array], ["x"], mask=pa.array([True, False, False, True]))
    assert is_accepted(hidden)
    few = pa.DictionaryArray.from_arrays(pa.array([1, 2], pa.int8()), array)
    assert is_accepted(few)


def test_bytes_are_not_checked():
    assert is_accepted(pa.array([b"\xff"]))
    assert is_accepted(pa.array([[b"\xff"]]))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_is_refused_and_leaves_nothing(tmp_path, mode):
    path = tmp_path / "table"
    bayou.write(path, pa.table({"id": [1], "s": ["a"]}))
    files = sorted(path.rglob("*"))
    batches = [
        pa.record_batch({"id": [2], "s": strings([b"b"])}),
        pa.record_batch({"id": [3], "s": strings([b"\xff"])}),
    ]
    with pytest.raises(ArgumentError) as raised:
        bayou.write(path, batches, mode)
    assert str(raised.value) == (
        "data: column 's' has a string that isn't valid UTF-8. Correct the data, or cast the "
        "column to binary."
    )
    assert sorted(path.rglob("*")) == files
    assert bayou.table(path).to_arrow().to_pylist() == [{"id": 1, "s": "a"}]


def test_a_merge_is_refused(tmp_path):
    path = tmp_path / "table"
    bayou.write(path, pa.table({"id": [1], "s": ["a"]}))
    source = pa.table({"id": [2], "s": strings([b"\xff"])})
    merge = bayou.table(path).merge(source, "target.id = source.id").when_not_matched_insert_all()
    with pytest.raises(ArgumentError, match="source: column 's' has a string"):
        merge.execute()
    assert bayou.table(path).version() == 0


def test_writes_and_merges_of_the_package_deltalake_are_refused(tmp_path):
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"id": [1], "s": ["a"]}))
    rows = pa.table({"id": [2], "s": strings([b"\xff"])})
    with pytest.raises(ArgumentError, match="isn't valid UTF-8"):
        write_deltalake(path, rows, mode="append")
    merge = DeltaTable(path).merge(rows, "target.id = source.id")
    with pytest.raises(ArgumentError, match="isn't valid UTF-8"):
        merge.when_not_matched_insert_all().execute()
    assert DeltaTable(path).version() == 0


def test_polars_strings_are_written(tmp_path):
    polars = pytest.importorskip("polars")
    bayou.write(tmp_path / "table", polars.DataFrame({"s": ["a", "Größe", None]}))
    assert bayou.table(tmp_path / "table").to_arrow()["s"].to_pylist() == ["a", "Größe", None]


SURROGATE = "\ud800"


@pytest.mark.parametrize(
    "call",
    [
        lambda path: bayou.write(path, ROWS, configuration={"key": SURROGATE}),
        lambda path: bayou.write(path, ROWS, name=SURROGATE),
        lambda path: bayou.write(path, ROWS, commit_metadata=SURROGATE),
        lambda path: bayou.write(path, ROWS, commit_metadata={"key": SURROGATE}),
        lambda path: bayou.write(path, ROWS, transaction=(SURROGATE, 1)),
        lambda path: bayou.write(path, ROWS, "overwrite", replace_where=f"s = '{SURROGATE}'"),
        lambda path: bayou.table(path).update({"s": f"'{SURROGATE}'"}),
        lambda path: bayou.table(path).delete(f"s = '{SURROGATE}'"),
        lambda path: bayou.table(path).to_arrow(filter=f"s = '{SURROGATE}'"),
        lambda path: bayou.table(path).to_arrow([SURROGATE]),
        lambda path: bayou.table(path).alter.set_table_properties({"key": SURROGATE}),
    ],
)
def test_python_strings_that_cannot_be_encoded_are_refused(tmp_path, call):
    path = tmp_path / "table"
    bayou.write(path, ROWS)
    with pytest.raises(ArgumentError) as raised:
        call(path)
    if raised.value.argument != "commit_metadata":
        assert "of a string is an unpaired surrogate, which UTF-8" in str(raised.value)
    assert str(raised.value).isascii()
    assert bayou.table(path).version() == 0


ROWS = pa.table({"id": [1], "s": ["a"]})
