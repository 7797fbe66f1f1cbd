"""Values that don't fit a column's type: an error in every session, as in delta-spark."""

import pytest

import bayou

pytestmark = pytest.mark.spark

_MISFIT = r"(?i)overflow|out of range|cannot be represented|can't be cast"
ROW = "(1Y, 2S, 3.5BD, 'ab', named_struct('x', 1Y), array(1Y))"


@pytest.fixture
def run(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    table = f"delta.`{tmp_path / 't'}`"
    session.sql(
        f"CREATE TABLE {table} (b TINYINT, s SMALLINT, d DECIMAL(4,1), v STRING, "
        "st STRUCT<x: TINYINT>, ar ARRAY<TINYINT>) USING delta"
    )
    session.sql(f"INSERT INTO {table} VALUES {ROW}")

    def run(statement):
        return session.sql(statement.replace("{t}", table))

    run.spark, run.path = session, str(tmp_path / "t")
    return run


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} (b) VALUES (300)",
        "INSERT INTO {t} (d) VALUES (123456.78BD)",
        "INSERT INTO {t} (st) VALUES (named_struct('x', 300))",
        "INSERT INTO {t} (ar) VALUES (array(300))",
        "UPDATE {t} SET b = s * 150",
        "UPDATE {t} SET b = v",
        "UPDATE {t} SET d = d * 100000",
        "UPDATE {t} SET st = named_struct('x', s * 150)",
        "UPDATE {t} SET st.x = s * 150",
        "UPDATE {t} SET ar = array(s * 150)",
        "MERGE INTO {t} USING (SELECT 300 x) s ON b + 0 = 1 WHEN MATCHED THEN UPDATE SET b = x",
        "MERGE INTO {t} USING (SELECT 300 x) ON b = x WHEN NOT MATCHED THEN INSERT (b) VALUES (x)",
    ],
)
def test_without_ansi_mode_too_a_value_that_does_not_fit_is_an_error(run, statement):
    before = bayou.table(run.path).to_arrow().to_pylist()
    with pytest.raises(
        Exception, match=r"(?i)overflow|out of range|cannot be represented|can't be cast"
    ):
        run(statement)
    assert bayou.table(run.path).to_arrow().to_pylist() == before


def test_insert_into_does_not_wrap_numbers(run):
    frame = run.spark.sql(f"SELECT 300 AS b, * EXCEPT (col1) FROM VALUES {ROW}")
    run.spark.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    frame.createOrReplaceTempView("given")
    run("INSERT INTO {t} SELECT * FROM given")
    assert sorted(bayou.table(run.path).to_arrow()["b"].to_pylist()) == [1, 44]
    run.spark.conf.set("spark.sql.storeAssignmentPolicy", "ANSI")
    with pytest.raises(Exception, match="(?i)overflow"):
        run("INSERT INTO {t} SELECT * FROM given")
