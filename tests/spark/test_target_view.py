"""DELETE, UPDATE and MERGE through temporary views that don't show the table's own columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import bayou
import bayou.spark
from bayou.errors import StorageError
from bayou.spark.jvm.views import ViewPlan
from bayou.spark.sql_statements.context import StatementContext

pytestmark = pytest.mark.spark

DELETE = "DELETE FROM v WHERE key >= 1 AND value < 3"
UPDATE = "UPDATE v SET value = key + value, key = key + 1 WHERE key >= 1 AND value < 3"
MERGE = (
    "MERGE INTO v USING src ON src.a = v.key AND src.b = v.value "
    "WHEN MATCHED THEN UPDATE SET v.value = src.b + 1 "
    "WHEN NOT MATCHED THEN INSERT (v.key, v.value) VALUES (src.a, src.b)"
)
SWAPPED = "SELECT value AS key, key AS value FROM {t}"


class Views:
    """Runs statements about a table `{t}` with the rows (0, 3) and (1, 2), and its view `v`."""

    def __init__(self, spark, path):
        self.spark, self.path = spark, path

    def __call__(self, statement):
        text = statement.replace("{t}", f"delta.`{self.path}`")
        return sorted(map(tuple, bayou.spark.sql(self.spark, text).collect()))

    def create(self, definition="key INT, value INT", *, properties="", partitions=1):
        self(f"CREATE TABLE {{t}} ({definition}) USING delta {properties}")
        rows = self.spark.createDataFrame([(0, 3), (1, 2)], "key INT, value INT")
        rows.coalesce(partitions).write.format("delta").mode("append").save(self.path)

    def view(self, query, kind="sql"):
        if kind == "sql":
            self(f"CREATE OR REPLACE TEMP VIEW v AS {query}")
        else:
            text = query.replace("{t}", f"delta.`{self.path}`")
            bayou.spark.sql(self.spark, text).createOrReplaceTempView("v")

    def refuses(self, statement, condition, words):
        before = self("SELECT * FROM {t}")
        with pytest.raises(AnalysisException) as caught:
            self(statement)
        assert caught.value.getCondition() == condition
        assert words in str(caught.value)
        assert "__bayou" not in str(caught.value)
        assert self("SELECT * FROM {t}") == before


@pytest.fixture
def views(spark, tmp_path):
    source = spark.createDataFrame([(1, 2), (3, 4)], "a INT, b INT")
    source.createOrReplaceTempView("src")
    yield Views(spark, str(tmp_path / "t"))
    spark.catalog.dropTempView("src")
    spark.catalog.dropTempView("v")


@pytest.mark.parametrize("kind", ["sql", "dataframe"])
@pytest.mark.parametrize("statement", [DELETE, UPDATE, MERGE])
def test_a_condition_cant_use_a_column_that_the_view_omits(views, kind, statement):
    views.create()
    views.view("SELECT key FROM {t}", kind)
    views.refuses(statement, "UNRESOLVED_COLUMN.WITH_SUGGESTION", "value")


@pytest.mark.parametrize("kind", ["sql", "dataframe"])
def test_rows_with_more_columns_than_the_table_cant_be_written(views, kind):
    views.create()
    views.view("SELECT key, value, 1 FROM {t}", kind)
    for statement in (DELETE, UPDATE):
        views.refuses(statement, "DELTA_CANNOT_RESOLVE_COLUMN", "Can't resolve column 1 in root")
    views.refuses(
        MERGE, "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "Latest schema is missing field(s): 1"
    )
    assert views("SELECT * FROM v") == [(0, 3, 1), (1, 2, 1)]


def test_a_merge_needs_a_view_of_all_columns(views):
    views.create()
    views.view("SELECT key FROM {t}")
    statement = "MERGE INTO v USING src ON src.a = v.key WHEN MATCHED THEN DELETE"
    views.refuses(statement, "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "additional field(s): value")


def test_a_delete_with_deletion_vectors_writes_no_rows_of_the_view(views):
    views.create(properties="TBLPROPERTIES (delta.enableDeletionVectors = true)")
    views.view("SELECT key, value, 1 FROM {t}")
    views(DELETE)
    assert views("SELECT * FROM v") == [(0, 3, 1)]
    views("UPDATE {t} SET value = 2")
    views(DELETE.replace("key >= 1", "key >= 0"))  # now the read of the table has a join
    assert views("SELECT * FROM v") == []


@pytest.mark.parametrize("kind", ["sql", "dataframe"])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (DELETE, [(3, 0)]),
        (UPDATE, [(3, 0), (3, 3)]),
        (MERGE, [(2, 1), (2, 1), (3, 0), (4, 3)]),
    ],
)
def test_values_are_assigned_to_the_tables_columns_of_the_same_names(
    views, kind, partitions, statement, expected
):
    views.create(partitions=partitions)
    views.view(SWAPPED, kind)
    views(statement)
    assert views("SELECT * FROM v") == expected
    assert views("SELECT value, key FROM {t}") == expected


def test_columns_that_arent_assigned_keep_the_tables_values(views):
    views.create("key INT, value INT, s STRUCT<x: INT, y: INT>")
    views("UPDATE {t} SET s = named_struct('x', key, 'y', value)")
    views.view("SELECT s, key + 10 AS key FROM {t}")
    views("UPDATE v SET v.s.x = key WHERE key = 11")
    assert views("SELECT key, value, s.x, s.y FROM {t}") == [(0, 3, 0, 3), (1, 2, 11, 2)]
    views.view("SELECT value AS key, key AS value, s FROM {t}")
    views(
        "MERGE INTO v USING src ON src.a = 1 WHEN MATCHED AND v.key = 3 THEN UPDATE SET value = 7 "
        "WHEN MATCHED AND v.key = 2 THEN UPDATE SET key = 8"
    )
    assert views("SELECT key, value, s.x FROM {t}") == [(0, 7, 0), (8, 2, 11)]


def test_a_view_of_some_columns_keeps_the_others(views):
    views.create("key INT, value INT")
    views.view("SELECT value FROM {t}")
    views("UPDATE v AS w SET w.value = w.value * 10 WHERE w.value = 3")
    assert views("SELECT * FROM {t}") == [(0, 30), (1, 2)]
    views("DELETE FROM v WHERE value = 2")
    assert views("SELECT * FROM v") == [(30,)]
    views.refuses("UPDATE v SET key = 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "'key'")
    views("DELETE FROM v")
    assert views("SELECT * FROM {t}") == []


def test_a_computed_column_is_compared_as_the_view_shows_it(views):
    views.create()
    views.view("SELECT key, value * 10 AS value FROM {t}")
    views("UPDATE v SET value = value + 1 WHERE value = 30")
    assert views("SELECT * FROM {t}") == [(0, 31), (1, 2)]
    views("DELETE FROM v WHERE value = 20")
    assert views("SELECT * FROM v") == [(0, 310)]


def test_a_merge_inserts_values_in_the_order_of_the_views_columns(views):
    views.create()
    views.view("SELECT value, key FROM {t}")
    views(
        "MERGE INTO v USING src ON src.a = v.key WHEN MATCHED THEN UPDATE SET value = src.b * 5 "
        "WHEN NOT MATCHED THEN INSERT VALUES (src.b, src.a)"
    )
    assert views("SELECT * FROM {t}") == [(0, 3), (1, 10), (3, 4)]
    assert views("SELECT * FROM v") == [(3, 0), (4, 3), (10, 1)]


def test_a_large_source_is_merged_through_a_view_that_renames_columns(views):
    views.create(partitions=2)
    views.view(SWAPPED)
    views.spark.conf.set("bayou.rowOperations.sourceBytes", "0")
    try:
        views(MERGE)
    finally:
        views.spark.conf.unset("bayou.rowOperations.sourceBytes")
    assert views("SELECT value, key FROM {t}") == [(2, 1), (2, 1), (3, 0), (4, 3)]


def test_rows_are_changed_through_a_global_temporary_view(views):
    views.create()
    views("CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT value, key FROM {t}")
    try:
        views("DELETE FROM global_temp.v WHERE v.key = 1")
        assert views("SELECT * FROM global_temp.v") == [(3, 0)]
    finally:
        views.spark.catalog.dropGlobalTempView("v")


@pytest.mark.parametrize(
    ("query", "condition", "words"),
    [
        (
            "SELECT * FROM {t} WHERE value <> 0",
            "DELTA_UNEXPECTED_PARTIAL_SCAN",
            "Expect a full scan of Delta sources, but found a partial scan",
        ),
        (
            "SELECT * FROM {t} VERSION AS OF 1",
            "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
            "historical scan",
        ),
        (
            "SELECT key, max(value) AS value FROM {t} GROUP BY key",
            "DELTA_UNSUPPORTED_SOURCE",
            "destination only supports Delta sources",
        ),
        (
            "SELECT key, value + CAST(rand() AS INT) AS value FROM {t}",
            "DELTA_UNSUPPORTED_SOURCE",
            "destination only supports Delta sources",
        ),
        (
            "SELECT t.* FROM {t} t JOIN src ON t.key = src.a",
            "DELTA_UNSUPPORTED_SOURCE",
            "destination only supports Delta sources",
        ),
        (
            "SELECT t.* FROM src JOIN {t} t ON t.key = src.a",
            "DELTA_UNSUPPORTED_SOURCE",
            "destination only supports Delta sources",
        ),
        (
            "SELECT a AS key, b AS value FROM src WHERE a IN (SELECT key FROM {t} WHERE value > 0)",
            "DELTA_UNSUPPORTED_SOURCE",
            "destination only supports Delta sources",
        ),
    ],
)
def test_a_view_of_other_rows_than_the_tables_is_refused(views, query, condition, words):
    views.create()
    views.view(query)
    for statement in (DELETE, UPDATE, MERGE):
        views.refuses(statement, condition, words)


def test_generated_columns_cant_be_computed_through_a_view(views):
    views.create("key INT, value INT, n INT GENERATED ALWAYS AS (CAST(key + 1 AS INT))")
    views.view("SELECT value, key, n FROM {t}")
    condition = "DELTA_OPERATION_ON_TEMP_VIEW_WITH_GENERATED_COLS_NOT_SUPPORTED"
    views.refuses("UPDATE v SET key = 5", condition, "UPDATE command on a temp view")
    views.refuses(MERGE, condition, "MERGE INTO command on a temp view")


def test_a_merge_cant_assign_nested_fields_through_a_view(views):
    views.create("key INT, value INT, s STRUCT<x: INT>")
    views.view("SELECT * FROM {t}")
    views.refuses(
        "MERGE INTO v t USING src ON src.a = t.key WHEN MATCHED THEN UPDATE SET t.s.x = src.b",
        "DELTA_MERGE_UNEXPECTED_ASSIGNMENT_KEY",
        "Unexpected assignment key",
    )


@pytest.mark.parametrize(
    "feature", ["columnMapping.mode' = 'name", "enableDeletionVectors' = 'true"]
)
def test_a_view_of_a_table_with_table_features_stands_for_the_table(views, feature):
    views.create(properties=f"TBLPROPERTIES ('delta.{feature}')")
    views("ALTER TABLE {t} ADD COLUMNS (n INT)")
    if "Mapping" in feature:
        views("ALTER TABLE {t} RENAME COLUMN value TO v2")
        views("ALTER TABLE {t} RENAME COLUMN v2 TO value")
    views("DELETE FROM {t} WHERE key = 0")
    views.view("SELECT * FROM {t}")
    views("UPDATE v SET n = 1")
    assert views("SELECT * FROM v") == [(1, 2, 1)]
    views.view("SELECT n AS key, value FROM {t}")
    views("UPDATE v SET value = 5 WHERE key = 1")
    assert views("SELECT * FROM {t}") == [(1, 5, 1)]


def test_a_merge_that_evolves_a_struct_leaves_the_view_unchanged(views, caplog):
    views.create("key INT, value INT, s STRUCT<x: INT>")
    views.view("SELECT value, key, s FROM {t}")
    views(
        "MERGE WITH SCHEMA EVOLUTION INTO v USING "
        "(SELECT a AS key, b AS value, named_struct('x', 1, 'y', 2) AS s FROM src WHERE a = 3) q "
        "ON v.key = q.key WHEN NOT MATCHED THEN INSERT *"
    )
    assert views("SELECT key, value, s.y FROM {t} WHERE key = 3") == [(3, 4, 2)]
    assert views("SELECT value, key FROM v") == [(2, 1), (3, 0)]
    (record,) = [r for r in caplog.records if r.name == "bayou.spark.sql_statements.context"]
    assert record.levelname == "WARNING"
    assert "rows, but the view still shows the earlier version, because" in record.getMessage()


def test_a_statement_succeeds_although_its_view_cannot_be_created_again(views, caplog, monkeypatch):
    views.create()
    views.view("SELECT * FROM {t}")

    def unreachable(context, table, target):
        raise StorageError("s3://lake/t: the store doesn't answer. Try again.", path=target.path)

    monkeypatch.setattr(StatementContext, "_recreate_view", unreachable)
    views("DELETE FROM v WHERE key = 0")
    monkeypatch.undo()
    assert views("SELECT * FROM {t}") == [(1, 2)]
    (record,) = [r for r in caplog.records if r.name == "bayou.spark.sql_statements.context"]
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "v: the statement has changed the table's rows, but the view still shows the earlier "
        "version, because it can't be created again: s3://lake/t: the store doesn't answer. Try "
        "again. Create the view again."
    )


def test_a_delete_of_all_rows_checks_first_that_the_view_can_be_computed(views):
    views.create(properties="TBLPROPERTIES (delta.enableTypeWidening = true)")
    views.view(SWAPPED)
    views("ALTER TABLE {t} ALTER COLUMN value TYPE BIGINT")
    condition, words = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "Create the view again"
    views.refuses("DELETE FROM v", condition, words)
    views.refuses("DELETE FROM v WHERE key = 3", condition, words)


def test_a_comment_of_a_nested_field_may_change_after_the_view_was_created(views):
    views.create("key INT, value INT, s STRUCT<x: INT>")
    views.view("SELECT s, key FROM {t}")
    views("ALTER TABLE {t} ALTER COLUMN s.x COMMENT 'new'")
    views("UPDATE {t} SET s = named_struct('x', value)")
    views("DELETE FROM v WHERE key = 1")
    views("UPDATE v SET s.x = s.x + 1")
    assert views("SELECT key, s.x FROM v") == [(0, 4)]


def test_a_merge_is_refused_after_columns_were_added_under_the_views_names(views):
    views.create("key INT, value INT")
    views.view("SELECT key, value, key + 1 AS n FROM {t}")
    views("ALTER TABLE {t} ADD COLUMNS (n INT)")
    views.refuses(
        "MERGE INTO v USING src ON src.a = v.key WHEN MATCHED THEN UPDATE SET value = src.b",
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
        "Latest schema has additional field(s): n",
    )


@pytest.mark.parametrize("query", ["SELECT * FROM {t}", "SELECT value, key FROM {t}"])
@pytest.mark.parametrize(
    "alter",
    [
        ["RENAME COLUMN key TO k", "RENAME COLUMN value TO key", "RENAME COLUMN k TO value"],
        ["DROP COLUMN key", "ADD COLUMNS (key INT)"],
    ],
)
def test_rows_are_not_changed_by_a_column_that_has_taken_over_a_name(views, query, alter):
    views.create(properties="TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    views.view(query)
    for change in alter:
        views(f"ALTER TABLE {{t}} {change}")
    condition, words = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "key now refers to another column"
    for statement in ("DELETE FROM v WHERE key IS NULL OR key = 3", "UPDATE v SET key = 5", MERGE):
        views.refuses(statement, condition, words)


@pytest.mark.parametrize("query", ["SELECT * FROM {t}", "SELECT s, l, m, key FROM {t}"])
@pytest.mark.parametrize(
    ("alter", "path", "statements"),
    [
        (
            ["DROP COLUMN s.x", "ADD COLUMNS (s.x INT FIRST)"],
            "s.x",
            ["DELETE FROM v WHERE s.x IS NULL", "UPDATE v SET s.x = 5"],
        ),
        (
            [
                "RENAME COLUMN l.element.x TO z",
                "RENAME COLUMN l.element.y TO x",
                "RENAME COLUMN l.element.z TO y",
                "ALTER COLUMN l.element.x FIRST",
            ],
            "l.element.x",
            ["DELETE FROM v WHERE l[0].x = 2", "UPDATE v SET key = 5 WHERE l[0].x = 2"],
        ),
        (
            ["DROP COLUMN m.value.x", "ADD COLUMNS (m.value.x INT)"],
            "m.value.x",
            ["DELETE FROM v WHERE m['k'].x IS NULL"],
        ),
    ],
)
def test_rows_are_not_changed_by_a_field_that_has_taken_over_a_name(
    views, query, alter, path, statements
):
    views.create(
        "key INT, value INT, s STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<x: INT, y: INT>>, "
        "m MAP<STRING, STRUCT<w: INT, x: INT>>",
        properties="TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    )
    views(
        "UPDATE {t} SET s = named_struct('x', key, 'y', 2), l = array(s), "
        "m = map('k', named_struct('w', 1, 'x', 2))"
    )
    views("UPDATE {t} SET l = array(s)")
    views.view(query)
    for change in alter:
        views(f"ALTER TABLE {{t}} {change}")
    for statement in statements:
        words = f"{path} now refers to another column"
        views.refuses(statement, "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", words)


@pytest.mark.parametrize("mode", ["name", "none"])
def test_a_view_of_a_version_that_is_gone_is_refused_if_columns_can_be_renamed(views, mode):
    views.create(properties=f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')")
    views.view("SELECT * FROM {t}")
    views("UPDATE {t} SET value = 7 WHERE key = 1")
    bayou.table(views.path).create_checkpoint()
    for version in range(2):
        Path(views.path, "_delta_log", f"{version:020}.json").unlink()
    if mode == "none":
        views("DELETE FROM v WHERE value = 7")
        assert views("SELECT * FROM {t}") == [(0, 3)]
    else:
        condition, words = "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "is no longer available"
        views.refuses("DELETE FROM v WHERE value = 7", condition, words)


def test_rows_are_changed_after_a_field_was_added_and_the_case_of_a_column_changed(views):
    views.create(
        "key INT, value INT, s STRUCT<x: INT>",
        properties="TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    )
    views.view("SELECT * FROM {t}")
    for change in ("ADD COLUMNS (s.y INT)", "RENAME COLUMN key TO k", "RENAME COLUMN k TO KEY"):
        views(f"ALTER TABLE {{t}} {change}")
    views("DELETE FROM v WHERE key = 1")
    assert views("SELECT value FROM {t}") == [(3,)]


def test_an_update_keeps_the_fields_of_a_column_that_was_added_under_a_views_name(views):
    views.create()
    views.view("SELECT key, value, named_struct('x', key, 'y', key) AS s FROM {t}")
    views("ALTER TABLE {t} ADD COLUMNS (s STRUCT<x: INT, y: INT>)")
    views("UPDATE {t} SET s = named_struct('x', 7, 'y', 8)")
    views("UPDATE v SET s.x = 5 WHERE key = 1")
    assert views("SELECT key, s.x, s.y FROM {t}") == [(0, 7, 8), (1, 5, 8)]


def test_the_columns_of_a_wide_view_take_a_constant_number_of_calls_each(views, monkeypatch):
    columns = [f"c{number}" for number in range(40)]
    views(f"CREATE TABLE {{t}} ({', '.join(f'{name} INT' for name in columns)}) USING delta")

    def calls(names):
        views.view(f"SELECT {', '.join(names)} FROM (SELECT * FROM {{t}})")
        view = views.spark.table("v")
        client = views.spark.sparkContext._gateway._gateway_client
        send, sent = client.send_command, []

        def counted(*args, **kwargs):
            sent.append(args)
            return send(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr(client, "send_command", counted)
            plan = ViewPlan(view, views.spark.read.format("delta").load(views.path))
        assert [column.source for column in plan.columns] == names
        return len(sent)

    assert calls(columns) - calls(columns[20:]) < 20 * 60
