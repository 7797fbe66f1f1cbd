"""delta-spark's setting for the type changes that schema evolution makes."""

import pytest

import bayou
from bayou.errors import ArgumentError, SchemaError

pytestmark = pytest.mark.spark

MODE = "spark.databricks.delta.typeWidening.allowAutomaticWidening"
EVOLUTION = "spark.databricks.delta.schema.autoMerge.enabled"


@pytest.fixture
def session(spark):
    return spark.newSession()


@pytest.fixture
def table(session, tmp_path):
    """A table with a row, whose column `a` is an integer."""
    path = str(tmp_path / "t")
    properties = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    session.sql(f"CREATE TABLE delta.`{path}` (a INT, k INT) USING delta {properties}")
    session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1)")
    return path


def append(session, path, value):
    frame = session.sql(f"SELECT {value} AS a, 2 AS k")
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def insert(session, path, value):
    session.conf.set(EVOLUTION, "true")
    session.sql(f"INSERT INTO delta.`{path}` SELECT {value}, 2")


def merge(session, path, value):
    source = f"SELECT {value} AS a, 2 AS k"
    session.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` t USING ({source}) s ON t.k = s.k "
        "WHEN NOT MATCHED THEN INSERT *"
    )


def merge_by_spark(session, path, value):
    merge(session, path, f"{value} + 0 * length(uuid())")


def content(path):
    handle = bayou.table(path)
    (data_type,) = {str(f.data_type) for f in handle.snapshot().schema if f.name == "a"}
    return data_type, [row["a"] for row in sorted(handle.to_arrow().to_pylist(), key=_key)]


def _key(row):
    return row["k"]


@pytest.mark.parametrize("write", [append, insert, merge, merge_by_spark])
def test_by_default_an_integer_column_becomes_a_double(session, table, write):
    write(session, table, "1.5D")
    assert content(table) == ("double", [1.0, 1.5])


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("same_family_type", "1.5D", ("integer", [1, 1])),
        ("SAME_FAMILY_TYPE", "3L", ("long", [1, 3])),
        ("NEVER", "3L", ("integer", [1, 3])),
        ("always", "3L", ("long", [1, 3])),
    ],
)
@pytest.mark.parametrize("write", [insert, merge])
def test_values_are_cast_if_the_mode_excludes_the_change(
    session, table, write, mode, value, expected
):
    session.conf.set(MODE, mode)
    write(session, table, value)
    assert content(table) == expected


@pytest.mark.parametrize(("mode", "value"), [("never", "3L"), ("same_family_type", "1.5D")])
def test_an_append_is_refused_if_the_mode_excludes_the_change(session, table, mode, value):
    session.conf.set(MODE, mode)
    with pytest.raises(SchemaError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        append(session, table, value)


@pytest.mark.parametrize("write", [append, merge])
def test_an_unknown_mode_is_an_error_that_names_the_setting(session, table, write):
    session.conf.set(MODE, "sometimes")
    with pytest.raises(ArgumentError, match=f"{MODE}: 'sometimes' isn't valid"):
        write(session, table, "3L")
