"""Tables to work on."""

import pyarrow as pa
import pytest

import bayou
from bayou.spark import DeltaTable


@pytest.fixture
def table(spark, tmp_path):
    """Makes a table of rows by column, and opens it."""

    def make(columns, name="t", partition_by=None, **properties):
        path = str(tmp_path / name)
        given = {f"delta.{k}": v for k, v in properties.items()}
        bayou.write(path, pa.table(columns), partition_by=partition_by, configuration=given)
        return DeltaTable.forPath(spark, path)

    return make


@pytest.fixture
def rows():
    """Gives all rows of a table as sorted tuples."""

    def of(table):
        return sorted((tuple(r) for r in table.toDF().collect()), key=repr)

    return of
