"""Structs of mapped columns: fields are pruned below, and have their logical names above."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import bayou
from bayou.spark.native_read.read_planner import READER

pytestmark = pytest.mark.spark

INNER = pa.struct([("x", pa.int64()), ("y", pa.string())])
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": pa.array(
            [{"a": 1, "b": "p", "t": {"x": 5, "y": "q"}}, None, {"a": None, "b": "r", "t": None}],
            pa.struct([("a", pa.int64()), ("b", pa.string()), ("t", INNER)]),
        ),
        "l": pa.array([[{"x": 1, "y": "z"}], None, []], pa.list_(INNER)),
    }
)


@pytest.fixture(params=["name", "id"])
def mapped(request, tmp_path):
    table = str(tmp_path / "t")
    bayou.write(table, ROWS, configuration={"delta.columnMapping.mode": request.param})
    return table


@pytest.fixture(autouse=True)
def native_reader(spark):
    spark.conf.set(READER, "native")
    yield
    spark.conf.unset(READER)


def native(spark, table):
    return spark.read.format("delta").load(table)


def read_schema(frame):
    """What the plan has Parquet's reader read: its `ReadSchema`, which texts of plans cut off."""
    scan = frame._jdf.queryExecution().sparkPlan().collectLeaves().apply(0)
    return scan.requiredSchema().catalogString()


def test_one_field_of_a_struct_is_read(spark, mapped):
    frame = native(spark, mapped).select("s.a")
    assert [row.a for row in frame.collect()] == [1, None, None]
    assert re.fullmatch(r"struct<[^:]+:struct<[^:]+:bigint>>", read_schema(frame))


def test_a_filter_on_a_field_reads_that_field(spark, mapped):
    frame = native(spark, mapped).where("s.b = 'r'").select("id")
    assert [row.id for row in frame.collect()] == [3]
    schema = read_schema(frame)
    assert schema.count("struct<") == 2, schema
    assert schema.count(":string") == 1, schema


def test_whole_structs_are_as_they_were_nulls_and_names(spark, mapped):
    frame = native(spark, mapped)
    expected = spark.createDataFrame(ROWS).collect()
    assert frame.orderBy("id").collect() == expected
    assert [f.name for f in frame.schema["s"].dataType] == ["a", "b", "t"]
    assert frame.select("s.t.y", "l.x").collect() == [("q", [1]), (None, None), (None, [])]
    assert frame.where("s IS NULL").count() == 1


def test_renamed_fields_that_stand_under_their_old_names(spark, tmp_path):
    table = str(tmp_path / "t")
    bayou.write(table, ROWS)
    alter = bayou.table(table).alter
    alter.set_table_properties({"delta.columnMapping.mode": "name"})
    alter.rename_column("s.a", "c")
    alter.rename_column("s.b", "a")
    alter.rename_column("s.t.x", "z")
    frame = native(spark, table)
    assert [f.name for f in frame.schema["s"].dataType] == ["c", "a", "t"]
    rows = [row.s for row in frame.orderBy("id").collect()]
    assert rows == [(1, "p", (5, "q")), None, (None, "r", None)]
    pruned = frame.select("s.a")
    assert [row.a for row in pruned.collect()] == ["p", None, "r"]
    assert read_schema(pruned) == "struct<s:struct<b:string>>"
