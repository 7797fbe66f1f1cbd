"""PROTOCOL.md, Add File and Remove File; docs/design/facts.md, Paths and keys."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayou
from bayou.errors import CorruptTableError, SerializationError
from bayou.kernel import ScanFile, ScanFileBatch
from bayou.kernel.scan.data_files import data_files
from bayou.kernel.scan.scan_file import (
    SCAN_SCHEMA,
    adds_to_array,
    data_file_path,
    scan_batch,
    vector_file_path,
)
from bayou.protocol.actions import AddFile, DeletionVectorDescriptor
from bayou.protocol.schema import StructType

FULL = AddFile(
    path="p=a%2520b/f%20g.parquet",
    partition_values={"p": "a%20b", "q": None},
    size=7,
    modification_time=8,
    data_change=True,
    stats='{"numRecords":3,"tightBounds":false}',
    tags={"k": "v", "n": None},
    deletion_vector=DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv="x", offset=1, size_in_bytes=2, cardinality=3
    ),
    base_row_id=5,
    default_row_commit_version=6,
    clustering_provider="liquid",
)
BARE = AddFile(path="a", partition_values={}, size=0, modification_time=0, data_change=False)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("a.parquet", "/lake/t/a.parquet"),
        ("p=a%20b/x.parquet", "/lake/t/p=a b/x.parquet"),
        ("p=a%2520b/x.parquet", "/lake/t/p=a%20b/x.parquet"),
        ("p=%C3%BC/x.parquet", "/lake/t/p=ü/x.parquet"),
        ("/other/a%20b.parquet", "/other/a b.parquet"),
        ("file:/other/a%20b.parquet", "/other/a b.parquet"),
        ("file:///other/a.parquet", "/other/a.parquet"),
        ("s3://bucket/t/a%20b.parquet", "s3://bucket/t/a b.parquet"),
        ("p=10:30/x.parquet", "/lake/t/p=10:30/x.parquet"),
    ],
)
def test_a_path_of_the_log_is_decoded_exactly_once(uri, path):
    assert data_file_path("/lake/t", uri) == path


def test_a_scan_file_is_the_action_and_where_its_data_is():
    file = ScanFile(table_root="/lake/t", add=FULL)
    assert file.path == "p=a%2520b/f%20g.parquet"
    assert file.status.path == "/lake/t/p=a%20b/f g.parquet"
    assert (file.size, file.modification_time, file.num_records) == (7, 8, 3)
    assert file.partition_values == {"p": "a%20b", "q": None}
    assert file.deletion_vector == FULL.deletion_vector


@pytest.mark.parametrize("bounds", ["", ',"tightBounds":true', ',"tightBounds":null'])
def test_statistics_of_a_file_with_a_vector_count_all_rows_where_they_say_so(bounds):
    add = msgspec.structs.replace(FULL, stats=f'{{"numRecords":3{bounds}}}')
    assert ScanFile(table_root="/lake/t", add=add).num_records is None
    whole = msgspec.structs.replace(add, deletion_vector=None)
    assert ScanFile(table_root="/lake/t", add=whole).num_records == 3


@pytest.mark.parametrize("stats", [None, "{}", "nonsense", '{"numRecords":"3"}'])
def test_without_usable_statistics_the_number_of_rows_is_unknown(stats):
    add = msgspec.structs.replace(BARE, stats=stats)
    assert ScanFile(table_root="/lake/t", add=add).num_records is None


@pytest.mark.parametrize("add", [FULL, BARE])
def test_a_scan_file_comes_back_from_its_bytes(add):
    file = ScanFile(table_root="/lake/t", add=add)
    assert ScanFile.from_bytes(file.to_bytes()) == file


def test_bytes_that_are_no_scan_file_are_refused():
    with pytest.raises(SerializationError, match="aren't a scan file"):
        ScanFile.from_bytes(b"nonsense")


def test_actions_survive_the_way_through_columns():
    batch = scan_batch("/lake/t", adds_to_array([FULL, BARE]))
    assert batch.schema == SCAN_SCHEMA
    assert [f.add for f in ScanFileBatch(batch).rows()] == [FULL, BARE]


@pytest.mark.parametrize("field", ["path", "size"])
def test_a_file_without_its_path_or_size_is_damage(field):
    adds = adds_to_array([FULL, BARE])
    columns = [pa.nulls(2, f.type) if f.name == field else adds.field(f.name) for f in adds.type]
    damaged = pa.StructArray.from_arrays(columns, fields=list(adds.type))
    with pytest.raises(CorruptTableError, match=f"an add action has no {field}"):
        list(ScanFileBatch(scan_batch("/lake/t", damaged)).rows())


def test_only_selected_rows_count():
    batch = scan_batch("/lake/t", adds_to_array([FULL, BARE, FULL]))
    filtered = ScanFileBatch(batch, pa.array([False, True, False]))
    assert filtered.num_selected == filtered.selected().num_rows == 1
    assert [f.add for f in filtered.rows()] == [BARE]
    assert ScanFileBatch(batch).num_selected == 3


SEGMENTS = st.lists(st.sampled_from(["..", ".", "a", "b=..", "...", " "]), min_size=1, max_size=6)


@given(SEGMENTS, st.booleans())
def test_no_relative_path_leaves_the_table(segments, encoded):
    path = "/".join(segments)
    uri = quote(path, safe="").replace(".", "%2E") if encoded else path
    leaves = f"{posixpath.normpath(path)}/".startswith("../")
    batch = ScanFileBatch(
        scan_batch("/lake/t", adds_to_array([msgspec.structs.replace(BARE, path=uri)]))
    )
    if leaves:
        with pytest.raises(CorruptTableError, match="leaves the table's directory"):
            data_file_path("/lake/t", uri)
        with pytest.raises(CorruptTableError, match="leaves the table's directory"):
            data_files(batch, StructType(()), [], "UTC")
    else:
        assert data_file_path("/lake/t", uri) == f"/lake/t/{path}"
        found = data_files(batch, StructType(()), [], "UTC").files.column("path")
        assert found.to_pylist() == [f"/lake/t/{path}"]


VECTOR_ID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        ("i", "anything", None),
        ("p", "/other/x.bin", "/other/x.bin"),
        ("p", "x.bin", "/lake/t/x.bin"),
        (
            "u",
            "ab^-aqEH.-t@S}K{vb[*k^",
            "/lake/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        ),
    ],
)
def test_a_deletion_vector_is_below_the_table_or_at_an_absolute_path(kind, text, path):
    assert vector_file_path("/lake/t", described(kind, text)) == path


@pytest.mark.parametrize(
    ("kind", "text"),
    [("p", "../x.bin"), ("p", "%2e%2e/x.bin"), ("u", "../o/^-aqEH.-t@S}K{vb[*k^")],
)
def test_a_deletion_vector_that_leaves_the_table_is_an_error(kind, text):
    with pytest.raises(CorruptTableError, match="leaves the table's directory"):
        vector_file_path("/lake/t", described(kind, text))


def described(kind: str, text: str) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type=kind, path_or_inline_dv=text, offset=1, size_in_bytes=2, cardinality=3
    )


def test_paths_of_a_log_are_resolved_in_one_place():
    """Whoever decodes a path elsewhere must refuse by itself one that leaves the table's folder."""
    source = Path(bayou.__file__).parent
    found = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"\b(decode_data_file_uri|stored_vector)\(", file.read_text())
    }
    assert found == {
        "kernel/checkpoint/read.py",  # sidecars, by their names only
        "kernel/deletion_vectors/read.py",  # where in the file
        "kernel/commands/clone.py",  # where in the file
        "kernel/commands/copied_files.py",  # where in the file
        "kernel/commands/file_sink_log.py",  # no log of Delta's; checks by itself
        "kernel/scan/scan_file.py",
        "kernel/commands/vacuum/referenced_files.py",  # compares texts
        "protocol/file_names.py",  # compares texts
        "protocol/deletion_vectors.py",
    }
