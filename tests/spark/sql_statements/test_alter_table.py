from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

import bayou
from bayou.errors import ArgumentError, ConstraintViolationError, SchemaError, StatementError
from bayou.spark import sql

pytestmark = pytest.mark.spark

_MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


def test_columns_come_go_and_change(numbers):
    run = numbers(1, _MAPPED)
    run("ALTER TABLE {t} ADD COLUMNS (a INT COMMENT 'c' FIRST, s STRUCT<x: INT> AFTER id)")
    run("ALTER TABLE {t} ADD COLUMN s.y STRING")
    assert [f.name for f in run.snapshot.schema] == ["a", "id", "s", "day", "name"]
    assert run.last()["operation"] == "ADD COLUMNS"
    run("ALTER TABLE {t} RENAME COLUMN a TO b")
    run("ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT")
    run("ALTER TABLE {t} ALTER COLUMN b COMMENT 'd'")
    run("ALTER TABLE {t} CHANGE COLUMN b bb BIGINT COMMENT 'e' AFTER id")
    field = {f.name: f for f in run.snapshot.schema}["bb"]
    assert (str(field.data_type), field.metadata["comment"]) == ("long", "e")
    assert [f.name for f in run.snapshot.schema] == ["id", "bb", "s", "day", "name"]
    before = run.snapshot.version
    run("ALTER TABLE {t} CHANGE COLUMN bb bb BIGINT COMMENT 'f' FIRST")
    assert run.snapshot.version == before + 1
    assert run.snapshot.schema.fields[0].metadata["comment"] == "f"
    run("ALTER TABLE {t} CHANGE COLUMN bb bb BIGINT")
    assert run.snapshot.version == before + 1
    run("ALTER TABLE {t} ALTER COLUMN id SET NOT NULL")
    assert not run.snapshot.schema.get("id").nullable
    run("ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL")
    run("ALTER TABLE {t} DROP COLUMNS (bb, s)")
    run("ALTER TABLE {t} DROP COLUMN IF EXISTS what")
    assert [f.name for f in run.snapshot.schema] == ["id", "day", "name"]


def test_a_column_is_renamed_to_another_case_only_if_the_session_distinguishes_case(numbers):
    run = numbers(1, _MAPPED)
    run("ALTER TABLE {t} ADD COLUMN s STRUCT<x: INT, y: INT>")
    before = run.snapshot.version
    renames = [("id", "id"), ("id", "ID"), ("ID", "Id"), ("id", "DAY"), ("s.x", "X"), ("s.x", "Y")]
    for column, name in renames:
        with pytest.raises(AnalysisException) as raised:
            run(f"ALTER TABLE {{t}} RENAME COLUMN {column} TO {name}")
        assert raised.value.getCondition() == "FIELD_ALREADY_EXISTS"
    with pytest.raises(SchemaError, match="no column"):
        run("ALTER TABLE {t} RENAME COLUMN what TO WHAT")
    with pytest.raises(AnalysisException, match="FIELD_ALREADY_EXISTS"):
        run("ALTER TABLE {t} ADD COLUMN ID INT")
    assert run.snapshot.version == before
    run.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(AnalysisException, match="FIELD_ALREADY_EXISTS"):
            run("ALTER TABLE {t} RENAME COLUMN id TO id")
        run("ALTER TABLE {t} RENAME COLUMN id TO ID")
    finally:
        run.spark.conf.unset("spark.sql.caseSensitive")
    assert run.snapshot.schema.names == ("ID", "day", "name", "s")
    assert run.last()["operationParameters"] == {"oldColumnPath": "id", "newColumnPath": "ID"}


def test_a_void_column_changes_to_any_type(run):
    run("CREATE TABLE {t} (id bigint, v void) USING delta")
    run("INSERT INTO {t} VALUES (1, NULL)")
    run("ALTER TABLE {t} CHANGE COLUMN v TYPE INT")
    run("INSERT INTO {t} VALUES (2, 7)")
    assert run.rows() == [(1, None), (2, 7)]


def test_properties_features_defaults_and_comments_are_set(numbers):
    run = numbers(1)
    run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = true, a.b = 'c')")
    run("ALTER TABLE {t} UNSET TBLPROPERTIES ('a.b', zz)")
    assert dict(run.snapshot.properties) == {"delta.appendOnly": "true"}
    run("ALTER TABLE {t} ADD FEATURE allowColumnDefaults")
    run("ALTER TABLE {t} ALTER COLUMN name SET DEFAULT 'x' || 'y'")
    run("INSERT INTO {t} (id) VALUES (5)")
    assert run.rows()[-1] == (5, None, "xy")
    run("ALTER TABLE {t} ALTER COLUMN name DROP DEFAULT")
    run("COMMENT ON TABLE {t} IS 'about'")
    assert run.snapshot.kernel.metadata.description == "about"
    run("COMMENT ON COLUMN {t}.name IS 'who'")
    assert run.snapshot.schema.get("name").metadata["comment"] == "who"
    run("COMMENT ON COLUMN {t}.name IS NULL")
    assert "comment" not in run.snapshot.schema.get("name").metadata
    shown = run("SHOW TBLPROPERTIES {t}")
    assert shown.columns == ["key", "value"]
    assert ("delta.feature.allowColumnDefaults", "supported") in [tuple(r) for r in shown.collect()]
    assert run("SHOW TBLPROPERTIES {t} ('delta.appendOnly')").first()["value"] == "true"


def test_constraints_are_added_and_dropped(numbers):
    run = numbers(1)
    run("ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 10 AND (day IN (0, 1)))")
    with pytest.raises(ConstraintViolationError):
        run("INSERT INTO {t} VALUES (11, 0, 'x')")
    run("ALTER TABLE {t} DROP CONSTRAINT IF EXISTS nope")
    run("ALTER TABLE {t} DROP CONSTRAINT small")
    run("INSERT INTO {t} VALUES (11, 0, 'x')")


def test_a_table_is_clustered_or_not(numbers):
    run = numbers(4)
    run("ALTER TABLE {t} CLUSTER BY (id, name)")
    assert run.snapshot.kernel.clustering_columns == (("id",), ("name",))
    done = run("OPTIMIZE {t} FULL").first()
    assert done["metrics"]["numFilesAdded"] == 1
    run("ALTER TABLE {t} CLUSTER BY NONE")
    assert not run.snapshot.kernel.clustering_columns


def test_a_feature_is_dropped(numbers):
    run = numbers(1, {"delta.enableDeletionVectors": "true"})
    run("ALTER TABLE {t} DROP FEATURE deletionVectors")
    assert "delta.enableDeletionVectors" not in run.snapshot.properties


def test_a_table_is_shown_as_it_could_be_made_again(run, tmp_path):
    run(
        "CREATE TABLE {t} (id INT NOT NULL COMMENT 'it\\'s', g INT GENERATED ALWAYS AS (id + 1), "
        "p DATE) USING delta PARTITIONED BY (p) COMMENT 'c' "
        "TBLPROPERTIES ('delta.appendOnly' = 'true')"
    )
    text = run("SHOW CREATE TABLE {t}").first()["createtab_stmt"]
    run.spark.sql(text.replace(run.path, f"{tmp_path}/again"))
    again = run.spark.sql(f"SHOW CREATE TABLE delta.`{tmp_path}/again`").first()[0]
    assert again == text.replace(run.path, f"{tmp_path}/again")
    described = [tuple(r) for r in run("DESCRIBE TABLE {t}").collect()]
    assert described[0] == ("id", "int", "it's")
    assert described[3:] == [
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "date", None),
    ]
    assert [r[0] for r in run("SHOW COLUMNS IN {t}").collect()] == ["id", "g", "p"]


def test_nested_fields_are_shown_with_their_names_nullability_and_comments(run, tmp_path):
    columns = (
        "`s` STRUCT<`Name`: STRING NOT NULL COMMENT 'it\\'s', `a-b`: ARRAY<STRUCT<`X`: INT>>>",
        "`m` MAP<STRING, STRUCT<`Y`: DECIMAL(10,2)>>",
    )
    run(f"CREATE TABLE {{t}} ({', '.join(columns)}) USING delta")
    text = run("SHOW CREATE TABLE {t}").first()["createtab_stmt"]
    assert [line.strip(" ,)") for line in text.splitlines()[1:3]] == list(columns)
    run.spark.sql(text.replace(run.path, f"{tmp_path}/again"))
    again = bayou.table(f"{tmp_path}/again").snapshot().schema
    assert again == run.snapshot.schema


def test_what_cannot_be_altered_is_said(numbers):
    run = numbers(1)
    with pytest.raises(SchemaError, match="SYNC IDENTITY requires an identity column"):
        run("ALTER TABLE {t} ALTER COLUMN id SYNC IDENTITY")
    with pytest.raises(SchemaError, match="DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP"):
        run("ALTER TABLE {t} REPLACE COLUMNS (id BIGINT)")
    with pytest.raises(StatementError, match="name, type and comment of id"):
        run("ALTER TABLE {t} REPLACE COLUMNS (id BIGINT DEFAULT 1)")
    with pytest.raises(ArgumentError, match="DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER"):
        run("ALTER TABLE {t} SET LOCATION '/elsewhere'")


def test_columns_are_replaced(numbers):
    run = numbers(1, _MAPPED)
    run("ALTER TABLE {t} REPLACE COLUMNS (name STRING COMMENT 'who', id BIGINT, day BIGINT)")
    assert [f.name for f in run.snapshot.schema] == ["name", "id", "day"]
    run("ALTER TABLE {t} REPLACE COLUMNS (id BIGINT, name STRING)")
    assert run.rows() == [(0, "n0")]
    assert run.last()["operation"] == "REPLACE COLUMNS"


def test_a_named_table_gets_another_location(spark, tmp_path):
    spark.sql("CREATE TABLE moved_things (id BIGINT) USING delta")
    try:
        other = str(tmp_path / "other")
        spark.range(3).write.format("delta").save(other)
        spark.sql(f"ALTER TABLE moved_things SET LOCATION '{other}'")
        assert spark.table("moved_things").count() == 3
        spark.range(1).selectExpr("id AS x").write.format("delta").save(other + "2")
        with pytest.raises(SchemaError, match="DELTA_SET_LOCATION_SCHEMA_MISMATCH"):
            spark.sql(f"ALTER TABLE moved_things SET LOCATION '{other}2'")
    finally:
        spark.sql("DROP TABLE moved_things")


def test_a_named_table_is_described_as_in_the_log(spark):
    spark.sql("CREATE TABLE described_things (id INT, p STRING) USING delta PARTITIONED BY (p)")
    try:
        rows = [tuple(row) for row in spark.sql("DESCRIBE TABLE described_things").collect()]
        assert rows[:2] == [("id", "int", None), ("p", "string", None)]
        assert rows[2][0] == "# Partition Information"
        assert rows[4] == ("p", "string", None)
        extended = spark.sql("DESCRIBE EXTENDED described_things").collect()
        assert [tuple(row) for row in extended[:5]] == rows
        details = {row.col_name: row.data_type for row in extended[5:]}
        assert details["Name"] == "`described_things`"
        assert details["Type"] == "EXTERNAL"  # DROP TABLE keeps the files
        assert details["Provider"] == "delta"
        assert details["Location"].endswith("/described_things")
        assert "delta.minReaderVersion=1" in details["Table Properties"]
    finally:
        spark.sql("DROP TABLE described_things")


def test_the_catalog_shows_a_named_tables_columns_as_they_are(spark):
    sql(spark, "CREATE TABLE altered_things (id BIGINT) USING delta")
    try:
        sql(spark, "ALTER TABLE altered_things ADD COLUMN v STRING")
        assert [c.name for c in spark.catalog.listColumns("altered_things")] == ["id", "v"]
        sql(spark, "INSERT INTO altered_things VALUES (1, 'a')")
        assert sql(spark, "SELECT v FROM altered_things").collect() == [("a",)]
    finally:
        spark.sql("DROP TABLE altered_things")


def test_a_table_is_shown_without_properties_that_only_writers_set(run, tmp_path):
    run("CREATE TABLE {t} (a INT) USING delta TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    text = run("SHOW CREATE TABLE {t}").first()["createtab_stmt"]
    assert "delta.columnMapping.maxColumnId" not in text
    run.spark.sql(text.replace(run.path, f"{tmp_path}/again"))
    assert bayou.table(f"{tmp_path}/again").snapshot().schema.names == ("a",)
