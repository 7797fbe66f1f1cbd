"""Arguments of a writer that hooks pass to the data source as options."""

from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import bayou
from bayou.errors import TableAlreadyExistsError
from bayou.kernel import Operation
from bayou.kernel.commands.write import WriteMode
from bayou.spark.write import WriteOptions
from bayou.spark.write.data_source_writers import DeltaWriter

SCHEMA = StructType([StructField("id", LongType()), StructField("p", StringType())])


def writer(path, **arguments):
    options = replace(WriteOptions.parse({"path": path}), **arguments).to_options()
    lower_case = {key.lower(): value for key, value in options.items()}  # as Spark passes them
    return DeltaWriter(WriteOptions.parse(lower_case), SCHEMA, overwrite=False)


def test_a_new_table_has_the_partition_columns_and_properties_of_the_writer(tmp_path):
    started = writer(
        str(tmp_path / "t"),
        partition_by=("p",),
        properties={"delta.appendOnly": "true", "owner": "me"},
        operation=Operation.CREATE_TABLE_AS_SELECT,
    )._started
    assert started.plan.partition_columns == ("p",)
    assert started.plan.properties == {"delta.appendOnly": "true", "owner": "me"}
    assert started.write.operation is Operation.CREATE_TABLE_AS_SELECT


def test_an_existing_table_is_an_error_or_ignored(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1], "p": ["a"]}))
    with pytest.raises(TableAlreadyExistsError):
        writer(path, mode=WriteMode.ERROR)
    assert writer(path, mode=WriteMode.IGNORE)._started.done
    assert not writer(path)._started.done
