"""PROTOCOL.md, Checkpoints (stats, stats_parsed, partitionValues_parsed), Per-file Statistics."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.engines.arrow import ArrowEngine
from bayou.kernel import LogSlice, Scan, Snapshot
from bayou.kernel.checkpoint import add_files
from bayou.kernel.checkpoint.parsed_stats import full_stats_type, stats_to_json
from bayou.kernel.checkpoint.write import checkpoint
from bayou.protocol.schema import StructType
from support.log_writer import LogWriter, add, metadata, protocol, remove

COLUMNS = {
    "id": "long",
    "small": "integer",
    "name": "string",
    "on": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "price": "decimal(10,2)",
    "ratio": "double",
    "short": "float",
    "p": "string",
}
PARSED = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("name", pa.string()),
        ("on", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("short", pa.float32()),
    ]
)
FIELD = {"type": "long", "nullable": True, "metadata": {}}
COUNTS = pa.struct([(f.name, pa.int64()) for f in PARSED])
ADD_FIELDS = pa.struct(
    [
        pa.field("partitionValues_parsed", pa.struct([pa.field("p", pa.string())])),
        pa.field(
            "stats_parsed",
            pa.struct(
                [
                    pa.field("numRecords", pa.int64()),
                    pa.field("minValues", PARSED),
                    pa.field("maxValues", PARSED),
                    pa.field("nullCount", COUNTS),
                ]
            ),
        ),
    ]
)
STRUCT_ONLY = {
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
}


def bounds(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "small": n,
        "name": f"n{n}",
        "on": dt.date(2024, 1, 1 + n),
        "at": dt.datetime(2024, 1, 1 + n, tzinfo=dt.UTC),
        "local": dt.datetime(2024, 1, 1 + n),  # without zone
        "price": Decimal(n) / 4,
        "ratio": n / 10,
        "short": n / 2,
    }


def entry(path: str, n: int, *, text: bool, struct: bool) -> dict[str, Any]:
    stats = {"numRecords": 1, "nullCount": dict.fromkeys(COUNTS.names, 0)}
    both = {**stats, "minValues": bounds(n), "maxValues": bounds(n)}
    fields: dict[str, Any] = {"partitionValues_parsed": {"p": path}}
    if struct:
        fields["stats_parsed"] = both
    plain = None
    if text:
        readable = {"id": n, "small": n, "name": f"n{n}"}
        plain = {**stats, "minValues": readable, "maxValues": readable}
    return add(path, partition_values={"p": path}, stats=plain, **fields)


def write(log: LogWriter, *, text: bool, struct: bool, properties: dict[str, str]) -> None:
    head = (protocol(), metadata(COLUMNS, ["p"], properties))
    log.checkpoint(
        1,
        [*head, *(entry(p, n, text=text, struct=struct) for n, p in enumerate("abcd"))],
        parsed=ADD_FIELDS,
        row_group_size=3,
    )
    log.commit(remove("d"), version=2)


def kept(log: LogWriter, filter: str) -> str:
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_filter(filter).build()
    return "".join(f.path for b in scan.scan_files(log.engine) for f in b.rows())


@pytest.mark.parametrize("properties", [{}, STRUCT_ONLY], ids=["json expected", "struct expected"])
@pytest.mark.parametrize(
    ("text", "struct"), [(True, False), (False, True), (True, True)], ids=["json", "struct", "both"]
)
def test_files_are_skipped_by_statistics_in_either_form(log, text, struct, properties):
    write(log, text=text, struct=struct, properties=properties)
    assert kept(log, "id = 1") == "b"
    assert kept(log, "small >= 1 AND name < 'n2'") == "b"
    assert kept(log, "p = 'c' OR id = 0") == "ac"
    assert kept(log, "p IN ('a', 'b') AND id = 1") == "b"


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("`on` = DATE '2024-01-02'", "b"),
        ("at >= TIMESTAMP '2024-01-02 12:00:00'", "c"),
        ("local < TIMESTAMP_NTZ '2024-01-02 00:00:00'", "a"),
        ("price = 0.25", "b"),
        ("ratio > 0.15", "c"),
        ("short = 0.5", "b"),
    ],
)
def test_every_type_of_bound_is_used_as_a_column(log, filter, expected):
    write(log, text=False, struct=True, properties=STRUCT_ONLY)
    assert kept(log, filter) == expected


@pytest.mark.parametrize("properties", [{}, STRUCT_ONLY], ids=["json expected", "struct expected"])
def test_without_statistics_every_file_is_kept(log, properties):
    write(log, text=False, struct=False, properties=properties)
    assert kept(log, "id = 1") == "abc"
    assert kept(log, "id = 1 AND p = 'c'") == "c"


def test_statistics_of_a_column_that_had_another_type_then_keep_the_file(log):
    nested = {"type": "struct", "fields": [{**FIELD, "name": "x"}]}
    head = (protocol(), metadata({**COLUMNS, "id": nested}, ["p"], STRUCT_ONLY))
    log.checkpoint(1, [*head, entry("a", 1, text=False, struct=True)], parsed=ADD_FIELDS)
    assert kept(log, "id.x = 7") == "a"


def test_a_worker_knows_the_form_too(log):
    write(log, text=False, struct=True, properties=STRUCT_ONLY)
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_filter("id = 1").build()
    worker = Scan.from_bytes(scan.to_bytes())
    parts = [LogSlice.from_bytes(p.to_bytes()) for p in scan.slices(log.engine, 2)]
    found = [f.path for p in parts for b in worker.replay_slice(log.engine, p) for f in b.rows()]
    assert found == ["b"]


def test_statistics_that_are_columns_become_text_for_who_asks_for_them(log):
    write(log, text=False, struct=True, properties=STRUCT_ONLY)
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_statistics().build()
    files = [f for b in scan.scan_files(log.engine) for f in b.rows()]
    assert [f.num_records for f in files] == [1, 1, 1]
    stats = json.loads(files[1].add.stats or "")
    assert stats["minValues"] == {
        "id": 1,
        "small": 1,
        "name": "n1",
        "on": "2024-01-02",
        "at": "2024-01-02T00:00:00.000000Z",
        "local": "2024-01-02T00:00:00.000000",
        "price": 0.25,
        "ratio": 0.1,
        "short": 0.5,
    }
    assert stats["nullCount"] == dict.fromkeys(COUNTS.names, 0)


def test_a_checkpoint_built_on_statistics_that_are_columns_loses_none(log):
    write(log, text=False, struct=True, properties={})
    checkpoint(log.engine, log.table)
    assert kept(log, "id = 1") == "b"
    assert kept(log, "at >= TIMESTAMP '2024-01-02 12:00:00'") == "c"


@pytest.mark.parametrize("struct", [False, True], ids=["json", "struct"])
def test_statistics_after_files_without_statistics_are_read_and_copied(log, monkeypatch, struct):
    monkeypatch.setattr(add_files, "_BATCH_ROWS", 1)
    head = (protocol(), metadata(COLUMNS, ["p"]))
    without = entry("a", 0, text=False, struct=False)
    others = [entry(p, n, text=not struct, struct=struct) for n, p in enumerate("bcd", 1)]
    log.checkpoint(1, [*head, without, *others], parsed=ADD_FIELDS, row_group_size=3)
    log.commit(remove("d"), version=2)
    assert kept(log, "id = 1") == "ab"
    checkpoint(log.engine, log.table)
    assert kept(log, "id = 1") == "ab"
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_statistics().build()
    files = [f for b in scan.scan_files(log.engine) for f in b.rows()]
    assert [f.num_records for f in files] == [None, 1, 1]


SCHEMA = StructType.from_json(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": 'odd "name" \\ é', "type": "string", "nullable": True, "metadata": {}},
                {"name": "ratio", "type": "double", "nullable": True, "metadata": {}},
                {
                    "name": "in",
                    "type": {
                        "type": "struct",
                        "fields": [
                            {"name": "x", "type": "long", "nullable": True, "metadata": {}},
                            {"name": "flag", "type": "boolean", "nullable": True, "metadata": {}},
                        ],
                    },
                    "nullable": True,
                    "metadata": {},
                },
            ],
        }
    )
)
LEAVES = st.fixed_dictionaries(
    {
        'odd "name" \\ é': st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "ratio": st.none() | st.floats(),
        "in": st.none()
        | st.fixed_dictionaries({"x": st.none() | st.integers(-(2**63), 2**63 - 1)}),
    }
)
STATS = st.none() | st.fixed_dictionaries(
    {
        "numRecords": st.none() | st.integers(0, 2**40),
        "minValues": st.none() | LEAVES,
        "maxValues": st.none() | LEAVES,
        "nullCount": st.none() | st.just({"in": {"x": 1, "flag": 2}}),
        "tightBounds": st.none() | st.booleans(),
    }
)


@given(st.lists(STATS, min_size=1, max_size=5))
def test_text_made_of_columns_reads_back_as_the_columns(rows):
    kind: Any = full_stats_type(SCHEMA)
    columns: Any = pa.array(rows, kind)
    texts = stats_to_json(columns)
    assert texts.null_count == columns.null_count
    schema = pa.schema(list(kind))
    back = ArrowEngine().json.parse_json(texts, schema)
    assert repr(back.to_pylist()) == repr([_plain(row, kind) for row in columns.to_pylist()])


def _plain(row: Any, kind: Any) -> Any:
    """A struct that is null reads back as one where the text leaves it out."""
    return row if row is not None else {f.name: None for f in kind}
