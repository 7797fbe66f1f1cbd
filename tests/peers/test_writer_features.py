"""delta-spark and we write to one table in turn, for features that ask something of writers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import bayou
from bayou.errors import CommitConflictError, ConstraintViolationError, IcebergCompatError
from bayou.kernel import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import DeltaSpark

    from bayou.api.commands.alter import TableAlterer

pytestmark = pytest.mark.timeout(600)


def both(delta_spark: DeltaSpark, path: Path) -> list[dict]:
    """Rows by their order, once both sides have read the same."""
    ours = bayou.table(str(path)).to_arrow()
    theirs = delta_spark.read(path).select(ours.column_names)
    found = sorted(ours.to_pylist(), key=repr)
    assert found == sorted(theirs.to_pylist(), key=repr)
    return found


def test_rules_of_a_table_that_delta_spark_made(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 "
        "INCREMENT BY 5), n INT NOT NULL, at TIMESTAMP, day DATE GENERATED ALWAYS AS "
        "(CAST(at AS DATE)), s VARCHAR(3)) USING delta PARTITIONED BY (day)"
    )
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (n < 100)")
    moment = dt.datetime(2024, 2, 29, 23, tzinfo=dt.UTC)
    rows = pa.table(
        {"n": pa.array([1, 2], pa.int32()), "at": [moment, None], "s": ["abc", None]}
    ).set_column(1, "at", pa.array([moment, None], pa.timestamp("us", "UTC")))
    bayou.write(str(path), rows)
    delta_spark.sql(f"INSERT INTO delta.`{path}` (n, at, s) VALUES (3, NULL, 'x')")
    bayou.write(str(path), rows)
    found = both(delta_spark, path)
    assert len({row["id"] for row in found}) == 5
    assert all(row["id"] % 5 == 0 for row in found)
    assert {str(row["day"]) for row in found} == {"2024-02-29", "None"}
    too_many = rows.set_column(0, "n", pa.array([100, 1], pa.int32()))
    with pytest.raises(ConstraintViolationError, match="small"):
        bayou.write(str(path), too_many)
    with pytest.raises(ConstraintViolationError, match="varchar"):
        bayou.write(str(path), rows.set_column(2, "s", pa.array(["abcd", None])))


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.columnMapping.mode": "name"},
        {"delta.columnMapping.mode": "id"},
        {"delta.enableRowTracking": "true"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableTypeWidening": "true"},
        {"delta.enableChangeDataFeed": "true"},
    ],
    ids=lambda p: "=".join(next(iter(p.items()))),
)
def test_tables_that_we_made_are_written_by_both(
    delta_spark: DeltaSpark, tmp_path: Path, properties: dict[str, str]
) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"], "s": [{"x": 1}, {"x": 2}, None]})
    bayou.write(str(path), rows, partition_by=["p"], configuration=properties)
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (4, 'c', named_struct('x', 4))")
    bayou.write(str(path), rows.slice(0, 1))
    delta_spark.sql(f"UPDATE delta.`{path}` SET p = 'z' WHERE id = 3")
    assert [row["id"] for row in both(delta_spark, path)] == [1, 1, 3, 4]


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("DELETE FROM {t} WHERE id = 1", "concurrent append"),
        ("INSERT INTO {t} VALUES (9, 'a')", "concurrent append"),
        ("INSERT INTO {t} VALUES (9, 'b')", None),
        ("DELETE FROM {t} WHERE p = 'a'", "concurrent delete of a file that was read"),
        ("DELETE FROM {t} WHERE p = 'b'", None),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '1')", "metadata changed"),
        ("ALTER TABLE {t} ADD COLUMN c INT", "metadata changed"),
    ],
)
def test_what_delta_spark_commits_meanwhile_is_judged_by_the_rules(
    delta_spark: DeltaSpark, tmp_path: Path, statement: str, rule: str | None
) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    bayou.write(str(path), rows, partition_by=["p"])
    handle = bayou.table(str(path))
    engine, snapshot = handle._engine, handle.snapshot().kernel
    late = snapshot.build_update_table_transaction("test/1", Operation.DELETE).build(engine)
    removes = list(late.generate_remove_actions(engine, "p = 'a'"))
    delta_spark.sql(statement.format(t=f"delta.`{path}`"))
    if rule is None:
        assert late.commit(engine, removes).version == 2
        assert all(row["p"] == "b" for row in both(delta_spark, path))
    else:
        with pytest.raises(CommitConflictError) as caught:
            late.commit(engine, removes)
        assert caught.value.rule == rule


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tables_of_delta_spark_with_iceberg_compatibility_are_written_by_both(
    delta_spark: DeltaSpark, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "t"
    arrays = "" if version == 1 else ", l ARRAY<STRUCT<x: MAP<STRING, INT>>>"
    value = "" if version == 1 else ", array(named_struct('x', map('k', 1)))"
    delta_spark.sql(
        f"CREATE TABLE delta.`{path}` (p STRING, id BIGINT{arrays}) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.enableIcebergCompatV{version}' = 'true', "
        "'delta.enableDeletionVectors' = 'false')"
    )
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES ('a', 1{value}), ('b', 2{value})")
    before = bayou.table(str(path)).snapshot().kernel.schema
    rows = bayou.table(str(path)).to_arrow()
    bayou.write(str(path), rows)
    bayou.table(str(path)).update({"p": "'c'"}, predicate="id = 2")
    assert bayou.table(str(path)).snapshot().kernel.schema == before
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES ('d', 3{value})")
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN later BIGINT")
    bayou.table(str(path)).alter.add_column("last", "string")
    delta_spark.sql(f"UPDATE delta.`{path}` SET last = 'x' WHERE id = 3")
    bayou.table(str(path)).optimize.compact()
    assert [row["id"] for row in both(delta_spark, path)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("change", "ours", "condition"),
    [
        (
            "ADD COLUMN v VARIANT",
            lambda alter: alter.add_column("v", "variant"),
            "UNSUPPORTED_DATA_TYPE",
        ),
        (
            "SET TBLPROPERTIES ('delta.enableIcebergCompatV1' = 'true')",
            lambda alter: alter.set_table_properties({"delta.enableIcebergCompatV1": "true"}),
            "VERSION_MUTUAL_EXCLUSIVE",
        ),
        (
            "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            lambda alter: alter.set_table_properties({"delta.enableDeletionVectors": "true"}),
            "DELETION_VECTORS_SHOULD_BE_DISABLED",
        ),
    ],
)
def test_violations_have_the_conditions_of_delta_spark(
    delta_spark: DeltaSpark,
    tmp_path: Path,
    change: str,
    ours: Callable[[TableAlterer], object],
    condition: str,
) -> None:
    path = str(tmp_path / "t")
    bayou.create(path, {"id": "bigint"}, configuration={"delta.enableIcebergCompatV2": "true"})
    with pytest.raises(AssertionError, match=f"DELTA_ICEBERG_COMPAT_VIOLATION.{condition}"):
        delta_spark.sql(f"ALTER TABLE delta.`{path}` {change}")
    alter = bayou.table(path).alter
    with pytest.raises(IcebergCompatError) as caught:
        ours(alter)
    assert caught.value.condition == f"DELTA_ICEBERG_COMPAT_VIOLATION.{condition}"


def test_delta_spark_refuses_decimal_partitions_from_version_2_on(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    columns = {"id": "bigint", "p": "decimal(5,2)"}
    properties = {"delta.enableIcebergCompatV2": "true"}
    bayou.create(path, columns, partition_by="p", configuration=properties)
    with pytest.raises(AssertionError, match="UNSUPPORTED_PARTITION_DATA_TYPE"):
        delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1.5)")
    bayou.write(path, pa.table({"id": [1], "p": pa.array([Decimal("1.50")], pa.decimal128(5, 2))}))
