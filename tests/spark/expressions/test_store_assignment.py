from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from bayou.errors import PredicateError, UnsupportedFeatureError
from bayou.protocol.sql import parse_field
from bayou.spark.expressions.store_assignment import check_assignment

pytestmark = pytest.mark.spark

STATEMENTS = {
    "insert": "INSERT INTO {t} SELECT 2, CAST({v} AS {s}), named_struct('a', CAST({v} AS {s}))",
    "update": "UPDATE {t} SET b = CAST({v} AS {s}), s.a = CAST({v} AS {s})",
    "merge": (
        "MERGE INTO {t} t USING (SELECT 1 k, CAST({v} AS {s}) v) s ON t.i = s.k "
        "WHEN MATCHED THEN UPDATE SET b = v, s.a = v"
    ),
    "merge all": (
        "MERGE INTO {t} t USING (SELECT 1 i, CAST({v} AS {s}) b, "
        "named_struct('a', CAST({v} AS {s})) s) x ON t.i = x.i WHEN MATCHED THEN UPDATE SET *"
    ),
}


@pytest.fixture
def run(spark, tmp_path):
    """Runs a statement of `STATEMENTS` on a new table under a policy; returns b and s.a."""
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {table} (i INT, b TINYINT, s STRUCT<a: TINYINT>) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1, named_struct('a', 1))")

    def execute(name: str, policy: str, source: str, value: str) -> tuple[object, object]:
        spark.sql(f"DELETE FROM {table} WHERE i = 2")  # the row of an earlier INSERT
        spark.conf.set("spark.sql.storeAssignmentPolicy", policy)
        spark.sql(STATEMENTS[name].format(t=table, s=source, v=value))
        return tuple(spark.sql(f"SELECT b, s.a FROM {table} ORDER BY i DESC").first())

    yield execute
    spark.conf.unset("spark.sql.storeAssignmentPolicy")


@pytest.mark.parametrize("name", STATEMENTS)
def test_strict_refuses_types_that_may_not_fit(run, name):
    with pytest.raises(AnalysisException, match="cannot up cast the value of column b") as refused:
        run(name, "STRICT", "INT", "2")
    assert refused.value.getCondition() == "CANNOT_UP_CAST_DATATYPE"
    assert run(name, "STRICT", "TINYINT", "2") == (2, 2)


@pytest.mark.parametrize("name", STATEMENTS)
def test_legacy_wraps_numbers_and_makes_invalid_values_null(run, name):
    assert run(name, "LEGACY", "INT", "1000") == (-24, -24)
    assert run(name, "LEGACY", "STRING", "'abc'") == (None, None)


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        ("int", "bigint", True),
        ("bigint", "float", True),
        ("double", "float", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(10,1)", False),
        ("decimal(5,0)", "int", True),
        ("decimal(5,1)", "int", False),
        ("decimal(5,1)", "decimal(6,1)", True),
        ("date", "timestamp", True),
        ("timestamp", "date", False),
        ("boolean", "string", True),
        ("string", "boolean", False),
        ("void", "int", True),
        ("array<int>", "array<smallint>", False),
        ("map<string,int>", "map<string,bigint>", True),
        ("struct<a:int,x:int>", "struct<A:smallint>", False),
        ("struct<a:int>", "string", False),
    ],
)
def test_strict_decides_by_the_types(source, target, fits):
    types = [parse_field("c", text).data_type for text in (source, target)]
    if fits:
        check_assignment("STRICT", *types, column="c", table="t")
    else:
        with pytest.raises(PredicateError, match="CANNOT_UP_CAST"):
            check_assignment("STRICT", *types, column="c", table="t")


STRUCTS_BY_NAME = "spark.databricks.delta.resolveMergeUpdateStructsByName.enabled"
FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"


@pytest.fixture
def pairs(spark, tmp_path):
    """A table with a struct of a and b, and an array of such structs."""
    table = f"delta.`{tmp_path / 'pairs'}`"
    pair = "STRUCT<a: INT, b: INT>"
    spark.sql(f"CREATE TABLE {table} (i INT, s {pair}, l ARRAY<{pair}>) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, named_struct('a', 1, 'b', 2), null)")
    yield table
    spark.conf.unset(STRUCTS_BY_NAME)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET s = named_struct('b', 3, 'a', 4), l = array(named_struct('b', 3, 'a', 4))",
        """MERGE INTO {t} t USING (SELECT 1 k, named_struct('b', 3, 'a', 4) v) x ON t.i = x.k
        WHEN MATCHED THEN UPDATE SET s = v, l = array(v)""",
        """MERGE INTO {t} t USING (SELECT 2 k, named_struct('b', 3, 'a', 4) v) x ON t.i = x.k
        WHEN NOT MATCHED THEN INSERT (i, s, l) VALUES (k, v, array(v))""",
    ],
)
@pytest.mark.parametrize(("by_name", "values"), [("true", (4, 3)), ("false", (3, 4))])
def test_fields_of_structs_are_matched_by_name_or_position(
    spark, pairs, statement, by_name, values
):
    spark.conf.set(STRUCTS_BY_NAME, by_name)
    spark.sql(statement.format(t=pairs))
    row = spark.sql(f"SELECT s, l FROM {pairs} ORDER BY i DESC").first()
    assert (tuple(row.s), tuple(row.l[0])) == (values, values)


def test_star_by_position_is_refused_if_the_fields_differ(spark, pairs):
    spark.conf.set(STRUCTS_BY_NAME, "false")
    merge = (
        "MERGE INTO {t} t USING (SELECT 1 i, named_struct({v}) s, null l) x ON t.i = x.i "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    with pytest.raises(UnsupportedFeatureError, match=f"{STRUCTS_BY_NAME} is false.* column 's'"):
        spark.sql(merge.format(t=pairs, v="'b', 3, 'a', 4"))
    spark.sql(merge.format(t=pairs, v="'a', 3, 'b', 4"))
    assert tuple(spark.sql(f"SELECT s FROM {pairs}").first().s) == (3, 4)


@pytest.mark.parametrize("name", ["update", "merge", "merge all"])
def test_casts_of_update_and_merge_may_follow_the_ansi_setting(spark, run, name):
    spark.conf.set(FOLLOWS_ANSI, "true")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert run(name, "ANSI", "INT", "1000") == (-24, -24)
        spark.conf.set("spark.sql.ansi.enabled", "true")
        assert run(name, "LEGACY", "INT", "100") == (100, 100)
        with pytest.raises(Exception, match="OVERFLOW|can't be cast"):
            run(name, "LEGACY", "INT", "1000")
    finally:
        spark.conf.unset(FOLLOWS_ANSI)
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("insert", "INSERT INTO {t} SELECT 2, CAST(null AS STRUCT<a: BIGINT, b: INT>), null"),
        ("merge", "UPDATE {t} SET s = null"),
        ("merge", "MERGE INTO {t} t USING {t} x ON t.i = x.i WHEN MATCHED THEN UPDATE SET *"),
    ],
)
def test_expanded_null_structs_are_refused(spark, pairs, setting, statement):
    setting = f"spark.databricks.delta.{setting}.preserveNullSourceStructs"
    spark.conf.set(setting, "false")
    try:
        with pytest.raises(UnsupportedFeatureError, match=f"{setting} is false"):
            spark.sql(statement.format(t=pairs))
    finally:
        spark.conf.unset(setting)
    spark.sql(statement.format(t=pairs))
