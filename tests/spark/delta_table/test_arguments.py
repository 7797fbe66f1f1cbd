"""Arguments of `DeltaTable` and its builders that delta-spark refuses, and its exceptions."""

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    SparkRuntimeException,
    UnsupportedOperationException,
)
from pyspark.sql.types import IntegerType, StructField

from bayou.spark import DeltaTable, IdentityGenerator

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t, s: t.delete(1), TypeError, "must be a Spark SQL Column or a string"),
        (lambda t, s: t.update(condition="a"), ValueError, "'set' cannot be None"),
        (lambda t, s: t.update(set=1), TypeError, "must be a dict"),
        (lambda t, s: t.update(set={"id": 1}), TypeError, "Values of dict in 'set' must contain"),
        (lambda t, s: t.update(set={1: ""}), TypeError, "Keys of dict in 'set' must contain only"),
        (lambda t, s: t.merge(1, "a = b"), TypeError, "must be DataFrame"),
        (lambda t, s: t.merge(None, "a = b"), ValueError, "cannot be None"),
        (lambda t, s: t.merge(s, 1), TypeError, "must be a Spark SQL Column or a string"),
        (
            lambda t, s: t.merge(s, "a = b").whenMatchedUpdate("a = 1"),
            ValueError,
            "'set' in whenMatchedUpdate cannot be None",
        ),
        (lambda t, s: t.vacuum("x"), ValueError, "retentionHours needs to be a number"),
        (lambda t, s: t.restoreToVersion("0"), ValueError, "an int but got '<class 'str'>'"),
        (lambda t, s: t.restoreToTimestamp(1), ValueError, "a string but got '<class 'int'>'"),
        (lambda t, s: t.upgradeTableProtocol("a", 3), ValueError, "readerVersion needs to be an"),
        (lambda t, s: t.addFeatureSupport([]), ValueError, "featureName needs to be a string"),
        (lambda t, s: t.dropFeatureSupport("x", 1), ValueError, "truncateHistory needs to be a bo"),
        (lambda t, s: t.clone(10), ValueError, "target needs to be a string"),
        (lambda t, s: t.optimize().executeZOrderBy(1), TypeError, "string"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_before_the_table_is_read(
    spark, table, call, error, message
):
    made = table({"id": [1]})
    with pytest.raises(error, match=message):
        call(made, spark.range(1))
    assert made.history().count() == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.tableName(1),
        lambda b: b.location(1),
        lambda b: b.comment(1),
        lambda b: b.addColumn(1, "int"),
        lambda b: b.addColumn("a", 1),
        lambda b: b.addColumn("a", "int", comment=1),
        lambda b: b.addColumn("a", "int", generatedAlwaysAs=1),
        lambda b: b.addColumn("a", "bigint", generatedByDefaultAs=""),
        lambda b: b.addColumn("a", "int", nullable=1),
        lambda b: b.addColumns(1),
        lambda b: b.addColumns([StructField("a", IntegerType()), 1]),
        lambda b: b.partitionedBy(1, "a"),
        lambda b: b.clusterBy([1]),
        lambda b: b.property(1, "a"),
    ],
)
def test_the_table_builder_refuses_wrong_types_with_a_type_error(spark, call):
    with pytest.raises(TypeError):
        call(DeltaTable.create(spark))


def test_the_table_builder_refuses_types_and_generators_with_sparks_exceptions(spark, tmp_path):
    builder = DeltaTable.create(spark).location(str(tmp_path / "t"))
    with pytest.raises(ParseException, match="'1'"):
        builder.addColumn("a", "1")
    with pytest.raises(UnsupportedOperationException) as caught:
        builder.addColumn("a", "int", generatedAlwaysAs=IdentityGenerator())
    assert caught.value.getCondition() == "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE"
    with pytest.raises(ValueError, match="step"):
        builder.addColumn("a", "bigint", generatedAlwaysAs=IdentityGenerator(step=0))


@pytest.mark.parametrize(
    ("call", "error", "condition", "message"),
    [
        (
            lambda t: t.optimize().where("id = 1").executeCompaction(),
            AnalysisException,
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
            r"non-partition column 'id'. Only the partition columns may be referenced: \[p\]",
        ),
        (
            lambda t: t.optimize().executeZOrderBy("p"),
            IllegalArgumentException,
            "DELTA_ZORDERING_ON_PARTITION_COLUMN",
            "p is a partition column. Z-Ordering can only be performed on data columns",
        ),
        (
            lambda t: t.optimize().executeZOrderBy("x"),
            IllegalArgumentException,
            "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
            "'x'",
        ),
        (
            lambda t: t.restoreToTimestamp("05/04/1999"),
            AnalysisException,
            "DELTA_TIMESTAMP_INVALID",
            r"timestamp \('05/04/1999'\) cannot be converted to a valid timestamp",
        ),
        (
            lambda t: t.restoreToVersion(9),
            AnalysisException,
            "DELTA_CANNOT_RESTORE_TABLE_VERSION",
            "9",
        ),
        (
            lambda t: t.addFeatureSupport("abc"),
            SparkRuntimeException,
            "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            "'abc'",
        ),
        (
            lambda t: t.dropFeatureSupport("abc"),
            SparkRuntimeException,
            "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
            "'abc'",
        ),
        (
            lambda t: t.delete("nothing = 1"),
            AnalysisException,
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "nothing",
        ),
        (lambda t: t.delete("id ="), ParseException, "PARSE_SYNTAX_ERROR", "id ="),
    ],
)
def test_a_request_that_the_table_refuses_has_delta_sparks_class_and_condition(
    table, call, error, condition, message
):
    made = table({"id": [1], "p": ["a"]}, partition_by=["p"])
    with pytest.raises(error, match=message) as caught:
        call(made)
    assert caught.value.getCondition() == condition


def test_a_table_that_exists_or_does_not_is_an_analysis_exception(spark, table, tmp_path):
    path = str(tmp_path / "t")
    with pytest.raises(AnalysisException, match="cannot be found") as caught:
        DeltaTable.replace(spark).location(path).addColumn("id", "int").execute()
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    table({"id": [1]})
    with pytest.raises(AnalysisException, match="already exists") as caught:
        DeltaTable.create(spark).location(path).addColumn("id", "int").execute()
    assert caught.value.getSqlState() == "42P07"
    with pytest.raises(AnalysisException, match="already exists") as caught:
        spark.range(1).write.format("delta").save(path)
    assert caught.value.getCondition() == "DELTA_PATH_EXISTS"


def test_violations_and_ambiguous_merges_have_the_words_that_users_search_for(spark, tmp_path):
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark).location(path).addColumn("id", "bigint", nullable=False)
    made = builder.execute()
    rows = spark.sql("SELECT CAST(NULL AS BIGINT) AS id")
    with pytest.raises(SparkRuntimeException, match="NOT NULL constraint violated") as caught:
        rows.write.format("delta").mode("append").save(path)
    assert caught.value.getCondition() == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    spark.range(2).write.format("delta").mode("append").save(path)
    twice = spark.range(2).union(spark.range(2)).alias("s")
    merge = made.alias("t").merge(twice, "t.id = s.id").whenMatchedUpdate(set={"id": "s.id + 1"})
    with pytest.raises(UnsupportedOperationException, match="multiple source rows matched"):
        merge.execute()


def test_a_lower_protocol_version_has_no_effect(table):
    made = table({"id": [1]})
    made.upgradeTableProtocol(1, 3)
    made.upgradeTableProtocol(1, 2)
    assert made.detail().first()["minWriterVersion"] == 3
