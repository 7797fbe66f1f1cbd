"""Row operations that delta-spark refuses: Bayou's error has the same condition and key words."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException, SparkRuntimeException

import bayou.spark

pytestmark = pytest.mark.spark

ON = "MERGE INTO {t} t USING s ON t.key = s.key "
INSERT = "WHEN NOT MATCHED {and_} THEN INSERT (key, value) VALUES (s.key, s.source)"

CASES = [
    # Aggregate and window functions, and random values.
    (ON + "WHEN MATCHED AND max(0) > 0 THEN DELETE", "DELTA_AGGREGATION_NOT_SUPPORTED", "aggr"),
    (
        ON + INSERT.replace("{and_}", "AND max(0) > 0"),
        "DELTA_AGGREGATION_NOT_SUPPORTED",
        "max(0) > 0",
    ),
    (
        ON + "WHEN MATCHED AND rand() > 0.5 THEN DELETE",
        "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
        "deterministic",
    ),
    (
        "DELETE FROM {t} WHERE rand() > 0.5",
        "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
        "The operator expects a deterministic expression",
    ),
    (
        "DELETE FROM {t} WHERE key > max(value)",
        "UNSUPPORTED_EXPR_FOR_OPERATOR",
        "Invalid expressions",
    ),
    (
        "DELETE FROM {t} WHERE row_number() OVER (ORDER BY value) > 1",
        "UNSUPPORTED_EXPR_FOR_OPERATOR",
        "Invalid expressions",
    ),
    (
        "UPDATE {t} SET value = row_number() OVER (ORDER BY key)",
        "UNSUPPORTED_EXPR_FOR_OPERATOR",
        "Invalid expressions",
    ),
    ("UPDATE {t} SET value = max(key)", "UNSUPPORTED_EXPR_FOR_OPERATOR", "Invalid expressions"),
    # Names that can't be resolved.
    (ON + "WHEN MATCHED AND key > 1 THEN DELETE", "AMBIGUOUS_REFERENCE", "key"),
    (
        ON + "WHEN MATCHED AND nothing > 1 THEN DELETE",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "cannot resolve nothing",
    ),
    (
        ON + INSERT.replace("{and_}", "AND value > 1"),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "cannot resolve value",
    ),
    (
        ON + "WHEN MATCHED THEN UPDATE SET extra = s.source",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "cannot resolve extra in UPDATE clause",
    ),
    (
        ON + "WHEN NOT MATCHED THEN INSERT (key, extra) VALUES (s.key, s.source)",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "cannot resolve extra in INSERT clause",
    ),
    (
        ON + "WHEN MATCHED THEN UPDATE SET t.s.z = 1",
        "FIELD_NOT_FOUND",
        "cannot resolve s.z in UPDATE clause: No such struct field 'z' in x",
    ),
    (
        ON + "WHEN MATCHED THEN UPDATE SET t.m.k = 1",
        "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
        "Updating nested fields is only supported for StructType, and 'm' has the type map",
    ),
    (
        ON + "WHEN MATCHED THEN UPDATE SET t.value.k = 1",
        "INVALID_EXTRACT_BASE_FIELD_TYPE",
        "'value' has the type",
    ),
    (
        ON + "WHEN MATCHED AND s.source IN (SELECT x FROM t_missing) THEN DELETE",
        "TABLE_OR_VIEW_NOT_FOUND",
        "t_missing",
    ),
    ("DELETE FROM {t} WHERE nothing = 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "nothing"),
    ("UPDATE {t} SET nothing = 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "nothing"),
    ("UPDATE {t} SET s.z = 1", "FIELD_NOT_FOUND", "No such struct field 'z' in x"),
    (
        "UPDATE {t} SET m.k = 1",
        "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
        "Updating nested fields is only supported for StructType",
    ),
    (
        "DELETE FROM {t} WHERE value = (SELECT key FROM s)",
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        "More than one row returned by a subquery used as an expression",
    ),
    (
        "UPDATE {t} SET value = (SELECT key FROM s)",
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        "More than one row returned by a subquery used as an expression",
    ),
    ("UPDATE {t} SET s = 'x'", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "data type mismatch"),
    ("UPDATE {t} SET value.k = 1", "INVALID_EXTRACT_BASE_FIELD_TYPE", "'value' has the type"),
    ("UPDATE {t} SET value = value.k", "INVALID_EXTRACT_BASE_FIELD_TYPE", "extract a value"),
    ("DELETE FROM {t} WHERE value.k = 1", "INVALID_EXTRACT_BASE_FIELD_TYPE", "extract a value"),
    # Columns that are set twice.
    (
        "UPDATE {t} SET value = 1, VALUE = 2",
        "DELTA_CONFLICT_SET_COLUMN",
        "There is a conflict from these SET columns",
    ),
    (
        "UPDATE {t} SET s.x = 1, s = named_struct('x', 1)",
        "DELTA_CONFLICT_SET_COLUMN",
        "There is a conflict from these SET columns",
    ),
    (
        ON + "WHEN MATCHED THEN UPDATE SET value = 1, t.value = 2",
        "DELTA_CONFLICT_SET_COLUMN",
        "There is a conflict from these SET columns",
    ),
    (
        ON + "WHEN NOT MATCHED THEN INSERT (key, key) VALUES (3, 4)",
        "DELTA_DUPLICATE_COLUMNS_ON_INSERT",
        "Duplicate column names in INSERT clause",
    ),
    # Types that don't fit.
    (
        ON + "WHEN MATCHED THEN UPDATE SET s = 1",
        "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
        "data type mismatch: cannot cast",
    ),
    (
        ON + "WHEN MATCHED THEN UPDATE SET s = named_struct('x', 1, 'y', 2)",
        "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
        "cannot cast",
    ),
    (
        ON + "WHEN NOT MATCHED THEN INSERT (key, s.x) VALUES (1, 2)",
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
        "Nested field is not supported in the INSERT clause",
    ),
]


@pytest.fixture
def run(spark, tmp_path):
    """Runs statements about a table `{t}` with a view `s` as the source."""
    path = f"delta.`{tmp_path / 't'}`"
    bayou.spark.sql(
        spark,
        f"CREATE TABLE {path} (key INT, value INT, s STRUCT<x: INT>, m MAP<STRING, INT>) "
        "USING delta",
    )
    bayou.spark.sql(spark, f"INSERT INTO {path} (key, value) VALUES (1, 1), (2, 2)")
    spark.createDataFrame([(1, 10), (3, 30)], "key int, source int").createOrReplaceTempView("s")
    yield lambda statement: bayou.spark.sql(spark, statement.replace("{t}", path)).collect()
    spark.catalog.dropTempView("s")


@pytest.mark.parametrize(("statement", "condition", "words"), CASES)
def test_a_refused_row_operation_has_delta_sparks_condition_and_words(
    run, statement, condition, words
):
    if "{and_}" in statement:
        statement = statement.replace("{and_}", "")
    with pytest.raises(Exception) as caught:
        run(statement)
    assert isinstance(caught.value, AnalysisException | ParseException | SparkRuntimeException)
    assert caught.value.getCondition() == condition
    assert words.lower() in str(caught.value).lower()
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("clauses", "kind", "condition"),
    [
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET value = 1", "MATCHED", "MATCHED"),
        (
            (
                "WHEN NOT MATCHED THEN INSERT (key) VALUES (1) "
                "WHEN NOT MATCHED THEN INSERT (key) VALUES (2)"
            ),
            "NOT MATCHED [BY TARGET]",
            "NOT_MATCHED_BY_TARGET",
        ),
        (
            (
                "WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE AND key > 1 "
                "THEN UPDATE SET value = 1"
            ),
            "NOT MATCHED BY SOURCE",
            "NOT_MATCHED_BY_SOURCE",
        ),
    ],
)
def test_only_the_last_clause_of_a_kind_can_omit_the_condition(run, clauses, kind, condition):
    with pytest.raises(ParseException) as caught:
        run(ON + clauses)
    assert caught.value.getCondition() == f"NON_LAST_{condition}_CLAUSE_OMIT_CONDITION"
    assert caught.value.getSqlState() == "42613"
    assert f"only the last {kind} clause can omit the condition" in str(caught.value)


def test_a_merge_reads_its_source_from_a_with_clause(spark, run):
    run(
        "WITH a AS (SELECT key + 1 AS key, source FROM s), b AS (SELECT * FROM a WHERE key = 2) "
        "MERGE INTO {t} t USING b s ON t.key = s.key "
        "WHEN MATCHED THEN UPDATE SET value = s.source "
        "WHEN NOT MATCHED THEN INSERT (key, value) VALUES (s.key, s.source)"
    )
    assert sorted(run("SELECT key, value FROM {t}")) == [(1, 1), (2, 10)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {t} WHERE value = 1",
        "UPDATE {t} SET value = 1",
        "MERGE INTO {t} t USING s ON t.value = s.source WHEN MATCHED THEN DELETE",
    ],
)
def test_rows_of_a_folder_inside_a_table_cant_be_changed(spark, run, tmp_path, statement):
    path = tmp_path / "partitioned"
    rows = spark.createDataFrame([(1, 1)], "key int, value int")
    rows.write.format("delta").partitionBy("key").save(str(path))
    with pytest.raises(AnalysisException, match="found a partial scan") as caught:
        bayou.spark.sql(spark, statement.format(t=f"delta.`{path}/key=1`"))
    assert caught.value.getCondition() == "DELTA_UNEXPECTED_PARTIAL_SCAN"
    missing = f"delta.`{tmp_path}/nothing`"
    with pytest.raises(AnalysisException) as caught:
        bayou.spark.sql(spark, statement.format(t=missing))
    assert caught.value.getCondition() == "DELTA_MISSING_DELTA_TABLE"


def test_a_temporary_view_of_all_rows_and_columns_stands_for_its_table(spark, run, tmp_path):
    path = str(tmp_path / "t")
    table = spark.read.format("delta").load(path)
    table.createOrReplaceTempView("v")
    run("DELETE FROM v WHERE key = 2")
    run(f"CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM (SELECT * FROM delta.`{path}` AS a) AS b")
    run("UPDATE v SET v.value = 5 WHERE v.key = 1")
    run(
        "MERGE INTO v USING s ON v.key = s.key WHEN MATCHED THEN UPDATE SET value = v.value + 1 "
        "WHEN NOT MATCHED THEN INSERT (key, value) VALUES (s.key, s.source)"
    )
    assert sorted(run("SELECT key, value FROM {t}")) == [(1, 6), (3, 30)]
    assert sorted(run("SELECT key, value FROM v")) == [(1, 6), (3, 30)]
    spark.catalog.dropTempView("v")
