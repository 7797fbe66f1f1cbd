"""Row operations on partition timestamps without a time zone, in a session that isn't in UTC."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

import bayou
from bayou.errors import ArgumentError, PredicateError
from bayou.spark import DeltaTable
from bayou.spark.target_table import TargetTable

pytestmark = pytest.mark.spark

ZONE = "Asia/Tokyo"
LOCAL = "2024-01-01 00:00:00"


@pytest.fixture
def in_tokyo(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", ZONE)
    return session


@pytest.fixture
def table(in_tokyo, tmp_path):
    """A table as delta-spark 1.x writes it: the partition values have no time zone."""
    path = tmp_path / "t"
    columns = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "copy": pa.nulls(3, pa.timestamp("us", tz="UTC")),
        "p": pa.array(["2024-01-01"] * 3).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
    }
    bayou.write(str(path), pa.table(columns), partition_by=["p"])
    commit = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"]["p"] = LOCAL
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for checksum in (path / "_delta_log").glob("*.crc"):
        checksum.unlink()
    return f"delta.`{path}`"


def shown(session, table):
    rows = session.sql(f"SELECT id, CAST(p AS STRING), CAST(copy AS STRING) FROM {table}").collect()
    return sorted(tuple(row) for row in rows)


def test_an_update_computes_times_in_the_session_s_zone(in_tokyo, table):
    in_tokyo.sql(f"UPDATE {table} SET p = p + INTERVAL 9 HOURS WHERE id = 1")
    assert shown(in_tokyo, table) == [
        (1, "2024-01-01 09:00:00", None),
        (2, LOCAL, None),
        (3, LOCAL, None),
    ]


def test_a_merge_copies_times_in_the_session_s_zone(in_tokyo, table):
    source = in_tokyo.range(1, 3).withColumnRenamed("id", "number")
    (
        DeltaTable.forPath(in_tokyo, table.split("`")[1])
        .alias("t")
        .merge(source.alias("s"), "t.id = s.number")
        .whenMatchedUpdate(set={"copy": "t.p"})
        .execute()
    )
    assert shown(in_tokyo, table) == [(1, LOCAL, LOCAL), (2, LOCAL, LOCAL), (3, LOCAL, None)]


def test_a_merge_by_spark_moves_only_rows_whose_time_changes(in_tokyo, table):
    in_tokyo.sql(
        f"MERGE INTO {table} t USING (SELECT explode(array(1, 2)) number) s ON t.id = s.number "
        "WHEN MATCHED AND hour(t.p) = 0 AND t.id = 1 THEN UPDATE SET p = t.p + INTERVAL 9 HOURS "
        "WHEN MATCHED THEN UPDATE SET copy = t.p + INTERVAL 1 HOUR"
    )
    assert shown(in_tokyo, table) == [
        (1, "2024-01-01 09:00:00", None),
        (2, LOCAL, "2024-01-01 01:00:00"),
        (3, LOCAL, None),
    ]
    in_tokyo.conf.set("spark.sql.session.timeZone", "UTC")
    assert shown(in_tokyo, table)[1:] == [(2, LOCAL, "2023-12-31 16:00:00"), (3, LOCAL, None)]


def test_a_constraint_is_checked_with_times_in_the_session_s_zone(in_tokyo, table):
    in_tokyo.sql(
        f"ALTER TABLE {table} ADD CONSTRAINT early CHECK (p < TIMESTAMP'{LOCAL}Z' AND id > 0)"
    )
    in_tokyo.sql(f"UPDATE {table} SET copy = p WHERE id = 1")
    assert shown(in_tokyo, table) == [(1, LOCAL, LOCAL), (2, LOCAL, None), (3, LOCAL, None)]


@pytest.mark.parametrize(
    ("settings", "zone"),
    [({"spark.bayou.enabled": "true"}, ZONE), ({}, "UTC")],
    ids=["enabled", "not enabled"],
)
def test_row_operations_have_the_zone_of_reads(settings, zone):
    settings = {"spark.sql.session.timeZone": ZONE, **settings}
    conf = SimpleNamespace(get=lambda key, default=None: settings.get(key, default))
    target = TargetTable(spark=SimpleNamespace(conf=conf), location="/t")
    assert target.time_zone == zone


@pytest.mark.parametrize(
    ("command", "considered", "removed"),
    [
        ("OPTIMIZE {} WHERE p = TIMESTAMP'2024-01-01 00:00:00'", 3, 3),
        ("OPTIMIZE {} WHERE p = '2024-01-01' ZORDER BY (id)", 3, 3),
        ("REORG TABLE {} WHERE p = TIMESTAMP'2023-12-31T15:00:00Z' APPLY (PURGE)", 3, 1),
        ("OPTIMIZE {} WHERE p > TIMESTAMP'2024-01-01 00:00:00' ZORDER BY (id)", 0, 0),
    ],
)
def test_maintenance_selects_partitions_by_their_time_in_the_session_s_zone(
    in_tokyo, table, command, considered, removed
):
    in_tokyo.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    in_tokyo.sql(f"DELETE FROM {table} WHERE id = 3")
    for number in (4, 5):
        in_tokyo.sql(f"INSERT INTO {table} VALUES ({number}, NULL, TIMESTAMP'{LOCAL}')")
    metrics = in_tokyo.sql(command.format(table)).first()["metrics"]
    assert (metrics["totalConsideredFiles"], metrics["numFilesRemoved"]) == (considered, removed)
    assert shown(in_tokyo, table) == [(number, LOCAL, None) for number in (1, 2, 4, 5)]


def test_conditions_that_need_the_session_s_zone_are_refused_only_for_timestamps(
    in_tokyo, table, tmp_path
):
    with pytest.raises(ArgumentError, match=f"WHERE: .* time zone {ZONE}"):
        in_tokyo.sql(f"OPTIMIZE {table} WHERE CAST(p AS DATE) = DATE'2024-01-01'")
    with pytest.raises(PredicateError, match="non-partition column 'copy'"):
        in_tokyo.sql(f"OPTIMIZE {table} WHERE CAST(copy AS DATE) = DATE'2024-01-01'")
    by_day = f"delta.`{tmp_path}/days`"
    in_tokyo.sql(f"CREATE TABLE {by_day} (id INT, day DATE) USING delta PARTITIONED BY (day)")
    in_tokyo.sql(f"INSERT INTO {by_day} VALUES (1, DATE'2024-01-01'), (2, DATE'2025-01-01')")
    metrics = in_tokyo.sql(f"OPTIMIZE {by_day} WHERE year(day) = 2024").first()["metrics"]
    assert metrics["totalConsideredFiles"] == 1
