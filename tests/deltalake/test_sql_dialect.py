"""SQL strings with DataFusion's quotes."""

import pyarrow as pa
import pytest

from bayou.deltalake import DeltaTable, write_deltalake
from bayou.deltalake.sql_dialect import spark_sql


@pytest.mark.parametrize(
    ("datafusion", "spark"),
    [
        ('"SELECT" = 9', "`SELECT` = 9"),
        ('source."a b" = target."a b"', "source.`a b` = target.`a b`"),
        ("name = 'O''Reilly'", r"name = 'O\'Reilly'"),
        (r"path = 'C:\new'", r"path = 'C:\\new'"),
        ("""say = 'the "word"'""", """say = 'the "word"'"""),
        ('`a"b` > 1', '`a"b` > 1'),
        ('"it""s" > 1', '`it"s` > 1'),
        ([("id", "=", 1)], [("id", "=", 1)]),
        (None, None),
    ],
)
def test_quotes_are_converted(datafusion, spark):
    assert spark_sql(datafusion) == spark


def test_a_quoted_name_is_a_column_in_every_method(tmp_path):
    rows = {"id": [1, 2, 3, 4], "order": ["a", "b", "c", "d"]}
    write_deltalake(tmp_path, pa.table(rows))
    table = DeltaTable(tmp_path)
    table.alter.add_constraint({"named": "\"order\" <> 'x'"})
    table.delete("\"order\" = 'a'")
    table.update({'"order"': 'upper("order")'}, predicate="\"order\" = 'b'")
    (
        table.merge(pa.table({"order": ["c"]}), 'target."order" = source."order"')
        .when_matched_delete("target.\"order\" = 'c'")
        .execute()
    )
    write_deltalake(
        table, pa.table({"id": [5], "order": ["d"]}), mode="overwrite", predicate="\"order\" = 'd'"
    )
    assert sorted(table.scan(predicate="\"order\" > 'A'").read_all().to_pylist(), key=str) == [
        {"id": 2, "order": "B"},
        {"id": 5, "order": "d"},
    ]


def test_metrics_of_the_history_have_both_names(tmp_path):
    write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    table = DeltaTable(tmp_path)
    table.delete("id = 1")
    metrics = table.history(1)[0]["operationMetrics"]
    assert metrics["numDeletedRows"] == "1"
    assert metrics["num_deleted_rows"] == 1
    with pytest.raises(KeyError):
        metrics["num_rows"]
