"""Values that UPDATE and MERGE cast to or from a timestamp, in a session that isn't in UTC."""

import pytest

pytestmark = pytest.mark.spark

ZONE = "America/New_York"
ROW = """
    SELECT 1 id, TIMESTAMP'2024-01-05 22:00:00' ts, TIMESTAMP'2000-01-01 00:00:00' `event-time`,
        DATE'2000-01-01' day, 'x' name, TIMESTAMP_NTZ'2000-01-01 00:00:00' ntz,
        named_struct('name', 'x') place
"""
SOURCE = """
    (SELECT 1 id, '2024-01-05 10:00:00' made, TIMESTAMP'2024-01-05 22:00:00' seen,
        DATE'2024-01-05' due) s
"""


@pytest.fixture
def in_new_york(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", ZONE)
    return session


@pytest.fixture
def table(in_new_york, tmp_path):
    in_new_york.sql(ROW).write.format("delta").save(str(tmp_path / "t"))
    return f"delta.`{tmp_path / 't'}`"


def shown(session, table, column):
    return session.sql(f"SELECT CAST({column} AS STRING) FROM {table}").first()[0]


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("day", "ts", "2024-01-05"),
        ("name", "ts", "2024-01-05 22:00:00"),
        ("ntz", "ts", "2024-01-05 22:00:00"),
        ("place.name", "ts", "2024-01-05 22:00:00"),
        ("`event-time`", "'2024-01-05 10:00:00'", "2024-01-05 10:00:00"),
        ("`event-time`", "day", "2000-01-01 00:00:00"),
        ("`event-time`", "ts", "2024-01-05 22:00:00"),
    ],
)
def test_an_update_casts_in_the_session_s_time_zone(in_new_york, table, column, value, expected):
    in_new_york.sql(f"UPDATE {table} SET {column} = {value}")
    assert shown(in_new_york, table, column) == expected


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("t.ts", "'2024-01-05 10:00:00'", "2024-01-05 10:00:00"),
        ("ts", "s.made", "2024-01-05 10:00:00"),
        ("`event-time`", "s.due", "2024-01-05 00:00:00"),
        ("ts", "s.seen", "2024-01-05 22:00:00"),
        ("day", "s.seen", "2024-01-05"),
        ("day", "t.ts", "2024-01-05"),
        ("place.name", "s.seen", "2024-01-05 22:00:00"),
    ],
)
def test_a_merge_casts_in_the_session_s_time_zone(in_new_york, table, column, value, expected):
    in_new_york.sql(
        f"MERGE INTO {table} t USING {SOURCE} ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET {column} = {value}"
    )
    assert shown(in_new_york, table, column.removeprefix("t.")) == expected


def test_a_merge_inserts_in_the_session_s_time_zone(in_new_york, table):
    in_new_york.sql(
        f"MERGE INTO {table} t USING {SOURCE} ON t.id = s.id + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, ts, day) VALUES (2, s.made, s.seen)"
    )
    inserted = in_new_york.sql(f"SELECT CAST(ts AS STRING), day FROM {table} WHERE id = 2").first()
    assert (inserted[0], str(inserted[1])) == ("2024-01-05 10:00:00", "2024-01-05")


def test_the_dataframe_api_casts_in_the_session_s_time_zone(in_new_york, table):
    from bayou.spark import DeltaTable

    target = DeltaTable.forPath(in_new_york, table.split("`")[1])
    target.update(set={"`ts`": "'2024-01-05 10:00:00'"})
    assert shown(in_new_york, table, "ts") == "2024-01-05 10:00:00"
    source = in_new_york.sql(f"SELECT * FROM {SOURCE}").alias("s")
    target.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(
        set={"t.day": "s.seen"}
    ).execute()
    assert shown(in_new_york, table, "day") == "2024-01-05"
