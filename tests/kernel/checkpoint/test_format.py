"""PROTOCOL.md, Checkpoints: statistics and partition values as columns, where a table says so."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.errors import TablePropertyError, UnsupportedFeatureError
from bayou.kernel import ByteRange, Snapshot
from bayou.kernel.checkpoint.write import checkpoint
from support.log_writer import LogWriter, add, metadata, protocol

JSON, STRUCT = "delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"
FIELDS: dict[str, Any] = {
    "id": "long",
    "f": "float",
    "day": "date",
    "at": "timestamp",
    "price": "decimal(10,2)",
    "flag": "boolean",
    "nested": {
        "type": "struct",
        "fields": [{"name": "s", "type": "string", "nullable": True, "metadata": {}}],
    },
    "p": "integer",
    "q": "date",
}
STATS = {
    "numRecords": 3,
    "minValues": {
        "id": 1,
        "f": 0.5,
        "day": "2024-01-05",
        "at": "2024-01-05T10:00:00.123Z",
        "price": 1.25,
        "nested": {"s": "a"},
    },
    "maxValues": {
        "id": 9,
        "f": "NaN",
        "day": "2024-02-05",
        "at": "2024-02-05T10:00:00.123Z",
        "price": 99.5,
        "nested": {"s": "z"},
    },
    "nullCount": {"id": 0, "f": 1, "flag": 2, "nested": {"s": 0}},
}


def table(log: LogWriter, *, as_json: bool, as_struct: bool, **further: str) -> None:
    configuration = {JSON: str(as_json).lower(), STRUCT: str(as_struct).lower(), **further}
    log.commit(
        protocol(),
        metadata(FIELDS, ["p", "q"], configuration),
        add("a", partition_values={"p": "7", "q": "2024-01-05"}, stats=STATS),
        add("b", partition_values={"p": None, "q": "no date"}),
    )


def adds(log: LogWriter, version: int = 0) -> tuple[pa.StructType, list[dict[str, Any]]]:
    name = f"{version:020d}.checkpoint.parquet"
    (data,) = log.engine.files.read_files([ByteRange(path=log.path(name))])
    column = pq.read_table(io.BytesIO(data)).column("add")
    rows = [row for row in column.to_pylist() if row is not None]
    return column.type, sorted(rows, key=lambda row: row["path"])


def names(kind: pa.StructType) -> set[str]:
    return {kind.field(i).name for i in range(kind.num_fields)}


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("as_struct", [True, False])
def test_the_properties_say_in_which_form_statistics_stand(log, as_json, as_struct):
    table(log, as_json=as_json, as_struct=as_struct)
    checkpoint(log.engine, log.table)
    kind, rows = adds(log)
    assert ("stats" in names(kind)) == as_json
    assert ({"stats_parsed", "partitionValues_parsed"} <= names(kind)) == as_struct
    assert len(rows) == 2
    if as_json:
        assert json.loads(rows[0]["stats"]) == STATS
        assert rows[1]["stats"] is None


def test_columns_have_the_types_of_the_table(log):
    table(log, as_json=False, as_struct=True)
    checkpoint(log.engine, log.table)
    _, (first, second) = adds(log)
    found = first["stats_parsed"]
    assert found["numRecords"] == 3
    assert found["minValues"] == {
        "id": 1,
        "f": 0.5,
        "day": dt.date(2024, 1, 5),
        "at": dt.datetime(2024, 1, 5, 10, 0, 0, 123000, dt.UTC),
        "price": Decimal("1.25"),
        "nested": {"s": "a"},
    }
    assert str(found["maxValues"]["f"]) == "nan"
    assert found["nullCount"]["flag"] == 2
    assert first["partitionValues_parsed"] == {"p": 7, "q": dt.date(2024, 1, 5)}
    assert second["stats_parsed"] is None
    assert second["partitionValues_parsed"] == {"p": None, "q": None}


def test_only_columns_with_statistics_have_a_column(log):
    further = {"delta.dataSkippingStatsColumns": "price, nested.s"}
    table(log, as_json=False, as_struct=True, **further)
    checkpoint(log.engine, log.table)
    _, (first, _) = adds(log)
    assert set(first["stats_parsed"]["minValues"]) == {"price", "nested"}


def test_only_the_first_columns_have_one(log):
    table(log, as_json=False, as_struct=True, **{"delta.dataSkippingNumIndexedCols": "2"})
    checkpoint(log.engine, log.table)
    _, (first, _) = adds(log)
    assert set(first["stats_parsed"]["minValues"]) == {"id", "f"}


def test_one_form_becomes_the_other_from_checkpoint_to_checkpoint(log):
    table(log, as_json=False, as_struct=True)
    checkpoint(log.engine, log.table)
    log.delete(f"{0:020d}.json")
    log.commit(metadata(FIELDS, ["p", "q"], {}), version=1)
    checkpoint(log.engine, log.table)
    kind, (first, _) = adds(log, 1)
    assert "stats_parsed" not in names(kind)
    again = json.loads(first["stats"])
    assert again["minValues"]["id"] == 1
    assert again["maxValues"]["f"] == "NaN"
    log.commit(metadata(FIELDS, ["p", "q"], {JSON: "false", STRUCT: "true"}))
    checkpoint(log.engine, log.table)
    _, (first, _) = adds(log, 2)
    assert first["stats_parsed"]["minValues"]["price"] == Decimal("1.25")
    log.commit(add("c"))
    checkpoint(log.engine, log.table)
    _, (first, _, _) = adds(log, 3)
    assert first["stats_parsed"]["minValues"]["day"] == dt.date(2024, 1, 5)


def test_files_are_skipped_by_columns_as_by_text(log):
    table(log, as_json=False, as_struct=True)
    checkpoint(log.engine, log.table)
    log.delete(f"{0:020d}.json")
    snapshot = Snapshot.load(log.engine, log.table)
    for condition, expected in (("id = 5", ["a", "b"]), ("id = 50", ["b"]), ("p = 8", [])):
        scan = snapshot.scan_builder().with_filter(condition).build()
        found = sorted(f.path for b in scan.scan_files(log.engine) for f in b.rows())
        assert found == expected


def test_statistics_that_are_no_json_are_none(log):
    log.commit(
        protocol(), metadata({"id": "long"}, (), {STRUCT: "true"}), add("a", stats="nonsense")
    )
    checkpoint(log.engine, log.table)
    _, (first,) = adds(log)
    assert (first["stats"], first["stats_parsed"]) == ("nonsense", None)


def test_dates_that_are_none_are_null(log):
    stats = {"numRecords": 1, "minValues": {"d": "+10000-01-01"}, "maxValues": {"d": "2024-01-01"}}
    log.commit(protocol(), metadata({"d": "date"}, (), {STRUCT: "true"}), add("a", stats=stats))
    checkpoint(log.engine, log.table)
    _, (first,) = adds(log)
    assert first["stats_parsed"]["minValues"] == {"d": None}
    assert first["stats_parsed"]["maxValues"] == {"d": dt.date(2024, 1, 1)}


def test_a_feature_that_is_not_known_is_refused(log):
    log.commit(protocol(1, 7, ([], ["rune"])), metadata({"id": "long"}))
    with pytest.raises(UnsupportedFeatureError, match="rune"):
        checkpoint(log.engine, log.table)


def test_a_property_that_cannot_be_read_is_named(log):
    log.commit(protocol(), metadata({"id": "long"}, (), {STRUCT: "perhaps"}))
    with pytest.raises(TablePropertyError, match="writeStatsAsStruct"):
        checkpoint(log.engine, log.table)
