import datetime as dt
import json
import os
import pickle
import shutil
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import EqualTo

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.spark import disable, enable
from bayou.spark.data_source import DeltaDataSource
from bayou.spark.read import batch
from bayou.spark.read.batch import FilesPartition, SlicePartition
from support.log_writer import LogWriter, add, metadata, protocol
from support.vectors import inline_vector

pytestmark = pytest.mark.spark

UTC = dt.UTC
ROWS = [
    {
        "string": "ä€",
        "long": 2**62,
        "integer": -5,
        "short": 7,
        "byte": -8,
        "float": 1.5,
        "double": float("inf"),
        "decimal": Decimal("12345678901234567890.123456789012345678"),
        "boolean": True,
        "binary": b"\x00\xff",
        "date": dt.date(1969, 12, 31),
        "timestamp": dt.datetime(2024, 1, 5, 10, 20, 30, 123456, tzinfo=UTC),
        "nested": {"a": [1, None, 3], "m": {"k": dt.date(2024, 1, 5), "n": None}},
        "structs": [{"x": 1, "y": "one"}, None],
    },
    dict.fromkeys(
        [
            "string",
            "long",
            "integer",
            "short",
            "byte",
            "float",
            "double",
            "decimal",
            "boolean",
            "binary",
            "date",
            "timestamp",
            "nested",
            "structs",
        ]
    ),
]
SCHEMA = pa.schema(
    [
        ("string", pa.string()),
        ("long", pa.int64()),
        ("integer", pa.int32()),
        ("short", pa.int16()),
        ("byte", pa.int8()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(38, 18)),
        ("boolean", pa.bool_()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        (
            "nested",
            pa.struct([("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.date32()))]),
        ),
        ("structs", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
    ]
)


def write(path, table, **options):
    deltalake.write_deltalake(str(path), table, **options)


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Three versions, partitioned by day, one file each."""
    path = tmp_path_factory.mktemp("tables") / "days of #1"
    for i, day in enumerate(["2024-01-05", "2024-01-06", None]):
        table = pa.table(
            {
                "id": pa.array(range(i * 10, i * 10 + 10), pa.int64()),
                "day": pa.array([day and dt.date.fromisoformat(day)] * 10, pa.date32()),
                "name": pa.array([f"name {n}" for n in range(10)]),
            }
        )
        write(path, table, mode="append", partition_by=["day"])
    return path


def delta(spark, path, **options):
    return spark.read.format("delta").options(**options).load(str(path))


def test_every_type_comes_back_value_for_value(spark, tmp_path):
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    write(tmp_path, table)
    read = delta(spark, tmp_path)
    got = sorted((r.asDict(recursive=True) for r in read.collect()), key=lambda r: not r["string"])
    timestamps = read.selectExpr("unix_micros(timestamp) as t").where("t is not null").collect()
    assert timestamps[0].t == ROWS[0]["timestamp"].timestamp() * 1_000_000
    for row in got:
        row.pop("timestamp")
    expected = [{k: v for k, v in row.items() if k != "timestamp"} for row in ROWS]
    expected[0]["binary"] = bytearray(expected[0]["binary"])
    assert got == expected


def test_partition_columns_come_back_from_the_log(spark, days):
    counts = delta(spark, days).groupBy("day").count().collect()
    assert {(r.day, r["count"]) for r in counts} == {
        (dt.date(2024, 1, 5), 10),
        (dt.date(2024, 1, 6), 10),
        (None, 10),
    }


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_path_may_be_a_uri_of_a_local_file(spark, tmp_path, prefix):
    write(tmp_path, pa.table({"id": [1, 2]}))
    assert delta(spark, f"{prefix}{tmp_path}").count() == 2


def test_an_older_version_is_read_on_request(spark, days):
    assert delta(spark, days, versionAsOf=0).count() == 10
    assert delta(spark, days, versionAsOf=1).count() == 20


def test_a_version_may_be_named_by_its_time(spark, days):
    for version in range(3):
        log = days / "_delta_log" / f"{version:020}.json"
        moment = dt.datetime(2024, 1, 5 + version, tzinfo=UTC).timestamp()
        os.utime(log, (moment, moment))
    assert delta(spark, days, timestampAsOf="2024-01-06 12:00:00").count() == 20
    assert delta(spark, days, timestampAsOf="2024-01-05").count() == 10
    assert delta(spark, f"{days}@20240106120000000").count() == 20


def test_a_version_may_stand_in_the_path(spark, days):
    assert delta(spark, f"{days}@v1").count() == 20
    write(f"{days}@v0", pa.table({"id": [1]}))
    assert delta(spark, f"{days}@v0").count() == 1  # a table that is really called so
    with pytest.raises(AnalysisException, match="MULTIPLE_FORMATS"):
        delta(spark, f"{days}@v1", versionAsOf=0)


def test_several_paths_are_refused_by_what_to_do(spark, days):
    with pytest.raises(AnalysisException, match="several paths.*unionByName"):
        spark.read.format("delta").load([str(days), str(days)])


def test_a_load_stays_at_its_version_while_others_write(spark, tmp_path):
    write(tmp_path, pa.table({"id": [1, 2]}))
    loaded = delta(spark, tmp_path)
    assert loaded.count() == 2
    write(tmp_path, pa.table({"id": [3]}), mode="append")
    assert loaded.count() == 2
    assert delta(spark, tmp_path).count() == 3


def test_a_table_that_was_replaced_since_load_is_refused(spark, tmp_path):
    write(tmp_path / "t", pa.table({"id": [1, 2]}))
    loaded = delta(spark, tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    write(tmp_path / "t", pa.table({"id": [1, 2]}))
    with pytest.raises(Exception, match="the table was replaced by another table"):
        loaded.count()


def test_a_schema_narrows_the_columns_that_are_read(spark, days):
    read = spark.read.format("delta").schema("name string, ID bigint").load(str(days))
    assert read.columns == ["name", "ID"]
    assert max(read.collect()) == ("name 9", 29)


def test_the_columns_that_a_schema_leaves_out_are_not_read(spark, tmp_path):
    write(tmp_path, pa.table({"a": list(range(1000)), "b": [f"b{i}" for i in range(1000)]}))
    spoil_column(next(tmp_path.glob("*.parquet")), 1)
    narrowed = spark.read.format("delta").schema("a long").load(str(tmp_path))
    assert narrowed.selectExpr("sum(a) as s").collect() == [(499_500,)]
    with pytest.raises(Exception, match=r"can't be read"):
        delta(spark, tmp_path).collect()


def spoil_column(file, index):
    chunk = pq.read_metadata(file).row_group(0).column(index)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    with file.open("r+b") as handle:
        handle.seek(start)
        handle.write(b"\xff" * chunk.total_compressed_size)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            "id bigint, nothing string",
            "column .nothing., but the table doesn.t. Use columns of the table: id, day, name",
        ),
        ("id int", "column 'id' has the type long, .* has integer"),
    ],
)
def test_a_schema_that_is_not_the_tables_is_refused(spark, days, schema, message):
    with pytest.raises(Exception, match=message):
        spark.read.format("delta").schema(schema).load(str(days)).count()


def test_a_missing_table_is_named_without_a_traceback(spark, tmp_path):
    with pytest.raises(Exception, match="TableNotFoundError") as caught:
        delta(spark, tmp_path / "nothing")
    assert "Traceback" not in str(caught.value)
    assert str(tmp_path / "nothing") in str(caught.value)


def test_a_missing_version_says_which_there_are(spark, days):
    with pytest.raises(Exception, match="VersionNotFoundError"):
        delta(spark, days, versionAsOf=17)


def test_a_missing_data_file_is_named(spark, tmp_path):
    write(tmp_path, pa.table({"id": [1, 2]}))
    loaded = delta(spark, tmp_path)
    victim = next(Path(tmp_path).glob("*.parquet"))
    victim.unlink()
    with pytest.raises(Exception, match=victim.name):
        loaded.collect()


def test_an_empty_table_has_columns_and_no_rows(spark, tmp_path):
    write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    assert delta(spark, tmp_path).columns == ["id"]
    assert delta(spark, tmp_path).collect() == []


def test_a_catalog_table_says_that_its_path_is_lost(spark, tmp_path):
    write(tmp_path, pa.table({"id": [1]}))
    spark.sql(f"CREATE TABLE pathless (id LONG) USING delta LOCATION '{tmp_path}'")
    disable(spark)
    try:
        with pytest.raises(Exception, match="got no path"):
            spark.table("pathless").collect()
    finally:
        enable(spark)
    assert spark.table("pathless").collect() == [(1,)]
    spark.sql("DROP TABLE pathless")


def test_a_temporary_view_keeps_its_path(spark, days):
    spark.sql(f"CREATE TEMPORARY VIEW days USING delta OPTIONS (path '{days}')")
    assert spark.sql("SELECT count(*) AS n FROM days WHERE day IS NULL").collect()[0].n == 10
    spark.catalog.dropTempView("days")


FILTERS = [
    ("day = DATE '2024-01-05'", 10),
    ("day > DATE '2024-01-05'", 10),
    ("day IS NULL", 10),
    ("day IS NOT NULL AND id >= 15", 5),
    ("id IN (1, 11, 21)", 3),
    ("NOT (id = 1)", 29),
    ("name LIKE 'name 9%'", 3),
    ("name LIKE '%9'", 3),
    ("id = 5 OR day IS NULL", 11),
    ("id <=> 7", 1),
]


@pytest.mark.parametrize(("condition", "rows"), FILTERS)
@pytest.mark.parametrize("pushed", ["true", "false"])
def test_a_filter_gives_the_same_rows_pushed_or_not(spark, days, condition, rows, pushed):
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    assert delta(session, days).where(condition).count() == rows


TYPED_FILTERS = [
    "long > 9007199254740992",
    "integer <= -5",
    "short = 7",
    "byte < 0",
    "float >= 1.5",
    "float = 0.1",
    "double = double('NaN')",
    "double > 1e300",
    "decimal = 12345678901234567890.123456789012345678",
    "decimal < 1",
    "boolean",
    "NOT boolean",
    "binary = X'00ff'",
    "date >= DATE'2024-01-05'",
    "timestamp = TIMESTAMP'2024-01-05 10:20:30.123456'",
    "timestamp > TIMESTAMP'2024-01-05 10:20:30.1234'",
    "timestamp_ntz = TIMESTAMP_NTZ'2024-01-05 10:20:30.123456'",
    "nested.a = 1",
    "nested.a IS NULL",
    "string = 'ä€'",
    "string >= 'z'",
    "string LIKE 'ä%'",
    "string IN ('ä€', NULL)",
    "string <=> NULL",
]


@pytest.mark.slow
def test_a_filter_option_on_every_type_gives_the_rows_that_sparks_where_gives(spark, tmp_path):
    """One file a row, so that a wrong bound would lose a row."""
    rows = spark.sql(
        """
        SELECT * FROM VALUES
          ('ä€', 9007199254740993L, -5, 7S, -8Y, 1.5F, double('NaN'),
           12345678901234567890.123456789012345678, true, X'00ff', DATE'2024-01-05',
           TIMESTAMP'2024-01-05 10:20:30.123456', TIMESTAMP_NTZ'2024-01-05 10:20:30.123456',
           named_struct('a', 1)),
          ('zz', 1L, 5, -7S, 8Y, float('0.1'), double('Infinity'), 0.000000000000000001, false,
           X'', DATE'1582-10-01', TIMESTAMP'1900-01-01 00:00:00', TIMESTAMP_NTZ'1900-01-01',
           named_struct('a', 2)),
          (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS t(string, long, integer, short, byte, float, double, decimal, boolean, binary, date,
             timestamp, timestamp_ntz, nested)
        """
    )
    for row in rows.collect():
        one = spark.createDataFrame([row], rows.schema).coalesce(1)
        one.write.format("delta").mode("append").save(str(tmp_path))
    expected = {c: sorted(rows.where(c).selectExpr("string").collect()) for c in TYPED_FILTERS}
    found = {
        c: sorted(delta(spark, tmp_path, filter=c).selectExpr("string").collect())
        for c in TYPED_FILTERS
    }
    assert found == expected


def test_files_that_the_filter_option_rules_out_are_not_opened(spark, tmp_path):
    for i in range(3):
        table = pa.table({"id": pa.array([i * 10, i * 10 + 9], pa.int64()), "p": [i, i]})
        write(tmp_path, table, mode="append", partition_by=["p"])
    for victim in Path(tmp_path, "p=0").glob("*.parquet"):
        victim.unlink()
    assert delta(spark, tmp_path, filter="p > 0").count() == 4
    assert delta(spark, tmp_path, filter="id >= 15").count() == 3
    with pytest.raises(Exception, match="is missing"):
        delta(spark, tmp_path).where("p > 0").count()


def test_a_filter_may_be_on_a_column_that_is_not_read(spark, days):
    read = spark.read.format("delta").schema("name string").option("filter", "id >= 28")
    assert sorted(r.name for r in read.load(str(days)).collect()) == ["name 8", "name 9"]


def test_a_null_partition_is_no_row_of_a_comparison(spark, days):
    assert delta(spark, days, filter="day <> DATE '2024-01-05'").count() == 10
    assert delta(spark, days, filter="day IS NULL").count() == 10


def test_a_filter_that_names_no_column_says_so(spark, days):
    with pytest.raises(Exception, match=r"PredicateError.*dya"):
        delta(spark, days, filter="dya IS NULL").count()


def test_one_load_under_several_filters_loses_no_rows(spark, days):
    """Spark 4.3 keeps the plan of the latest pushed filters for every query of a load."""
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    loaded = delta(session, days)
    assert loaded.where("id = 1").count() == 1
    assert loaded.count() == 30
    one, other = loaded.where("id = 1"), loaded.where("id = 21")
    assert sorted(r.id for r in one.union(other).collect()) == [1, 21]


def test_pushed_filters_skip_files_where_a_load_promises_to_serve_one_query(spark, days):
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for condition in ("id = 1", "id > 12 AND name <> 'name 3'", "day = DATE'2024-01-06'"):
        loaded = delta(session, days, pushFilters="true").where(condition)
        assert loaded.count() == delta(session, days).where(condition).count() > 0


def test_a_pushed_filter_leaves_out_the_files_that_can_not_match(tmp_path):
    for i in range(3):
        write(tmp_path, pa.table({"id": pa.array([i], pa.int64())}), mode="append")
    source = DeltaDataSource({"path": str(tmp_path), "pushFilters": "true"})
    reader = source.reader(source.schema())
    assert list(reader.pushFilters([EqualTo(("id",), 1)])) == [EqualTo(("id",), 1)]
    files = [part for p in reader.partitions() for part in p.file_parts]
    assert len(files) == 1


@pytest.fixture
def many_files(tmp_path, monkeypatch):
    """A table with a checkpoint of three row groups, taken for a large one."""
    for i in range(30):
        write(tmp_path, pa.table({"id": pa.array([i], pa.int64()), "p": [i % 3]}), mode="append")
    deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    (checkpoint,) = Path(tmp_path, "_delta_log").glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint), checkpoint, row_group_size=15)
    write(tmp_path, pa.table({"id": pa.array([30], pa.int64()), "p": [0]}), mode="append")
    monkeypatch.setattr(batch, "LARGE_CHECKPOINT_BYTES", 1000)
    monkeypatch.setattr(batch, "SLICE_BYTES", 1000)
    return tmp_path


def planned(path, **options):
    source = DeltaDataSource({"path": str(path)} | {k: str(v) for k, v in options.items()})
    reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
    task = pickle.loads(pickle.dumps(reader))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    batches = [batch for partition in partitions for batch in task.read(partition)]
    return partitions, sorted(i for batch in batches for i in batch.column("id").to_pylist())


def test_tasks_replay_slices_of_a_large_log(many_files):
    partitions, ids = planned(many_files, minPartitions=3)
    assert {type(p) for p in partitions} == {SlicePartition}
    assert len(partitions) > 2
    assert ids == list(range(31))
    name = "spark.databricks.delta.v2.distributedLogReplay.numPartitions"
    fewer, ids = planned(many_files, minPartitions=2, **{name: "2"})
    assert {type(p) for p in fewer} == {SlicePartition}
    assert 2 <= len(fewer) < len(partitions)
    assert ids == list(range(31))


def test_settings_of_log_replay_apply_to_logs_of_any_size(days):
    partitions, ids = planned(days)
    assert {type(p) for p in partitions} == {FilesPartition}
    for options in ({"bayou.replay.numPartitions": 1}, {"bayou.replay.localBytes": 0}):
        slices, replayed = planned(days, minPartitions=1, **options)
        assert {type(p) for p in slices} == {SlicePartition}
        assert replayed == ids
    partitions, replayed = planned(days, **{"bayou.replay.localBytes": 1 << 30})
    assert {type(p) for p in partitions} == {FilesPartition}
    assert replayed == ids


def test_a_large_log_that_cannot_be_cut_is_replayed_once_by_the_planner(many_files):
    partitions, ids = planned(many_files, minPartitions=50)
    assert {type(p) for p in partitions} == {FilesPartition}
    assert ids == list(range(31))


def test_a_filter_that_leaves_few_files_of_a_large_log_plans_them_by_bytes(many_files):
    partitions, ids = planned(many_files, filter="id > 27")
    assert {type(p) for p in partitions} == {FilesPartition}
    assert ids == [28, 29, 30]


def test_a_filter_that_leaves_many_files_prunes_inside_of_the_slices(many_files, monkeypatch):
    monkeypatch.setattr(batch, "MAX_PLANNED_FILES", 2)
    partitions, ids = planned(many_files, minPartitions=3, filter="id > 20")
    assert {type(p) for p in partitions} == {SlicePartition}
    assert ids == list(range(21, 31))


@pytest.mark.slow
def test_small_files_share_a_task_and_a_big_one_is_cut(spark, tmp_path):
    small = tmp_path / "small"
    for i in range(12):
        write(small, pa.table({"id": [i]}), mode="append")
    assert delta(spark, small).rdd.getNumPartitions() <= 2

    big = tmp_path / "big"
    table = pa.table({"id": pa.array(range(200_000), pa.int64())})
    properties = deltalake.WriterProperties(max_row_group_size=10_000, compression="UNCOMPRESSED")
    write(big, table, writer_properties=properties)
    cut = delta(spark, big, maxPartitionBytes=256 * 1024)
    assert cut.rdd.getNumPartitions() > 3
    assert cut.selectExpr("count(*) n", "count(distinct id) d", "max(id) m").collect() == [
        (200_000, 200_000, 199_999)
    ]


def test_columns_that_a_file_lacks_are_null(spark, tmp_path):
    write(tmp_path, pa.table({"id": [1]}))
    write(tmp_path, pa.table({"id": [2], "extra": ["x"]}), mode="append", schema_mode="merge")
    rows = delta(spark, tmp_path).orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(1, None), (2, "x")]


def test_a_join_reads_two_tables_at_once(spark, tmp_path, days):
    write(tmp_path, pa.table({"id": pa.array([3, 13, 99], pa.int64()), "x": ["a", "b", "c"]}))
    joined = delta(spark, days).join(delta(spark, tmp_path), "id")
    assert sorted((r.id, r.x) for r in joined.collect()) == [(3, "a"), (13, "b")]


def test_not_null_columns_stay_not_null(spark, tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.string())])
    write(tmp_path, pa.table({"id": [1], "x": ["a"]}, schema=schema))
    read = delta(spark, tmp_path)
    assert [f.nullable for f in read.schema.fields] == [False, True]
    assert read.collect() == [(1, "a")]


def test_statistics_do_not_travel_to_the_tasks(spark, days):
    source = DeltaDataSource({"path": str(days)})
    reader = source.reader(source.schema())
    file_parts = [part for p in reader.partitions() for part in p.file_parts]
    assert len(file_parts) == 3
    assert not any(b"minValues" in data for data, _, _ in file_parts)
    logs = [json.loads(line) for line in _lines(days)]
    assert any("minValues" in (line.get("add", {}).get("stats") or "") for line in logs)


def _lines(path):
    for log in sorted(Path(path, "_delta_log").glob("*.json")):
        yield from log.read_text().splitlines()


def test_variants_deleted_rows_and_renamed_columns_are_read(spark, tmp_path):
    log = LogWriter(ArrowEngine(), str(tmp_path / "t"))
    variant = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x07"}
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    data = pa.table({"col-1": [1, 2, 3], "col-2": pa.array([variant] * 3, kind)})
    pq.write_table(data, f"{log.table}/f")
    mapping = {"delta.columnMapping.mode": "name"}
    head = dict(metadata({}, (), mapping)["metaData"])
    fields = [("number", "long", 1), ("doc", "variant", 2)]
    head["schemaString"] = json.dumps(
        {
            "type": "struct",
            "fields": [
                {
                    "name": name,
                    "type": data_type,
                    "nullable": True,
                    "metadata": {
                        "delta.columnMapping.id": i,
                        "delta.columnMapping.physicalName": f"col-{i}",
                    },
                }
                for name, data_type, i in fields
            ],
        }
    )
    names = ["columnMapping", "deletionVectors", "variantType"]
    file = add("f", size=1, vector=inline_vector([1]), stats={"numRecords": 3})
    log.commit(protocol(3, 7, (names, names)), {"metaData": head}, file)
    found = spark.read.format("delta").load(log.table).selectExpr("number", "to_json(doc) AS doc")
    assert sorted(tuple(row) for row in found.collect()) == [(1, '{"a":7}'), (3, '{"a":7}')]


@pytest.mark.parametrize("changes", [False, True])
def test_the_option_filter_reads_times_in_the_session_s_zone(spark, tmp_path, changes):
    path = str(tmp_path / "times")
    at = dt.datetime(2024, 1, 5, 3, tzinfo=dt.UTC)
    bayou.write(
        path,
        pa.table({"ts": pa.array([at], pa.timestamp("us", "UTC"))}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    reader = spark.read.format("delta")
    if changes:
        reader = reader.options(readChangeFeed="true", startingVersion="0", endingVersion="0")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert reader.option("filter", "ts < '2024-01-05'").load(path).count() == 1
        with pytest.raises(Exception, match="Compare the column with timestamps"):
            reader.option("filter", "ts < DATE'2024-01-05'").load(path).count()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
