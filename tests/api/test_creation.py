"""`bayou.create` and `bayou.exists`."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, SchemaError, TableAlreadyExistsError
from bayou.protocol.schema import LONG, STRING, StructField, StructType

FIELDS = (
    StructField(name="id", data_type=LONG),
    StructField(name="day", data_type=STRING),
)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("id", pa.int64()), ("day", pa.string())]),
        pa.table({"id": [1], "day": ["a"]}).schema,
        {"id": "bigint", "day": pa.string()},
        StructType(FIELDS),
        list(FIELDS),
    ],
    ids=["Arrow", "of a table", "by name", "Delta", "fields"],
)
def test_an_empty_table_is_created(path, schema):
    assert not bayou.exists(path)
    table = bayou.create(
        path,
        schema,
        partition_by="day",
        name="visits",
        description="One row for each visit",
        configuration={"delta.appendOnly": "true"},
    )
    assert bayou.exists(path)
    assert table.schema() == StructType(FIELDS)
    metadata = table.metadata()
    assert (metadata.name, metadata.description) == ("visits", "One row for each visit")
    assert metadata.partition_columns == ["day"]
    assert metadata.configuration == {"delta.appendOnly": "true"}
    assert table.count() == 0


def test_modes_decide_what_happens_to_an_existing_table(path):
    bayou.create(path, {"id": "bigint"})
    with pytest.raises(TableAlreadyExistsError):
        bayou.create(path, {"id": "bigint"})
    assert bayou.create(path, {"other": "string"}, mode="ignore").schema().names == ("id",)
    bayou.write(path, pa.table({"id": [1]}))
    replaced = bayou.create(path, {"other": "string"}, mode="overwrite")
    assert replaced.schema().names == ("other",)
    assert (replaced.count(), replaced.version()) == (0, 2)
    with pytest.raises(ArgumentError, match="one of error, ignore, overwrite"):
        bayou.create(path, {"id": "bigint"}, mode="append")


def test_a_table_is_clustered_from_the_start(path):
    table = bayou.create(path, {"id": "bigint", "s": "struct<a: int>"}, cluster_by=["id", "s.a"])
    assert table.detail().clustering_columns == ("id", "s.a")


def test_what_is_no_schema_is_refused(path):
    for schema in (5, {"id": "whatever"}, ["id"]):
        with pytest.raises((SchemaError, ArgumentError)):
            bayou.create(path, schema)
    assert not bayou.exists(path)
