from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from bayou.errors import PredicateError, StatementError

pytestmark = pytest.mark.spark


def test_delete_gives_the_number_of_rows(numbers):
    run = numbers()
    done = run("DELETE FROM {t} AS x WHERE x.id > 3")
    assert [r.asDict() for r in done.collect()] == [{"num_affected_rows": 2}]
    assert len(run.rows()) == 4
    assert run.last()["operation"] == "DELETE"
    assert run("DELETE FROM {t}").first()[0] == 4


def test_update_gives_the_number_of_rows(numbers):
    run = numbers(3)
    done = run(
        "UPDATE {t} SET name = CASE WHEN id = 1 THEN 'one' ELSE name END, day = day + 1 "
        "WHERE id >= 1"
    )
    assert [r.asDict() for r in done.collect()] == [{"num_affected_rows": 2}]
    assert run.rows() == [(0, 0, "n0"), (1, 2, "one"), (2, 1, "n2")]


def test_truncate_removes_all_files_at_once(numbers):
    run = numbers()
    assert run("TRUNCATE TABLE {t}").columns == []
    assert run.rows() == []
    assert run.last()["operation"] == "TRUNCATE"
    assert int(run.last()["operationMetrics"]["numRemovedFiles"]) >= 1


def test_merge_runs_clauses_of_every_kind(numbers):
    run = numbers(6)
    done = run(
        """
        MERGE INTO {t} AS t
        USING (SELECT id, concat('m', id) AS name FROM range(4, 9)) s
        ON t.id = s.id
        WHEN MATCHED AND t.id = 4 THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.name = CASE WHEN s.id > 0 THEN s.name ELSE '' END
        WHEN NOT MATCHED AND s.id < 8 THEN INSERT (id, name) VALUES (s.id, s.name)
        WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET name = 'gone'
        """
    )
    assert done.first().asDict() == {
        "num_affected_rows": 6,
        "num_updated_rows": 2,
        "num_deleted_rows": 2,
        "num_inserted_rows": 2,
    }
    assert run.rows() == [
        (1, 1, "gone"),
        (2, 0, "n2"),
        (3, 1, "n3"),
        (5, 1, "m5"),
        (6, None, "m6"),
        (7, None, "m7"),
    ]


def test_merge_takes_all_columns_views_frames_and_schema_evolution(numbers):
    run = numbers(2)
    run.spark.range(1, 3).selectExpr("id", "9L AS day", "'v' AS name").createOrReplaceTempView("v")
    run(
        "MERGE INTO {t} t USING v ON t.id = v.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert run.rows() == [(0, 0, "n0"), (1, 9, "v"), (2, 9, "v")]
    columns = "id bigint, day bigint, name string, x boolean"
    more = run.spark.createDataFrame([(3, 1, "f", True)], columns)
    run(
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING {more} AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *",
        more=more,
    )
    assert run.rows()[-1] == (3, 1, "f", True)
    run(
        "MERGE INTO {t} t USING (SELECT 4L AS k) s ON t.id = s.k "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.k, 0, 'p', false)"
    )
    assert run.rows()[-1] == (4, 0, "p", False)


def test_merge_reads_its_source_from_a_delta_table(numbers, tmp_path):
    run = numbers(2)
    run(f"CREATE TABLE delta.`{tmp_path}/s` USING delta AS SELECT 1L AS id, 'new' AS name")
    run(
        f"MERGE INTO {{t}} t USING delta.`{tmp_path}/s` VERSION AS OF 0 AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    assert run.rows() == [(0, 0, "n0"), (1, 1, "new")]


def test_conditions_that_cannot_be_say_why(numbers):
    run = numbers(1)
    with pytest.raises(PredicateError):
        run("DELETE FROM {t} WHERE what = 1")
    with pytest.raises(StatementError, match="only the last MATCHED clause can omit the condition"):
        run(
            "MERGE INTO {t} t USING {t} s ON t.id = s.id WHEN MATCHED THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET *"
        )


@pytest.fixture
def chosen(spark):
    """A catalog table with the id 2."""
    spark.range(2, 3).write.format("delta").mode("overwrite").saveAsTable("chosen_ids")
    yield
    spark.sql("DROP TABLE chosen_ids")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {t} WHERE id IN (SELECT id FROM chosen_ids)", [(0, "n0"), (1, "n1")]),
        (
            "DELETE FROM {t} x WHERE NOT EXISTS (SELECT 1 FROM chosen_ids c WHERE c.id = x.id)",
            [(2, "n2")],
        ),
        ("DELETE FROM {t} WHERE id = (SELECT max(id) FROM {t})", [(0, "n0"), (1, "n1")]),
        (
            """UPDATE {t} SET name = (SELECT id FROM chosen_ids)
            WHERE id < (SELECT id FROM chosen_ids c)""",
            [(0, "2"), (1, "2"), (2, "n2")],
        ),
        (
            """MERGE INTO {t} t USING chosen_ids s ON t.id = s.id
            WHEN MATCHED AND t.id IN (SELECT id FROM chosen_ids) THEN UPDATE SET name = 'in'""",
            [(0, "n0"), (1, "n1"), (2, "in")],
        ),
    ],
)
def test_subqueries_read_delta_tables(numbers, chosen, statement, expected):
    run = numbers(3)
    run(statement)
    assert [(row[0], row[2]) for row in run.rows()] == expected
    assert "bayou_subquery" not in str(run.last()["operationParameters"])
    assert not [t for t in run.spark.catalog.listTables() if "subquery" in t.name]


def test_subqueries_of_delta_table_methods_read_delta_tables(spark, table, chosen, rows):
    numbers = table({"id": [0, 1, 2], "name": ["a", "b", "c"]})
    numbers.update("id = (SELECT max(id) FROM chosen_ids)", {"name": "(SELECT id FROM chosen_ids)"})
    assert rows(numbers) == [(0, "a"), (1, "b"), (2, "2")]
    source = spark.createDataFrame([(1,), (2,)], "id bigint").alias("s")
    merge = numbers.alias("t").merge(source, "t.id = s.id AND s.id IN (SELECT id FROM chosen_ids)")
    merge.whenMatchedUpdate(set={"name": "concat('m', (SELECT id FROM chosen_ids))"}).execute()
    assert rows(numbers) == [(0, "a"), (1, "b"), (2, "m2")]
    numbers.delete("id NOT IN (SELECT id FROM chosen_ids)")
    assert rows(numbers) == [(2, "m2")]
    operation = numbers.history(1).first()["operationParameters"]
    assert "SELECT id FROM chosen_ids" in operation["predicate"]
    assert not [t for t in spark.catalog.listTables() if "subquery" in t.name]


def test_suggested_columns_are_columns_of_the_table(numbers):
    run = numbers(1)
    for statement in (
        "UPDATE {t} SET name = 'x' WHERE nothing = 1",
        "DELETE FROM {t} WHERE nothing IN (SELECT 1)",
        """MERGE INTO {t} t USING (SELECT 1L i) s ON t.id = s.i AND nothing IN (SELECT 1)
        WHEN MATCHED THEN DELETE""",
    ):
        with pytest.raises(AnalysisException, match="cannot be resolved") as refused:
            run(statement)
        assert refused.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert "__bayou" not in str(refused.value)


@pytest.mark.parametrize("value", ["row_number() OVER (ORDER BY s.i)", "max(s.i)"])
@pytest.mark.parametrize(
    "clause", ["MATCHED THEN UPDATE SET id = {v}", "NOT MATCHED THEN INSERT (id) VALUES ({v})"]
)
def test_a_merge_refuses_values_that_need_other_rows(numbers, clause, value):
    run = numbers(1)
    with pytest.raises(AnalysisException, match="unsupported here.*Invalid expressions"):
        run(
            "MERGE INTO {t} t USING (SELECT 0L i) s ON t.id = s.i WHEN "
            + clause.replace("{v}", value)
        )
    assert run.rows() == [(0, 0, "n0")]
