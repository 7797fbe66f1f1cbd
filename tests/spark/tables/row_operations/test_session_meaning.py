"""What a session's settings make of a condition, and which conditions the kernel may take."""

import pyarrow as pa
import pytest

import bayou
from bayou.kernel.predicates.sql import parse_predicate
from bayou.protocol.schema import DATE, FLOAT, INTEGER, STRING, StructField, StructType
from bayou.spark.tables.row_operations.session_meaning import means_the_same

pytestmark = pytest.mark.spark

SCHEMA = StructType(
    (
        StructField(name="i", data_type=INTEGER),
        StructField(name="f", data_type=FLOAT),
        StructField(name="s", data_type=STRING),
        StructField(name="day", data_type=DATE),
    )
)


@pytest.fixture
def lenient(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("i = 1 AND s = 'a' AND i IN (1, NULL)", True),
        ("t.i < 7 OR s LIKE 'a%_b' OR s LIKE 'a%'", True),
        ("day = DATE'2024-01-05' OR i <=> NULL", True),
        ("s = 1", False),
        ("s IN ('1', 7)", False),
        ("i IN ('1', '7')", False),
        ("f = 16777217", False),
        ("day = s", False),
        ("day = '2024-01-05'", False),
        ("i LIKE '1%'", False),
        ("NOT (i > 0 AND s > 5)", False),
        ("unknown = 1", False),
    ],
)
def test_without_ansi_mode_the_kernel_compares_values_of_one_kind_only(lenient, condition, same):
    assert means_the_same(lenient, parse_predicate(condition), (SCHEMA,)) is same


def test_without_ansi_mode_rows_are_deleted_that_spark_finds(lenient, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(
        path,
        pa.table(
            {
                "id": [1, 2, 3],
                "f": pa.array([16777216.0, 1.0, 2.0], pa.float32()),
                "s": ["x", " 2 ", "3"],
            }
        ),
    )
    for condition in ("f = 16777217", "s = 2"):
        expected = lenient.read.format("delta").load(path).where(condition).count()
        assert (
            lenient.sql(f"DELETE FROM delta.`{path}` WHERE {condition}").first()[0] == expected == 1
        )
    assert bayou.table(path).to_arrow()["id"].to_pylist() == [3]
