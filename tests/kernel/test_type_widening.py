"""Files that are older than their column's type, and values in the log that are."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.errors import DataFileError, UnsupportedFeatureError
from bayou.kernel import Snapshot, Table
from support.examples import examples
from support.log_writer import LogWriter, add, metadata, protocol


@pytest.fixture
def log(tmp_path) -> LogWriter:
    return LogWriter(ArrowEngine(), str(tmp_path / "t"))


def head(kind, *changes, feature="typeWidening", partition_columns=(), field_path=None):
    """A table of one column `v` that has changed its type."""
    history = [{"fromType": before, "toType": after} for before, after in changes]
    if field_path is not None:
        history = [{**change, "fieldPath": field_path} for change in history]
    field = {"name": "v", "type": kind, "nullable": True}
    field["metadata"] = {"delta.typeChanges": history}
    other = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    action = dict(metadata({}, partition_columns)["metaData"])
    action["schemaString"] = json.dumps({"type": "struct", "fields": [field, other]})
    return protocol(3, 7, ([feature], [feature])), {"metaData": action}


def write(log, name, values):
    pq.write_table(pa.table({"v": values, "id": list(range(len(values)))}), f"{log.table}/{name}")


def rows(log, **options):
    return TableHandle(log.engine, Table.for_path(log.engine, log.table)).to_arrow(**options)


CASES = [
    ("byte", pa.array([-128, 127], pa.int8()), "short", [-128, 127]),
    ("byte", pa.array([1, None], pa.int8()), "long", [1, None]),
    ("integer", pa.array([-(1 << 31)], pa.int32()), "long", [-(1 << 31)]),
    ("float", pa.array([0.1], pa.float32()), "double", [0.10000000149011612]),
    ("integer", pa.array([(1 << 31) - 1], pa.int32()), "double", [2147483647.0]),
    ("short", pa.array([7], pa.int16()), "decimal(12,2)", [Decimal("7.00")]),
    ("long", pa.array([(1 << 63) - 1]), "decimal(22,2)", [Decimal((1 << 63) - 1)]),
    (
        "decimal(4,1)",
        pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
        "decimal(10,3)",
        [Decimal("1.500")],
    ),
    ("date", pa.array([dt.date(1500, 2, 3)]), "timestamp_ntz", [dt.datetime(1500, 2, 3)]),
]


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
@pytest.mark.parametrize(("before", "values", "after", "expected"), CASES)
def test_values_of_the_narrower_type_are_read_in_the_wider(
    log, feature, before, values, after, expected
):
    write(log, "f", values)
    log.commit(*head(after, (before, after), feature=feature), add("f"))
    assert rows(log).column("v").to_pylist() == expected


@pytest.mark.parametrize(("before", "values", "after", "expected"), CASES)
def test_elements_keys_and_fields_are_widened_too(log, before, values, after, expected):
    if any(value is None for value in expected):
        values, expected = values.drop_null(), [v for v in expected if v is not None]
    nested = pa.array(
        [[{"x": v} for v in values.to_pylist()]], pa.list_(pa.struct([("x", values.type)]))
    )
    write(log, "f", nested)
    inner = {
        "type": "struct",
        "fields": [
            {
                "name": "x",
                "type": after,
                "nullable": True,
                "metadata": {"delta.typeChanges": [{"fromType": before, "toType": after}]},
            }
        ],
    }
    kind = {"type": "array", "elementType": inner, "containsNull": True}
    log.commit(*head(kind), add("f"))
    assert rows(log).column("v").to_pylist() == [[{"x": v} for v in expected]]


@pytest.mark.parametrize(
    ("before", "text", "after", "value"),
    [
        ("byte", "7", "long", 7),
        ("integer", "7", "decimal(12,2)", Decimal("7.00")),
        ("decimal(4,1)", "1.5", "decimal(10,3)", Decimal("1.500")),
        ("integer", "7", "double", 7.0),
        ("date", "2024-02-29", "timestamp_ntz", dt.datetime(2024, 2, 29)),
    ],
)
def test_partition_values_keep_the_old_text(log, before, text, after, value):
    pq.write_table(pa.table({"id": [1]}), f"{log.table}/f")
    log.commit(
        *head(after, (before, after), partition_columns=["v"]),
        add("f", partition_values={"v": text}),
    )
    assert rows(log).to_pylist() == [{"v": value, "id": 1}]
    assert rows(log, filter="v is not null").num_rows == 1


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
            st.lists(st.none() | st.integers(-128, 127), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]),
    st.integers(-129, 128),
)
def test_a_filter_finds_what_a_list_finds_whatever_types_the_files_have(
    tmp_path_factory, files, op, bound
):
    log = LogWriter(ArrowEngine(), str(tmp_path_factory.mktemp("t")))
    actions = []
    for i, (kind, values) in enumerate(files):
        write(log, f"f{i}", pa.array(values, kind))
        known = [v for v in values if v is not None]
        bounds = {"minValues": {"v": min(known)}, "maxValues": {"v": max(known)}} if known else {}
        counts = {"numRecords": len(values), "nullCount": {"v": len(values) - len(known)}}
        actions.append(add(f"f{i}", stats={**counts, **bounds}))
    log.commit(*head("decimal(22,2)", ("long", "decimal(22,2)")), *actions)
    found = rows(log, filter=f"v {op} {bound}").column("v").to_pylist()
    compare = {
        "=": lambda v: v == bound,
        "<>": lambda v: v != bound,
        "<": lambda v: v < bound,
        "<=": lambda v: v <= bound,
        ">": lambda v: v > bound,
        ">=": lambda v: v >= bound,
        "<=>": lambda v: v == bound,
    }[op]
    expected = [v for _, values in files for v in values if v is not None and compare(v)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("byte", pa.array([-128, 127], pa.int8()), "decimal(3,0)"),
        ("byte", pa.array([-128, 127], pa.int32()), "decimal(5,2)"),
        ("short", pa.array([-(1 << 15), None], pa.int16()), "decimal(5,0)"),
        ("short", pa.array([(1 << 15) - 1], pa.int32()), "decimal(9,4)"),
        ("long", pa.array([-(1 << 63), (1 << 63) - 1]), "decimal(19,0)"),
    ],
)
def test_a_decimal_with_just_enough_digits_holds_the_whole_numbers_of_before(
    log, before, values, after
):
    """Other writers change types so; PROTOCOL.md's list asks for more digits."""
    write(log, "f", values)
    log.commit(*head(after, (before, after)), add("f"))
    expected = [None if v is None else Decimal(v) for v in values.to_pylist()]
    assert rows(log).column("v").to_pylist() == expected
    assert rows(log, filter="v >= 0").column("v").to_pylist() == [
        v for v in expected if v and v > 0
    ]


def test_a_decimal_with_too_few_digits_for_the_numbers_of_before_is_refused(log):
    log.commit(*head("decimal(4,0)", ("short", "decimal(4,0)")))
    with pytest.raises(UnsupportedFeatureError, match=r"v: short -> decimal\(4,0\)"):
        Snapshot.load(log.engine, log.table)


def test_a_change_that_is_not_known_is_refused_by_name(log):
    log.commit(*head("string", ("integer", "string")))
    with pytest.raises(UnsupportedFeatureError, match="v: integer -> string") as caught:
        Snapshot.load(log.engine, log.table)
    assert caught.value.features == ("typeWidening",)


def test_a_file_of_a_wider_type_with_values_that_do_not_fit_is_refused(log):
    write(log, "f", pa.array([1 << 40]))
    log.commit(*head("integer"), add("f"))
    with pytest.raises(DataFileError, match="can't be read as int32") as caught:
        rows(log)
    assert caught.value.file == f"{log.table}/f"
