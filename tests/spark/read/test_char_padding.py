"""CHAR values are padded with spaces where Spark expects it but doesn't do it."""

import pyarrow as pa
import pytest

from bayou.protocol.schema import StructType
from bayou.protocol.sql import parse_field
from bayou.spark.read.char_padding import CharPadding
from bayou.spark.types import to_spark_arrow

TYPES = {
    "c": "char(3)",
    "v": "varchar(3)",
    "s": "struct<a: char(2), b: int>",
    "l": "array<char(2)>",
    "m": "map<char(2), array<char(3)>>",
}


def test_char_values_are_padded_at_every_level():
    schema = StructType(tuple(parse_field(name, sql) for name, sql in TYPES.items()))
    rows = [
        {"c": "a", "v": "a", "s": {"a": "x", "b": 1}, "l": ["x", None], "m": [("k", ["y"])]},
        {"c": None, "v": None, "s": None, "l": None, "m": None},
        {"c": "long", "v": "", "s": {"a": None, "b": 2}, "l": [], "m": []},
        {"c": "é", "v": "b", "s": {"a": "yy", "b": 3}, "l": ["z"], "m": [("q", None)]},
    ]
    padded = [
        {"c": "a  ", "v": "a", "s": {"a": "x ", "b": 1}, "l": ["x ", None], "m": [("k ", ["y  "])]},
        rows[1],
        rows[2],
        {"c": "é  ", "v": "b", "s": {"a": "yy", "b": 3}, "l": ["z "], "m": [("q ", None)]},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=to_spark_arrow(schema))
    padding = CharPadding(schema)
    assert padding.pad(batch).to_pylist() == padded
    assert padding.pad(batch.slice(1, 3)).to_pylist() == padded[1:]
    assert padding.pad(batch).schema == batch.schema


@pytest.mark.spark
@pytest.mark.parametrize(("pads", "expected"), [("true", "ab   "), ("false", "ab")])
def test_a_filter_of_a_stream_keeps_the_rows_with_a_char_value(spark, tmp_path, pads, expected):
    table, setting, found = tmp_path / "t", "spark.sql.readSideCharPadding", []
    spark.sql(f"CREATE TABLE delta.`{table}` (id INT, c CHAR(5), s STRUCT<c: CHAR(5)>) USING delta")
    spark.sql(
        f"INSERT INTO delta.`{table}` VALUES (1, 'ab', named_struct('c', 'ab')), (2, 'x', NULL)"
    )
    spark.conf.set(setting, pads)
    try:
        rows = spark.readStream.format("delta").load(str(table)).where("c = 'ab'")
        writer = rows.select("id", "c", "s.c").writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(lambda batch, _: found.extend(batch.collect())).start()
        query.awaitTermination()
    finally:
        spark.conf.unset(setting)
    assert list(map(tuple, found)) == [(1, expected, expected)]
