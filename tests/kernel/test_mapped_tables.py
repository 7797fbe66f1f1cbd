"""Tables with column mapping: what is found by which name, in files and in the log."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.errors import CorruptTableError, DataFileError, SchemaError
from bayou.kernel import Scan, ScanState, Snapshot, Table, read_scan_file
from bayou.protocol.schema import STRING, StructField, StructType
from support.log_writer import LogWriter, add, metadata, protocol

MODES = ["name", "id"]


def mapped(name, kind, number, physical=None, nullable=True):
    """A field of schema JSON with mapping metadata."""
    return {
        "name": name,
        "type": kind,
        "nullable": nullable,
        "metadata": {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": physical or f"col-{number}",
        },
    }


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def head(mode, *fields, partition_columns=(), configuration=None):
    action = dict(metadata({}, partition_columns)["metaData"])
    action["schemaString"] = json.dumps(struct(*fields))
    action["configuration"] = {"delta.columnMapping.mode": mode, **(configuration or {})}
    return protocol(2, 5), {"metaData": action}


def with_id(name, kind, number):
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(number).encode()})


@pytest.fixture
def log(tmp_path) -> LogWriter:
    return LogWriter(ArrowEngine(), str(tmp_path / "t"))


def write(log, name, schema, *columns, **options):
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)
    pq.write_table(table, f"{log.table}/{name}", **options)


def handle(log):
    return TableHandle(log.engine, Table.for_path(log.engine, log.table))


@pytest.mark.parametrize("mode", MODES)
def test_columns_are_found_after_a_rename_and_a_drop(log, mode):
    old = pa.schema([with_id("a", pa.int64(), 1), with_id("b", pa.string(), 2)])
    new = pa.schema([with_id("col-3", pa.string(), 3), with_id("a", pa.int64(), 1)])
    write(log, "old", old, [1], ["dropped"])
    write(log, "new", new, ["x"], [2])
    # b was dropped and came back as another column of that name, a was renamed.
    fields = mapped("number", "long", 1, "a"), mapped("b", "string", 3)
    log.commit(*head(mode, *fields), add("old"), add("new"))
    rows = sorted(handle(log).to_arrow().to_pylist(), key=lambda row: row["number"])
    assert rows == [{"number": 1, "b": None}, {"number": 2, "b": "x"}]


@pytest.mark.parametrize("mode", MODES)
def test_nested_fields_are_found_in_structs_lists_and_maps(log, mode):
    x = pa.struct([with_id("col-3", pa.int64(), 3), with_id("gone", pa.int64(), 4)])
    y = pa.struct([with_id("col-6", pa.int64(), 6)])
    schema = pa.schema(
        [
            with_id("col-2", x, 2),
            with_id("col-5", pa.list_(y), 5),
            with_id("col-7", pa.map_(pa.string(), y), 7),
        ]
    )
    write(
        log,
        "f",
        schema,
        [{"col-3": 1, "gone": 2}, None],
        [[{"col-6": 3}, None], None],
        [[("k", {"col-6": 4})], None],
    )
    inner = struct(mapped("x", "long", 3), mapped("later", "string", 9))
    element = struct(mapped("y", "long", 6))
    log.commit(
        *head(
            mode,
            mapped("s", inner, 2),
            mapped("l", {"type": "array", "elementType": element, "containsNull": True}, 5),
            mapped(
                "m",
                {
                    "type": "map",
                    "keyType": "string",
                    "valueType": element,
                    "valueContainsNull": True,
                },
                7,
            ),
        ),
        add("f"),
    )
    table = handle(log).to_arrow()
    assert table.to_pylist() == [
        {"s": {"x": 1, "later": None}, "l": [{"y": 3}, None], "m": [("k", {"y": 4})]},
        {"s": None, "l": None, "m": None},
    ]
    assert table.schema.field("s").type == pa.struct([("x", pa.int64()), ("later", pa.string())])
    assert table.schema.field("s").type.field(0).metadata is None


@pytest.mark.parametrize("mode", MODES)
def test_partition_values_and_statistics_are_found_by_physical_names(log, mode):
    schema = pa.schema([with_id("col-2", pa.int64(), 2)])
    for i in range(4):
        write(log, f"f{i}", schema, [10 * i, 10 * i + 9])
    files = [
        add(
            f"f{i}",
            partition_values={"col-1": "ab"[i % 2]},
            stats={
                "numRecords": 2,
                "minValues": {"col-2": 10 * i},
                "maxValues": {"col-2": 10 * i + 9},
                "nullCount": {"col-2": 0},
            },
        )
        for i in range(4)
    ]
    fields = mapped("day", "string", 1), mapped("col-1", "long", 2)
    log.commit(*head(mode, *fields, partition_columns=["day"]), *files)
    table = handle(log)
    assert table.to_arrow(filter="day = 'b'").to_pydict() == {
        "day": ["b"] * 4,
        "col-1": [30, 39, 10, 19],
    }
    files = table.snapshot().files(filter="day = 'a' AND `col-1` > 9")
    assert files["path"].to_pylist() == ["f2"]


@pytest.mark.parametrize("mode", MODES)
def test_row_groups_are_left_out_by_physical_names(log, mode):
    inner = pa.struct([with_id("col-2", pa.int64(), 2)])
    write(
        log,
        "f",
        pa.schema([with_id("col-1", inner, 1)]),
        [{"col-2": i} for i in range(100)],
        row_group_size=10,
    )
    log.commit(*head(mode, mapped("s", struct(mapped("x", "long", 2)), 1)), add("f"))
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_filter("s.x >= 85").build()
    state = ScanState.from_bytes(scan.scan_state(log.engine).to_bytes())
    (file,) = (
        Scan.from_bytes(scan.to_bytes())
        .replay_slice(log.engine, scan.slices(log.engine)[0])
        .flat_map(lambda batch: batch.rows())
    )
    rows = [row for b in read_scan_file(log.engine, state, file) for row in b.to_pylist()]
    assert rows == [{"s": {"x": i}} for i in range(80, 100)]


def test_in_name_mode_ids_in_the_file_do_not_count(log):
    schema = pa.schema([with_id("col-1", pa.int64(), 2), with_id("col-2", pa.int64(), 1)])
    write(log, "f", schema, [1], [2])
    log.commit(*head("name", mapped("a", "long", 1), mapped("b", "long", 2)), add("f"))
    assert handle(log).to_arrow().to_pylist() == [{"a": 1, "b": 2}]


def test_in_id_mode_names_in_the_file_do_not_count(log):
    schema = pa.schema([with_id("col-1", pa.int64(), 2), with_id("col-2", pa.int64(), 1)])
    write(log, "f", schema, [1], [2])
    log.commit(*head("id", mapped("a", "long", 1), mapped("b", "long", 2)), add("f"))
    assert handle(log).to_arrow().to_pylist() == [{"a": 2, "b": 1}]


def test_in_id_mode_a_file_without_ids_is_refused_by_name(log):
    write(log, "f", pa.schema([("col-1", pa.int64())]), [1])
    log.commit(*head("id", mapped("a", "long", 1)), add("f"))
    with pytest.raises(DataFileError, match="has no field ids") as caught:
        handle(log).to_arrow()
    assert caught.value.file == f"{log.table}/f"


def test_in_id_mode_a_column_without_an_id_is_refused(log):
    write(log, "f", pa.schema([with_id("a", pa.int64(), 1)]), [1])
    bare = {"name": "a", "type": "long", "nullable": True, "metadata": {}}
    log.commit(*head("id", bare), add("f"))
    with pytest.raises(CorruptTableError, match="column 'a' has no delta.columnMapping.id"):
        handle(log).to_arrow()


def test_mapping_metadata_means_nothing_where_the_mode_is_none(log):
    write(log, "f", pa.schema([("a", pa.int64())]), [1])
    log.commit(*head("none", mapped("a", "long", 1)), add("f"))
    snapshot = Snapshot.load(log.engine, log.table)
    assert handle(log).to_arrow().to_pylist() == [{"a": 1}]
    assert snapshot.schema.fields[0].metadata == {}


@pytest.mark.parametrize("mode", MODES)
def test_row_ids_are_found_by_their_own_names(log, mode):
    schema = pa.schema([with_id("col-1", pa.int64(), 1), pa.field("_row-id", pa.int64())])
    write(log, "f", schema, [1, 2], [70, None])
    configuration = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
    }
    log.commit(
        protocol(2, 7, ([], ["columnMapping", "rowTracking", "domainMetadata"])),
        head(mode, mapped("a", "long", 1), configuration=configuration)[1],
        add("f", baseRowId=10, defaultRowCommitVersion=4),
    )
    found = handle(log).to_arrow(columns=["a", "_metadata.row_id", "_metadata.row_commit_version"])
    assert found.to_pylist() == [
        {"a": 1, "_metadata.row_id": 70, "_metadata.row_commit_version": 4},
        {"a": 2, "_metadata.row_id": 11, "_metadata.row_commit_version": 4},
    ]


# ------------------------------------------------------------- subsets of the columns

WIDE = {
    "a": "long",
    "s": struct(
        {"name": "x", "type": "long", "nullable": True, "metadata": {}},
        {
            "name": "t",
            "type": struct(
                {"name": "u", "type": "long", "nullable": True, "metadata": {}},
                {"name": "v", "type": "string", "nullable": True, "metadata": {}},
            ),
            "nullable": True,
            "metadata": {},
        },
    ),
    "p": "string",
}


def picked(name, *fields):
    return StructField(name=name, data_type=StructType(tuple(fields)))


@pytest.mark.parametrize("mode", ["none", *MODES])
def test_read_schemas_take_subsets_nested_too_in_any_order(log, mode):
    number = iter(range(1, 20))

    def mark(field):
        kind = field["type"]
        if isinstance(kind, dict):
            kind = struct(*(mark(f) for f in kind["fields"]))
        return mapped(field["name"], kind, next(number), f"p-{field['name']}")

    fields = [
        mark({"name": name, "type": kind, "nullable": True, "metadata": {}})
        for name, kind in WIDE.items()
    ]
    prefix = "" if mode == "none" else "p-"

    def numbered(field):
        found = field["metadata"]["delta.columnMapping.id"]
        kind = field["type"]
        arrow = {"long": pa.int64(), "string": pa.string()}.get(str(kind)) or pa.struct(
            [numbered(f) for f in kind["fields"]]
        )
        return with_id(prefix + field["name"], arrow, found)

    schema = pa.schema([numbered(f) for f in fields[:2]])
    row = {f"{prefix}x": 2, f"{prefix}t": {f"{prefix}u": 3, f"{prefix}v": "w"}}
    write(log, "f", schema, [1], [row])
    partition = add("f", partition_values={f"{prefix}p": "part"})
    log.commit(*head(mode, *fields, partition_columns=["p"]), partition)
    snapshot = Snapshot.load(log.engine, log.table)
    wanted = StructType(
        (
            StructField(name="p", data_type=STRING),
            picked("s", picked("t", StructField(name="v", data_type=STRING))),
        )
    )
    scan = snapshot.scan_builder().with_read_schema(wanted).build()
    scan = Scan.from_bytes(scan.to_bytes())
    state = scan.scan_state(log.engine)
    source = snapshot.scan_builder().build()
    (file,) = source.scan_files(log.engine).flat_map(lambda batch: batch.rows())
    (batch,) = read_scan_file(log.engine, state, file)
    assert batch.to_pylist() == [{"p": "part", "s": {"t": {"v": "w"}}}]
    assert batch.schema == pa.schema(
        [
            ("p", pa.string()),
            ("s", pa.struct([("t", pa.struct([("v", pa.string())]))])),
        ]
    )


@pytest.mark.parametrize(
    ("wanted", "column", "message"),
    [
        (StructField(name="b", data_type=STRING), "b", "has no column 'b'"),
        (StructField(name="A", data_type=STRING), "A", "has no column 'A'"),
        (StructField(name="a", data_type=STRING), "a", "can't be read as string"),
        (picked("a"), "a", "has type long"),
        (picked("s", StructField(name="y", data_type=STRING)), "s.y", "has no field 'y'"),
        (picked("s", StructField(name="x", data_type=STRING)), "s.x", "has type long"),
        (StructField(name="p", data_type=STRING, nullable=False), "p", "is nullable"),
    ],
)
def test_an_unknown_column_or_another_type_is_refused_when_the_scan_is_built(
    log, wanted, column, message
):
    log.commit(protocol(), metadata(WIDE))
    builder = Snapshot.load(log.engine, log.table).scan_builder()
    with pytest.raises(SchemaError, match=message) as caught:
        builder.with_read_schema(StructType((wanted,))).build()
    assert caught.value.column == column


def test_a_column_asked_for_twice_is_refused(log):
    log.commit(protocol(), metadata(WIDE))
    field = StructField(name="p", data_type=STRING)
    builder = Snapshot.load(log.engine, log.table).scan_builder()
    with pytest.raises(SchemaError, match="'p' is requested twice"):
        builder.with_read_schema(StructType((field, field))).build()
