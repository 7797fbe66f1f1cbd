import pyarrow as pa

from bayou.kernel.table_changes.change_plan import path_order


def test_spellings_of_one_path_are_ordered_alike():
    found = path_order(pa.array(["a%20b", "x~y", "x%7ey", "caf%C3%A9", "café", "p=1/f.parquet"]))
    assert found.to_pylist() == ["a%20b", "x~y", "x~y", "café", "café", "p=1/f.parquet"]


def test_absolute_paths_keep_what_stands_before_them():
    assert path_order(pa.array(["file:///t/a%7E", "s3://b/a b"])).to_pylist() == [
        "file:/t/a~",
        "s3://b/a%20b",
    ]
