from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from bayou.errors import PredicateError
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
def test_strict_decides_by_the_types(spark, source, target, fits):
    types = [parse_field("c", text).data_type for text in (source, target)]
    spark.conf.set("spark.sql.storeAssignmentPolicy", "STRICT")
    try:
        if fits:
            check_assignment(spark, *types, column="c", table="t")
        else:
            with pytest.raises(PredicateError, match="CANNOT_UP_CAST"):
                check_assignment(spark, *types, column="c", table="t")
    finally:
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
