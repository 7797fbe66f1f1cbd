from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two files of two rows; row 1 of the first one is deleted by a vector."""
    table = tmp_path_factory.mktemp("tables") / "rows"
    tracked = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    bayou.write(str(table), pa.table({"id": [0, 1]}), configuration=tracked)
    bayou.write(str(table), pa.table({"id": [2, 3]}))
    bayou.table(table).delete("id = 1")
    return table


def read(spark, path, **options):
    return spark.read.format("delta").options(metadataColumn="true", **options).load(str(path))


def test_rows_tell_which_file_they_are_from_and_where_they_stand(spark, path):
    frame = read(spark, path)
    assert frame.columns == ["id", "_metadata"]
    rows = {r["id"]: r["_metadata"] for r in frame.collect()}
    assert {i: (m["row_index"], m["row_id"]) for i, m in rows.items()} == {
        0: (0, 0),
        2: (0, 2),
        3: (1, 3),
    }
    assert [rows[i]["row_commit_version"] for i in (0, 2)] == [0, 1]
    file = path / rows[2]["file_name"]
    assert rows[2]["file_path"].endswith(str(file))
    assert rows[2]["file_size"] == file.stat().st_size
    assert isinstance(rows[2]["file_modification_time"], dt.datetime)


def test_it_goes_with_filters_and_narrow_schemas(spark, path):
    frame = read(spark, path, filter="id > 2")
    assert frame.selectExpr("id", "_metadata.row_index").collect() == [(3, 1)]
    narrow = (
        spark.read.schema("_metadata struct<row_id: bigint>, id bigint")
        .format("delta")
        .load(str(path))
    )
    assert sorted(tuple(r) for r in narrow.collect()) == [((0,), 0), ((2,), 2), ((3,), 3)]


def test_a_column_of_the_same_name_stays(spark, tmp_path):
    path = tmp_path / "t"
    bayou.write(str(path), pa.table({"id": [1, 2], "_metadata": ["mine", "yours"]}))
    frame = read(spark, path)
    assert frame.columns == ["id", "_metadata", "__metadata"]
    rows = frame.selectExpr("id", "_metadata", "__metadata.row_index").collect()
    assert sorted(map(tuple, rows)) == [(1, "mine", 0), (2, "yours", 1)]
    assert read(spark, path).select("_metadata").count() == 2


def test_tables_that_do_not_track_rows_have_no_ids_of_them(spark, tmp_path):
    bayou.write(str(tmp_path / "t"), pa.table({"id": [1]}))
    names = read(spark, tmp_path / "t").schema["_metadata"].dataType.names
    assert names == [
        "file_path",
        "file_name",
        "file_size",
        "file_modification_time",
        "row_index",
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"metadataColumn": "yes"}, "Set true or false"),
        ({"schema": "_metadata struct<row: bigint>"}, "row bigint|row long"),
    ],
)
def test_what_cannot_be_asked_for_is_explained(spark, path, asked, said):
    reader = spark.read.format("delta")
    if "schema" in asked:
        reader = reader.schema(asked["schema"])
    else:
        reader = reader.options(**asked)
    with pytest.raises(Exception, match=said):
        reader.load(str(path)).collect()
