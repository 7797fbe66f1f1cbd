"""Scans: pruning by partition values and statistics, columns, refusals, and their bytes."""

from __future__ import annotations

from typing import Any

import pytest

from bayou.errors import (
    CorruptTableError,
    PredicateError,
    SchemaError,
    SerializationError,
    UnsupportedFeatureError,
)
from bayou.kernel import LogSlice, Scan, ScanBuilder, Snapshot, col
from bayou.protocol.schema import INTEGER, LONG, STRING, StructField, StructType
from support.log_writer import (
    LogWriter,
    WireAction,
    add,
    metadata,
    protocol,
    remove,
)

HEAD = (protocol(), metadata({"day": "date", "id": "long", "name": "string"}, ["day"]))
ROW_TRACKING = {"delta.enableRowTracking": "true"}


def part(path: str, day: str | None, low: int, high: int, **fields: Any) -> WireAction:
    stats = {
        "numRecords": 10,
        "minValues": {"id": low},
        "maxValues": {"id": high},
        "nullCount": {"id": 0},
    }
    return add(path, partition_values={"day": day}, stats=stats, **fields)


FILES = [
    part("a", "2024-01-01", 0, 9),
    part("b", "2024-01-01", 10, 19),
    part("c", "2024-01-02", 0, 9),
    part("d", None, 20, 29),
    add("e", partition_values={"day": "2024-01-03"}),
]


@pytest.fixture(params=["commits", "checkpoint", "both", "parts"])
def table(request, log: LogWriter) -> LogWriter:
    """The same files, out of commits, a checkpoint, or both."""
    log.commit(*HEAD)
    log.commit(*FILES[:3], part("gone", "2024-01-01", 0, 9))
    if request.param != "commits":
        actions = [*HEAD, *FILES[:3], part("gone", "2024-01-01", 0, 9)]
        if request.param != "both":
            actions += FILES[3:]
        parts = 3 if request.param == "parts" else None
        log.checkpoint(1, actions, parts=parts, row_group_size=2)
    log.commit(*(() if request.param in ("checkpoint", "parts") else FILES[3:]), remove("gone"))
    return log


def builder(log: LogWriter) -> ScanBuilder:
    return Snapshot.load(log.engine, log.table).scan_builder()


def paths(log: LogWriter, scan: Scan) -> list[str]:
    return sorted(f.path for batch in scan.scan_files(log.engine) for f in batch.rows())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day = '2024-01-01'", "ab"),
        ("day > '2024-01-01'", "ce"),
        ("day IS NULL", "d"),
        ("day IS NOT NULL", "abce"),
        ("day IN ('2024-01-02', '2024-01-03')", "ce"),
        ("id = 5", "ace"),
        ("id >= 20", "de"),
        ("id IS NULL", "e"),
        ("id > 1000", "e"),
        ("day = '2024-01-01' AND id < 10", "ae"[:1]),
        ("day = '2024-01-02' OR id = 25", "cde"),
        ("NOT (day = '2024-01-01')", "ce"),
        ("day = '1999-01-01'", ""),
        ("name = 'x'", "abcde"),
    ],
)
def test_only_files_that_may_hold_a_matching_row_are_scanned(table, text, expected):
    assert paths(table, builder(table).with_filter(text).build()) == list(expected)


def test_without_a_filter_every_live_file_is_scanned(table):
    assert paths(table, builder(table).build()) == list("abcde")


@pytest.mark.parametrize("max_slices", [None, 1, 3, 100])
def test_slices_replayed_elsewhere_give_the_same_files(table, max_slices):
    scan = builder(table).with_filter("day = '2024-01-01' OR id >= 20").build()
    slices = [s.to_bytes() for s in scan.slices(table.engine, max_slices)]
    copy = Scan.from_bytes(scan.to_bytes())
    found = [
        f.path
        for data in slices
        for batch in copy.replay_slice(table.engine, LogSlice.from_bytes(data))
        for f in batch.rows()
    ]
    assert sorted(found) == ["a", "b", "d", "e"]
    assert copy.remaining_filter is not None
    assert copy.scan_state(table.engine) == scan.scan_state(table.engine)


def test_a_filter_on_partition_columns_leaves_nothing_to_be_applied(table):
    assert builder(table).with_filter("day = '2024-01-01'").build().remaining_filter is None
    scan = builder(table).with_filter("day = '2024-01-01' AND id = 5").build()
    assert str(scan.remaining_filter) == str(
        builder(table).with_filter("id = 5").build().remaining_filter
    )


def test_a_predicate_is_a_filter_as_text_is(table):
    assert paths(table, builder(table).with_filter(col("id") >= 20).build()) == ["d", "e"]


def test_a_builder_is_not_changed_by_its_methods(table):
    plain = builder(table)
    plain.with_filter("id = 5").with_read_schema(StructType()).with_statistics()
    assert plain.build().remaining_filter is None


def test_statistics_come_along_when_asked_for_or_needed(table):
    def counts(scan: Scan) -> set[int | None]:
        return {f.num_records for b in scan.scan_files(table.engine) for f in b.rows()}

    assert counts(builder(table).with_statistics().build()) == {10, None}
    assert counts(builder(table).with_filter("id < 10").build()) == {10, None}


def test_the_size_of_the_checkpoint_is_known_before_it_is_read(table):
    segment = Snapshot.load(table.engine, table.table).log_segment
    expected = 0 if segment.checkpoint is None else segment.checkpoint.size
    assert builder(table).build().checkpoint_bytes == expected


def test_the_read_schema_chooses_columns_and_their_order(table):
    schema = StructType(
        (StructField(name="name", data_type=STRING), StructField(name="id", data_type=LONG))
    )
    scan = builder(table).with_read_schema(schema).build()
    assert scan.scan_state(table.engine).logical_schema.names == ("name", "id")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField(name="nmae", data_type=STRING), "no column 'nmae'; it has day, id, name"),
        (StructField(name="NAME", data_type=STRING), "no column 'NAME'"),
        (StructField(name="id", data_type=INTEGER), "has type long and can't be read as integer"),
    ],
)
def test_a_read_schema_that_does_not_fit_is_refused(table, field, message):
    with pytest.raises(SchemaError, match=message) as caught:
        builder(table).with_read_schema(StructType((field,))).build()
    assert caught.value.column == field.name


@pytest.mark.parametrize("text", ["nope = 1", "id ===", "id = 'x'"])
def test_a_filter_that_makes_no_sense_is_refused_when_the_scan_is_built(table, text):
    with pytest.raises(PredicateError):
        builder(table).with_filter(text).build()


def test_a_removed_file_may_have_a_partition_value_of_an_earlier_type(log):
    earlier = (protocol(), metadata({"day": "string", "id": "long"}, ["day"]))
    old = add("old", partition_values={"day": "yesterday"})
    log.commit(*earlier, old)
    log.checkpoint(0, [*earlier, old])
    log.commit(HEAD[1], remove("old"), part("new", "2024-01-01", 0, 9))
    for text in ("day = '2024-01-01'", "day > '2023-01-01' AND id > 3"):
        assert paths(log, builder(log).with_filter(text).build()) == ["new"]


def test_a_partition_value_that_is_not_of_its_type_is_named(log):
    log.commit(*HEAD, add("a", partition_values={"day": "yesterday"}))
    with pytest.raises(CorruptTableError, match="partition column 'day'.*yesterday") as caught:
        paths(log, builder(log).with_filter("day = '2024-01-01'").build())
    assert caught.value.table == log.table


def test_statistics_that_are_not_json_are_named(log):
    log.commit(*HEAD, add("a", stats="{oops"))
    with pytest.raises(CorruptTableError, match="statistics in the log aren't JSON"):
        paths(log, builder(log).with_filter("id = 1").build())


def test_an_unknown_metadata_column_is_refused(table):
    with pytest.raises(SchemaError, match=r"_metadata.row_index") as caught:
        builder(table).with_metadata_columns(["_metadata.size"]).build()
    assert caught.value.column == "_metadata.size"


def test_row_ids_need_row_tracking(table):
    with pytest.raises(UnsupportedFeatureError, match="delta.enableRowTracking") as caught:
        builder(table).with_metadata_columns(["_metadata.row_id"]).build()
    assert caught.value.features == ("rowTracking",)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x93\x01\x02\x03"])
def test_bytes_that_are_no_scan_or_slice_are_refused(data):
    with pytest.raises(SerializationError, match="aren't a scan"):
        Scan.from_bytes(data)
    with pytest.raises(SerializationError, match="aren't a log slice"):
        LogSlice.from_bytes(data)
