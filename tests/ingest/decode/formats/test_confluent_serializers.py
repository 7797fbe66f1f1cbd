"""What confluent-kafka's own serializers write is read, with the schemas that they register."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.type import date_pb2

from bayou.ingest.decode import DecodePlan
from bayou.ingest.decode.formats import RecordDecoder, RecordFormat, Registry, RegistryAddress
from bayou.protocol.schema import StructType
from support.registry_double import RegistryDouble

VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def double():
    with RegistryDouble() as double:
        yield double


@pytest.fixture
def client(double):
    with SchemaRegistryClient({"url": double.url}) as client:
        yield client


def read(double, kind, value):
    """Return the row of a value, in the columns of its schema."""
    registry = Registry(address=RegistryAddress(url=double.url), subject="orders-value")
    record_format = RecordFormat(name=kind, registry=registry)
    plan = DecodePlan(columns=columns_of(record_format, value), json_schema=None, discover=False)
    decoded = RecordDecoder(record_format, plan).decode(pa.array([value], pa.binary()))
    assert decoded.reasons.to_pylist() == []
    return decoded.columns.to_pylist()[0]


def columns_of(format, value):
    empty = DecodePlan(columns=StructType(), json_schema=None, discover=True)
    return RecordDecoder(format, empty).decode(pa.array([value], pa.binary())).new_fields


def test_avro_with_a_reference(double, client):
    city = {"type": "record", "name": "City", "fields": [{"name": "name", "type": "string"}]}
    fields = [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "City"]}]
    order = {"type": "record", "name": "Order", "fields": fields}
    client.register_schema("city", Schema(json.dumps(city), "AVRO"))
    schema = Schema(json.dumps(order), "AVRO", [SchemaReference("City", "city", 1)])
    value = AvroSerializer(client, schema)({"id": 1, "city": {"name": "Ulm"}}, VALUE)
    assert read(double, "avro", value) == {"id": 1, "city": {"name": "Ulm"}}


def test_protobuf_with_an_import_and_a_nested_message(double, client):
    pool = descriptor_pool.DescriptorPool()
    city = descriptor_pb2.FileDescriptorProto(name="city.proto", package="p", syntax="proto3")
    city.message_type.add(name="City").field.add(name="name", number=1, type=9, label=1)
    pool.Add(city)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="p", syntax="proto3", dependency=["city.proto"]
    )
    order.message_type.add(name="Other").field.add(name="x", number=1, type=3, label=1)
    inner = order.message_type.add(name="Outer").nested_type.add(name="Order")
    inner.field.add(name="id", number=1, type=3, label=1)
    inner.field.add(name="city", number=2, type=11, type_name=".p.City", label=1)
    pool.Add(order)
    message_type = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Outer.Order"))
    message = message_type(id=1)
    message.city.name = "Ulm"
    value = ProtobufSerializer(message_type, client, {"use.deprecated.format": False})(
        message, VALUE
    )
    assert read(double, "protobuf", value) == {"id": 1, "city": {"name": "Ulm"}}


def test_protobuf_with_imports_that_the_serializer_does_not_register(double, client):
    pool = descriptor_pool.DescriptorPool()
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", package="p", syntax="proto3")
    message = order.message_type.add(name="Order")
    for number, (module, type_name) in enumerate(
        ((date_pb2, "google.type.Date"), (decimal_pb2, "confluent.type.Decimal")), 1
    ):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        order.dependency.append(module.DESCRIPTOR.name)
        message.field.add(
            name=f"f{number}", number=number, type=11, type_name=f".{type_name}", label=1
        )
    pool.Add(order)
    message_type = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Order"))
    message = message_type()
    message.f1.year, message.f1.month = 2024, 1
    message.f2.value, message.f2.scale = b"\x7b", 2
    value = ProtobufSerializer(message_type, client)(message, VALUE)
    assert read(double, "protobuf", value) == {
        "f1": {"year": 2024, "month": 1, "day": 0},
        "f2": {"value": b"\x7b", "precision": 0, "scale": 2},
    }
