"""Columns whose names have a dot, a backtick or a space."""

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.spark

NAMES = ("id", "a.b", "a", "tick`", "x y")
OLD = (1, "old", {"b": "inner"}, "t", "s")


@pytest.fixture
def run(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({name: [value] for name, value in zip(NAMES, OLD, strict=True)})
    bayou.write(path, rows, configuration={"delta.columnMapping.mode": "name"})

    def run(statement):
        spark.sql(statement.replace("{t}", f"delta.`{path}`"))
        table = bayou.table(path).to_arrow().sort_by("id")
        return [tuple(row.values()) for row in table.to_pylist()]

    return run


MERGE = (
    "MERGE INTO {t} t USING (SELECT 2 AS id, 'new' AS `a.b`, named_struct('b', 'n') AS a) s "
    "ON t.id = s.id WHEN NOT MATCHED THEN INSERT"
)


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (
            "INSERT INTO {t} (id, `a.b`, `tick```) VALUES (2, 'new', 'u')",
            [OLD, (2, "new", None, "u", None)],
        ),
        (
            "INSERT INTO {t} BY NAME SELECT 2 AS id, 'new' AS `a.b`",
            [OLD, (2, "new", None, None, None)],
        ),
        (
            "UPDATE {t} SET `a.b` = concat(`a.b`, uuid()) WHERE false OR id = length(uuid())",
            [OLD],
        ),
        (
            "UPDATE {t} SET `a.b` = format_string('%s', 'f'), `tick``` = 'u' WHERE id = 1",
            [(1, "f", {"b": "inner"}, "u", "s")],
        ),
        (
            f"{MERGE} (id, `a.b`, `x y`) VALUES (s.id, s.`a.b`, 'z')",
            [OLD, (2, "new", None, None, "z")],
        ),
        (
            f"{MERGE} (id, `a.b`, a) VALUES (s.id, format_string('%s', s.`a.b`), s.a)",
            [OLD, (2, "new", {"b": "n"}, None, None)],
        ),
    ],
    ids=["insert", "by name", "update nothing", "update", "merge", "merge by Spark"],
)
def test_statements_write_columns_with_any_name(run, statement, rows):
    assert run(statement) == rows


def test_a_name_with_a_dot_is_not_the_target_s_alias(run):
    found = run(
        "MERGE INTO {t} a USING (SELECT 2 AS id) s ON a.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, `a.b`) VALUES (s.id, 'new')"
    )
    assert found == [OLD, (2, "new", None, None, None)]
    assert run("UPDATE {t} a SET `a.b` = 'u', a.id = 3 WHERE a.id = 2")[1][:2] == (3, "u")
