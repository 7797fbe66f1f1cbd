"""Schemas of Protobuf that import other files, and schemas that can't be used."""

from __future__ import annotations

import base64
import sys

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from bayou.errors import KafkaError
from bayou.ingest.decode.formats import protobuf
from bayou.ingest.decode.formats.protobuf import ProtobufReader
from bayou.ingest.decode.schema_size import FieldCount

HEADER = b"\0\0\0\0\1\0"
TYPES = descriptor_pb2.FieldDescriptorProto


class Registry:
    """A registry with one schema, and the schemas that it references by their subject."""

    def __init__(self, file, references=()):
        self.file = file
        self.references = {reference.name: reference for reference in references}
        self.requests = []
        self.failures = 0

    def schema(self, number, *, serialized):
        self.requests.append(number)
        names = [{"name": name, "subject": name, "version": 1} for name in self.references]
        return self._response(self.file) | {"references": names}

    def version(self, subject, version, *, serialized):
        if self.failures:
            self.failures -= 1
            raise KafkaError("no answer")
        return self._response(self.references[subject])

    def _response(self, file):
        return {"schema": base64.b64encode(file.SerializeToString()).decode()}


def order_with(dependency, type_name):
    """A schema whose message has an id, and a field of a type from another file."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    file.dependency.append(dependency)
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=TYPES.TYPE_INT64, label=TYPES.LABEL_OPTIONAL)
    message.field.add(
        name="more",
        number=2,
        type=TYPES.TYPE_MESSAGE,
        type_name=type_name,
        label=TYPES.LABEL_OPTIONAL,
    )
    return file


@pytest.mark.parametrize(
    ("dependency", "type_name", "body", "more"),
    [
        ("google/type/date.proto", ".google.type.Date", b"\x08\x01", {"year": 1}),
        ("google/type/datetime.proto", ".google.type.DateTime", b"\x10\x02", {"month": 2}),
        ("confluent/type/decimal.proto", ".confluent.type.Decimal", b"\x10\x03", {"precision": 3}),
        ("confluent/types/decimal.proto", ".confluent.type.Decimal", b"\x18\x04", {"scale": 4}),
        ("confluent/meta.proto", ".confluent.Meta", b"\x0a\x01x", {"doc": "x"}),
    ],
)
def test_a_schema_imports_files_that_serializers_do_not_register(dependency, type_name, body, more):
    reader = ProtobufReader(Registry(order_with(dependency, type_name)))
    record, columns = reader.read(HEADER + b"\x08\x05\x12" + bytes([len(body)]) + body)
    assert record["id"] == 5
    assert record["more"].items() >= more.items()
    assert [field.name for field in columns] == ["id", "more"]


def registered_timestamp():
    """The file of `google.protobuf.Timestamp`, with other content than the installed file."""
    file = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file.ClearField("options")
    return file


@pytest.mark.parametrize("imports_first", [False, True])
def test_a_registered_file_is_used_in_all_files_that_import_it(imports_first):
    name = "google/protobuf/timestamp.proto"
    common = descriptor_pb2.FileDescriptorProto(name="common.proto", syntax="proto3")
    common.dependency.append(name)
    common.message_type.add(name="Common").field.add(
        name="at",
        number=1,
        type=TYPES.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=TYPES.LABEL_OPTIONAL,
    )
    references = [registered_timestamp(), common]
    if imports_first:
        references.reverse()
    reader = ProtobufReader(Registry(order_with("common.proto", ".Common"), references))
    record, _ = reader.read(HEADER + b"\x08\x05\x12\x04\x0a\x02\x08\x01")
    assert record == {"id": 5, "more": {"at": "1970-01-01T00:00:01Z"}}


def test_different_files_with_the_same_name_refuse_the_records_of_the_schema():
    registry = Registry(order_with("common.proto", ".Common"))
    files = [descriptor_pb2.FileDescriptorProto(name="common.proto", package=p) for p in "ab"]
    registry.references = dict(enumerate(files))
    registry.schema = lambda *_, **__: (
        registry._response(registry.file)
        | {"references": [{"name": "common.proto", "subject": n, "version": 1} for n in range(2)]}
    )
    with pytest.raises(ValueError, match="different files with the name common.proto"):
        ProtobufReader(registry).read(HEADER)


def test_a_registered_file_has_precedence_over_an_installed_file():
    registered = registered_timestamp()
    file = order_with("google/protobuf/timestamp.proto", ".google.protobuf.Timestamp")
    reader = ProtobufReader(Registry(file, [registered]))
    record, _ = reader.read(HEADER + b"\x08\x05\x12\x02\x08\x01")
    assert record == {"id": 5, "more": "1970-01-01T00:00:01Z"}


@pytest.mark.parametrize(
    "name", ["buf/validate/validate.proto", "google/protobuf/none.proto", "confluent/meta"]
)
def test_an_import_that_nobody_has_refuses_the_records_of_the_schema(name):
    registry = Registry(order_with(name, ".x.X"))
    reader = ProtobufReader(registry)
    for _ in range(2):
        with pytest.raises(ValueError, match="^schema 1 of the registry imports ") as refused:
            reader.read(HEADER)
        assert str(refused.value).endswith(
            f" {name}, which the registry doesn't list as a reference"
        )
    assert registry.requests == [1]


def test_an_import_of_google_type_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.type.date_pb2", None)
    reader = ProtobufReader(Registry(order_with("google/type/date.proto", ".google.type.Date")))
    with pytest.raises(ValueError, match=r"imports google/type/date\.proto.* googleapis-common-"):
        reader.read(HEADER)


def test_an_error_of_the_registry_refuses_no_schema():
    city = descriptor_pb2.FileDescriptorProto(name="city.proto", package="p", syntax="proto3")
    city.message_type.add(name="City")
    registry = Registry(order_with("city.proto", ".p.City"), [city])
    registry.failures = 1
    reader = ProtobufReader(registry)
    with pytest.raises(KafkaError):
        reader.read(HEADER)
    assert reader.read(HEADER)[0] == {"id": 0, "more": None}


def test_a_message_type_that_is_too_large_is_examined_once(monkeypatch):
    counts = []

    class Counted(FieldCount):
        def __init__(self):
            counts.append(self)
            super().__init__(limit=1)

    monkeypatch.setattr(protobuf, "FieldCount", Counted)
    file = order_with("google/protobuf/timestamp.proto", ".google.protobuf.Timestamp")
    reader = ProtobufReader(Registry(file))
    for _ in range(2):
        with pytest.raises(ValueError, match="more than 10,000 fields"):
            reader.read(HEADER)
    assert len(counts) == 1
