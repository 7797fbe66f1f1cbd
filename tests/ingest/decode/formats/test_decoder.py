"""Avro, Protobuf, CSV and the rest become columns."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import json
import threading
import uuid
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import bayou
from bayou.errors import KafkaError
from bayou.ingest import load_configuration
from bayou.ingest.decode import DecodePlan, additions
from bayou.ingest.decode.formats import (
    RecordDecoder,
    RecordFormat,
    Registry,
    RegistryAddress,
    avro_schema_columns,
    schema_registry,
)
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    LONG,
    STRING,
    DecimalType,
    StructField,
    StructType,
)

AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "place", "type": "Place"},
        {"name": "either", "type": ["null", "int", "string"]},
    ],
}
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "near", "type": {"type": "array", "items": "Place"}},
    ],
}
EVENT = {
    "id": 7,
    "name": None,
    "at": dt.datetime(2024, 1, 5, 10, 0, 0, 5, tzinfo=dt.UTC),
    "day": dt.date(2024, 1, 5),
    "price": decimal.Decimal("12.50"),
    "raw": b"\x00\xff",
    "kind": "B",
    "tags": {"x": 1},
    "place": {"city": "Ulm", "near": []},
    "either": "x",
}


asked: list[str] = []
"""The paths of all requests to the registry."""


@pytest.fixture(scope="module")
def registry():
    """The registry's protocol on loopback."""
    answers: dict[str, dict] = {}
    asked.clear()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            answer = answers.get(
                self.path.replace("?deleted=true&", "?").removesuffix("?deleted=true")
            )
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            if self.path.startswith("/elsewhere"):
                self.wfile.write(b"<html>Not Found</html>")
                return
            if self.path.startswith("/subjects"):
                answer = answer or {"error_code": 40401}
            self.wfile.write(json.dumps(answer or {"error_code": 40403}).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    answers["/schemas/ids/1"] = {
        "schema": json.dumps(AVRO),
        "references": [{"name": "Place", "subject": "place", "version": 3}],
    }
    answers["/subjects/place/versions/3"] = {"schema": json.dumps(PLACE)}
    wider = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "float", "default": 0}]}
    answers["/schemas/ids/2"] = {**answers["/schemas/ids/1"], "schema": json.dumps(wider)}
    for number, kind in ((3, "int"), (4, "long")):
        answers[f"/schemas/ids/{number}"] = {"schema": json.dumps(counts_of(kind))}
    gone = [{"name": "G", "subject": "gone", "version": 1}]
    answers["/schemas/ids/6"] = {"schema": json.dumps(AVRO), "references": gone}
    answers["/schemas/ids/5"] = {"schema": json.dumps(NO_RECORDS[0])}
    answers["/schemas/ids/9?format=serialized"] = {
        "schema": base64.b64encode(protobuf_file().SerializeToString()).decode()
    }
    answers["/schemas/ids/11?format=serialized"] = {
        "schema": base64.b64encode(file_of_well_known_types().SerializeToString()).decode()
    }
    answers["/schemas/ids/12?format=serialized"] = {
        "schema": base64.b64encode(proto2_file().SerializeToString()).decode()
    }
    yield Registry(address=RegistryAddress(url=f"http://127.0.0.1:{server.server_port}"))
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_pauses(monkeypatch):
    """A registry whose schemas nobody has asked for, asked again at once."""
    monkeypatch.setattr(schema_registry, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(schema_registry, "_UNKNOWN", {})


def counts_of(kind):
    """The schema of records with numbers of a type, at each depth."""
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": kind}]}
    fields = [{"name": "n", "type": kind}, {"name": "in", "type": inner}]
    fields.append({"name": "all", "type": {"type": "array", "items": kind}})
    return {"type": "record", "name": "Counts", "fields": fields}


def header(number, body):
    return b"\x00" + number.to_bytes(4, "big") + body


def avro(number, record, schema):
    out = io.BytesIO()
    named = {}
    fastavro.parse_schema(PLACE, named_schemas=named)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas=named), record)
    return header(number, out.getvalue())


def decoded(format, values, columns=None, *, discover=True):
    """Decode as the pipeline does: again with wider columns where there are new ones."""
    columns = columns or StructType()
    while True:
        plan = DecodePlan(columns=columns, json_schema=None, discover=discover)
        found = RecordDecoder(format, plan).decode(pa.array(values, pa.binary()))
        if not found.new_fields.fields:
            return found
        for _, field in additions(columns, found.new_fields):
            columns = merge_schemas("t", columns, StructType((field,)))


def test_avro_of_a_registry_has_the_types_of_its_schema(registry):
    wider = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "float"}]}
    values = [
        avro(1, EVENT, AVRO),
        b"no header",
        avro(2, {**EVENT, "more": 1.5, "either": 3}, wider),
        avro(1, EVENT, AVRO) + b"x",
        avro(2, {**EVENT, "more": float("nan")}, wider),
    ]
    found = decoded(RecordFormat(name="avro", registry=registry), values)
    rows = found.columns.to_pylist()
    assert found.positions.to_pylist() == [0, 2]
    expected = {**EVENT, "tags": [("x", 1)], "place": {"city": "Ulm", "near": "[]"}}
    assert rows[0] == {**expected, "either": '"x"', "more": None}
    assert rows[1] == {**expected, "either": "3", "more": 1.5}
    reasons = dict(zip(found.bad_positions.to_pylist(), found.reasons.to_pylist(), strict=True))
    assert reasons[1] == "doesn't start with a schema registry's header"
    assert "extra bytes at the end" in reasons[3]
    assert "a number is nan" in reasons[4]


@pytest.mark.parametrize("keys", ["", "key-columns: [n], "])
def test_types_of_a_newer_schema_widen_columns_where_the_table_allows_it(tmp_path, registry, keys):
    (tmp_path / "p.yaml").write_text(
        f"connector: {{schema-registry: {{url: '{registry.url}'}}, topics: {{t: {{kafka-topic: t, "
        f"decode: avro, destination: {{table-path: t, {keys}delta-config: "
        f"{{enable-schema-evolution: true, enable-upsert: {str(bool(keys)).lower()}}}}}}}}}}}"
    )
    configuration = load_configuration(tmp_path / "p.yaml", environment={})

    def take(number, kind, value):
        record = {"n": value, "in": {"n": value}, "all": [value]}
        values = [avro(number, record, counts_of(kind))]
        batch = record_batch("t", values, partition=0, first=value, timestamps=[value])
        writer = DirectWriter(configuration, configuration.topics[0], records_of_topic=True)
        return writer.write([batch], {})

    assert take(3, "int", 1).rows == 1
    handle = bayou.table(str(tmp_path / "t"))
    assert take(4, "long", 2**40).dead_letters == 1  # the table doesn't allow it yet
    handle.alter.set_table_properties({"delta.enableTypeWidening": "true"})
    assert take(4, "long", 2**40 + 1).rows == 1
    assert take(3, "int", 3).rows == 1
    rows = handle.to_arrow().sort_by("n").to_pylist()
    assert [(r["n"], r["in"]["n"], r["all"]) for r in rows] == [
        (n, n, [n]) for n in (1, 3, 2**40 + 1)
    ]


def test_avro_without_a_registry_is_read_by_a_schema_file():
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": 5})
    found = decoded(RecordFormat(name="avro", schema=json.dumps(schema)), [out.getvalue()])
    assert found.columns.to_pylist() == [{"id": 5}]
    assert found.columns.schema.field("id").type == pa.int32()


NO_RECORDS = [
    [{"type": "record", "name": n, "fields": [{"name": "id", "type": "int"}]} for n in "AB"],
    {"type": "array", "items": ["int", "string"]},
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal"}}],
    },
    5,
]


@pytest.mark.parametrize("schema", NO_RECORDS)
def test_an_avro_schema_of_which_no_columns_can_be_made_is_told(schema):
    with pytest.raises(ValueError, match="Avro schema"):
        avro_schema_columns(json.dumps(schema))


def test_records_of_an_avro_union_are_dead_letters(registry):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(NO_RECORDS[0]), ("A", {"id": 5}))
    found = decoded(RecordFormat(name="avro", registry=registry), [header(5, out.getvalue())])
    assert found.reasons.to_pylist() == ["the Avro schema isn't a record"]


def logical(kind, **more):
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": "v", "type": {"type": kind, **more}}],
    }


def decimals(precision, scale):
    return logical("bytes", logicalType="decimal", precision=precision, scale=scale)


UUID = uuid.UUID("12345678-1234-1234-1234-123456789abc")
LARGEST = 10**38 - 1


@pytest.mark.parametrize(
    ("schema", "body", "columns", "value"),
    [
        # 1234.56 has more digits than its schema says, and fastavro rounds it to 1235.
        (
            decimals(4, 2),
            b"\x06\x01\xe2\x40",
            DecimalType(precision=10, scale=2),
            decimal.Decimal("1234.56"),
        ),
        (decimals(4, 2), b"\x06\x01\xe2\x40", None, None),
        # Kafka Connect writes a precision of 64.
        (decimals(64, 0), b"\x22" + LARGEST.to_bytes(17, "big"), None, decimal.Decimal(LARGEST)),
        (decimals(64, 0), b"\x22" + (LARGEST + 1).to_bytes(17, "big"), None, None),
        (logical("int", logicalType="time-millis"), b"\x02", None, "00:00:00.001000"),
        (logical("int", logicalType="time-millis"), b"\x01", None, None),
        (logical("long", logicalType="time-micros"), b"\x01", None, None),
        (logical("fixed", name="U", size=16, logicalType="uuid"), UUID.bytes, None, str(UUID)),
        (logical("fixed", name="U", size=1, logicalType="uuid"), b"\x07", None, b"\x07"),
        (logical("int", logicalType="timestamp-millis"), b"\x0a", None, 5),
        (logical("string", logicalType="date"), b"\x02x", None, "x"),
    ],
)
def test_a_logical_value_of_avro_is_exact_or_a_dead_letter(schema, body, columns, value):
    text = json.dumps(schema)
    known = avro_schema_columns(text)
    if columns is not None:
        known = StructType((StructField(name="v", data_type=columns),))
    found = decoded(RecordFormat(name="avro", schema=text), [body], known, discover=False)
    assert found.columns.to_pylist() == ([] if value is None else [{"v": value}])


def test_a_field_of_a_schema_that_no_column_may_have_refuses_its_records():
    fields = [{"name": "id", "type": "int"}, {"name": "Year", "type": "int"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": 5, "Year": 2024})
    plan = DecodePlan(
        columns=columns(id=LONG),
        json_schema=None,
        discover=True,
        reserved=frozenset(("id", "year")),
    )
    values_are = RecordFormat(name="avro", schema=json.dumps(schema))
    found = RecordDecoder(values_are, plan).decode(pa.array([out.getvalue()], pa.binary()))
    assert "unknown field 'Year': it can't be a column" in found.reasons[0].as_py()
    assert not found.new_fields.fields  # for which a caller would decode again, forever


@pytest.mark.parametrize(
    ("kind", "path"),
    [("avro", "/schemas/ids/77"), ("protobuf", "/schemas/ids/77?format=serialized")],
)
def test_a_schema_that_the_registry_does_not_have_makes_a_dead_letter_after_three_tries(
    registry, kind, path, no_pauses
):
    for _ in range(2):  # a batch that is tried again comes to the same end
        found = decoded(RecordFormat(name=kind, registry=registry), [header(77, b"\0")] * 5)
        assert found.reasons.to_pylist() == ["the schema registry has no schema 77"] * 5
    assert asked.count(path) == 3


def test_a_flood_of_unknown_schemas_asks_once_for_each(registry, no_pauses):
    values = [header(1000 + n, b"") for n in range(50)]
    found = decoded(RecordFormat(name="avro", registry=registry), values)
    assert len(found.reasons) == 50
    assert asked.count("/schemas/ids/1049") == 1


def test_a_schema_id_that_no_registry_can_have_makes_a_dead_letter_without_a_request(registry):
    found = decoded(RecordFormat(name="avro", registry=registry), [header(2**32 - 1, b"")])
    assert found.reasons.to_pylist() == ["the schema registry has no schema 4294967295"]
    assert "/schemas/ids/4294967295" not in asked


def test_an_unknown_schema_stops_the_batch_where_the_topic_says_so(registry, no_pauses):
    strict = replace(registry, on_unknown_schema="stop")
    with pytest.raises(KafkaError, match=r"has no schema 79\. Register it, or set on-unknown"):
        decoded(RecordFormat(name="avro", registry=strict), [header(79, b"")])


def test_another_404_than_that_of_a_schema_stops_the_batch(registry):
    elsewhere = Registry(address=RegistryAddress(url=f"{registry.url}/elsewhere"))
    with pytest.raises(KafkaError, match=r"404 Not Found\. Check connector\.schema-registry\.url"):
        decoded(RecordFormat(name="avro", registry=elsewhere), [header(1, b"")])


def test_a_reference_that_the_registry_does_not_have_stops_the_batch(registry):
    with pytest.raises(KafkaError, match="/subjects/gone/versions/1 with 404"):
        decoded(RecordFormat(name="avro", registry=registry), [header(6, b"")])


def test_a_registry_that_does_not_answer_stops_the_batch():
    away = Registry(address=RegistryAddress(url="http://127.0.0.1:9"))
    with pytest.raises(KafkaError, match="doesn't answer"):
        decoded(RecordFormat(name="avro", registry=away), [header(78, b"")])


def protobuf_file():
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="p", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Unused")
    event = file.message_type.add(name="Event")
    types = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind) in enumerate(
        [("id", types.TYPE_INT64), ("name", types.TYPE_STRING), ("raw", types.TYPE_BYTES)], 1
    ):
        event.field.add(name=name, number=number, type=kind, label=types.LABEL_OPTIONAL)
    event.field.add(
        name="at",
        number=4,
        type=types.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=types.LABEL_OPTIONAL,
    )
    event.field.add(name="scores", number=5, type=types.TYPE_DOUBLE, label=types.LABEL_REPEATED)
    inner = event.nested_type.add(name="Inner")
    inner.field.add(name="flag", number=1, type=types.TYPE_BOOL, label=types.LABEL_OPTIONAL)
    event.field.add(
        name="inner",
        number=6,
        type=types.TYPE_MESSAGE,
        type_name=".p.Event.Inner",
        label=types.LABEL_OPTIONAL,
    )
    return file


def test_protobuf_of_a_registry_has_the_types_of_its_message(registry):
    pool = descriptor_pool.DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(stamp)
    pool.Add(protobuf_file())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Event"))
    message = kind(id=2**40, name="é", raw=b"\x00", scores=[1.5])
    message.at.FromJsonString("2024-01-05T10:00:00.000005Z")
    message.inner.flag = True
    body = message.SerializeToString()
    values = [header(9, b"\x02\x02" + body), header(9, b"\x02\x02\xff"), header(9, b"\x02\x08")]
    found = decoded(RecordFormat(name="protobuf", registry=registry), values)
    assert found.columns.to_pylist() == [
        {
            "id": 2**40,
            "name": "é",
            "raw": b"\x00",
            "at": dt.datetime(2024, 1, 5, 10, 0, 0, 5, tzinfo=dt.UTC),
            "scores": [1.5],
            "inner": {"flag": True},
        }
    ]
    assert found.bad_positions.to_pylist() == [1, 2]


def file_of_well_known_types():
    """Of files that no module of Bayou or of its tests loads; api.proto imports others."""
    file = descriptor_pb2.FileDescriptorProto(name="own.proto", syntax="proto3")
    types = descriptor_pb2.FieldDescriptorProto
    event = file.message_type.add(name="Own")
    for number, (source, name) in enumerate([("wrappers", "StringValue"), ("api", "Mixin")], 1):
        file.dependency.append(f"google/protobuf/{source}.proto")
        event.field.add(
            name=f"f{number}",
            number=number,
            type=types.TYPE_MESSAGE,
            type_name=f".google.protobuf.{name}",
            label=types.LABEL_OPTIONAL,
        )
    return file


def test_the_types_that_come_with_protobuf_are_there(registry):
    value = header(11, b"\x00\x0a\x03\x0a\x01x")
    found = decoded(RecordFormat(name="protobuf", registry=registry), [value])
    assert found.columns.to_pylist() == [{"f1": {"value": "x"}, "f2": None}]


def proto2_file():
    """A message with a closed enum, a required field and an extension."""
    file = descriptor_pb2.FileDescriptorProto(name="two.proto", package="two", syntax="proto2")
    types = descriptor_pb2.FieldDescriptorProto
    file.enum_type.add(name="Kind").value.add(name="A", number=0)
    message = file.message_type.add(name="Two")
    message.extension_range.add(start=100, end=200)
    message.field.add(name="id", number=1, type=types.TYPE_INT64, label=types.LABEL_REQUIRED)
    for name, number, label in (("kind", 2, "OPTIONAL"), ("kinds", 3, "REPEATED")):
        message.field.add(
            name=name,
            number=number,
            type=types.TYPE_ENUM,
            type_name=".two.Kind",
            label=getattr(types, f"LABEL_{label}"),
        )
    inner = message.nested_type.add(name="Inner")
    inner.field.add(name="n", number=1, type=types.TYPE_INT64, label=types.LABEL_OPTIONAL)
    message.field.add(
        name="inner",
        number=4,
        type=types.TYPE_MESSAGE,
        type_name=".two.Two.Inner",
        label=types.LABEL_OPTIONAL,
    )
    file.extension.add(name="more", number=100, type=types.TYPE_INT64, label=1, extendee=".two.Two")
    return file


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x08\x01\x10\x07", "the schema lacks"),  # kind: 7
        (b"\x08\x01\x18\x00\x18\x07", "the schema lacks"),  # kinds: [A, 7]
        (b"\x08\x01\x48\x05", "the schema lacks"),  # field 9
        (b"\x08\x01\x22\x02\x10\x05", "the schema lacks"),  # field 2 of inner
        (b"\x08\x01\x12\x01x", "the schema lacks"),  # a string as kind
        (b"\x08\x01\xa0\x06\x05", "a Protobuf extension"),
    ],
)
def test_what_protobuf_would_drop_makes_a_dead_letter(registry, body, reason):
    good = [b"\x08\x01\x10\x00", b"\x10\x00", b"\x08\x01\x22\x00"]
    values = [header(12, b"\x00" + value) for value in (body, *good)]
    found = decoded(RecordFormat(name="protobuf", registry=registry), values)
    assert found.bad_positions.to_pylist() == [0]
    assert reason in found.reasons[0].as_py()
    assert found.columns.column("id").to_pylist() == [1, None, 1]
    assert found.columns.column("kind").to_pylist() == ["A", "A", None]


def columns(**kinds):
    return StructType(tuple(StructField(name=n, data_type=k) for n, k in kinds.items()))


def test_a_line_of_csv_has_the_types_of_its_columns():
    values_are = RecordFormat(name="csv", csv_columns=("a", "b", "c", "d"), csv_delimiter=";")
    lines = [b'1;"x;y";2.5;TRUE', b";;;", b"1;2", b"x;1;1;false", b"\xff;;;"]
    found = decoded(
        values_are, lines, columns(a=LONG, b=STRING, c=DOUBLE, d=BOOLEAN), discover=False
    )
    assert found.columns.to_pylist() == [
        {"a": 1, "b": "x;y", "c": 2.5, "d": True},
        {"a": None, "b": None, "c": None, "d": None},
    ]
    assert found.bad_positions.to_pylist() == [3, 2, 4]


def test_a_long_value_of_csv_becomes_a_row():
    values_are = RecordFormat(name="csv", csv_columns=("a", "b"))
    found = decoded(values_are, [b"1," + b"x" * 1_000_000], columns(a=LONG, b=STRING))
    assert found.columns.to_pylist() == [{"a": 1, "b": "x" * 1_000_000}]


@pytest.mark.parametrize("line", [b'1,"x', b'1,"x"y', b"1,x\ny", b"[" * 100_000 + b",x"])
def test_a_line_that_is_no_csv_is_refused_and_no_other(line):
    values_are = RecordFormat(name="csv", csv_columns=("a", "b"))
    lines = [b"1,x", line, b"2,y\n"]
    found = decoded(values_are, lines, columns(a=LONG, b=STRING), discover=False)
    assert found.columns.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert found.bad_positions.to_pylist() == [1]


def test_texts_and_bytes_are_a_column():
    values = [b"abc", b"\xff", None]
    text = decoded(RecordFormat(name="string"), values, columns(value=STRING))
    assert text.columns.to_pylist() == [{"value": "abc"}]
    raw = decoded(RecordFormat(name="binary"), values, columns(value=BINARY))
    assert raw.columns.to_pylist() == [{"value": b"abc"}, {"value": b"\xff"}]
    assert raw.reasons.to_pylist() == ["the record has no value"]


def test_nested_fields_become_columns():
    schema = {"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}
    values_are = RecordFormat(flatten="_", json_schema=json.dumps(schema))
    values = [
        b'{"a": {"b": 1, "c": {"d": "x"}}, "l": [{"e": 1}]}',
        b'{"a": {"b": "no"}}',
        b'{"a": {"b": 1}, "a_b": 2}',
    ]
    found = decoded(values_are, values)
    assert found.columns.to_pylist() == [{"a_b": 1, "a_c_d": "x", "l": [{"e": 1}]}]
    assert "schema:" in found.reasons[0].as_py()
    assert "two fields have the name 'a_b'" in found.reasons[1].as_py()
