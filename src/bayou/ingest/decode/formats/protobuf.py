"""Reads Protobuf values with descriptors of a schema registry.

After the registry's header, a value contains the indexes of its message type. The first index is an
index into the messages of the schema's file. Each further index is an index into the nested
messages of the message before it. A field that isn't set is null if Protobuf tracks its presence.
Otherwise it has its default value.

A value is an error if it has a part that Protobuf would drop: a field or an extension that the
message type doesn't define, or a number that a closed enum doesn't define.

| Protobuf | Delta type |
|---|---|
| `int32`, `sint32`, `sfixed32` | `integer` |
| `uint32`, `fixed32`, `int64`, `sint64`, `sfixed64` | `long` |
| `uint64`, `fixed64` | `decimal(20,0)` |
| `float`, `double`, `bool`, `string`, `bytes`; `enum` | `float`, ...; `string` |
| `google.protobuf.Timestamp` | `timestamp` |
| a message, `repeated`, `map` | `struct`, `array`, `map` with strings as keys |
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from bayou.errors import BayouError
from bayou.ingest.decode.formats.schema_registry import Registry, split_header
from bayou.ingest.decode.json_schema import JSON_TEXT
from bayou.ingest.decode.schema_size import FieldCount, SchemaTooLargeError
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_TIMESTAMP_NAME = "google.protobuf.Timestamp"
_SCALARS: Mapping[int, DataType] = {
    FieldDescriptor.CPPTYPE_INT32: INTEGER,
    FieldDescriptor.CPPTYPE_INT64: LONG,
    FieldDescriptor.CPPTYPE_UINT32: LONG,
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(precision=20, scale=0),
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
    FieldDescriptor.CPPTYPE_FLOAT: FLOAT,
    FieldDescriptor.CPPTYPE_BOOL: BOOLEAN,
    FieldDescriptor.CPPTYPE_ENUM: STRING,
}

_PACKAGES: Mapping[str, str] = {
    "google/protobuf/": "google.protobuf.",
    "google/type/": "google.type.",
    "confluent/": "confluent_kafka.schema_registry.confluent.",
}
"""The Python package for each folder of files that Confluent's serializers don't register.

A registered schema that imports a file in these folders has no reference to this file.
`google.type` is part of googleapis-common-protos, which isn't a dependency of Bayou.
"""


class ProtobufReader:
    """Reads Protobuf values, each with the schema of its writer."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._files: dict[int, Any] = {}
        self._columns: dict[tuple[int, tuple[int, ...]], StructType] = {}
        self._refused: dict[tuple[int, tuple[int, ...]], str] = {}  # () for a whole schema

    def read(self, value: bytes) -> tuple[Any, StructType]:
        """Return a decoded value, and the columns of its message type.

        For values with the same message type, the columns are the same object.

        Raises:
            ValueError: the value can't be read.
            KafkaError: the registry doesn't answer.
        """
        header = split_header(value)
        if header is None:
            raise ValueError("doesn't start with a schema registry's header")
        indexes, body = _indexes(header[1])
        descriptor = self._descriptor(header[0], indexes)
        columns = self._columns_of((header[0], tuple(indexes)), descriptor)
        message = message_factory.GetMessageClass(descriptor)()
        try:
            message.ParseFromString(body)
        except DecodeError as error:
            raise ValueError(f"doesn't match its Protobuf schema: {error}") from error
        _check_known(message)
        return _to_dict(message), columns

    def _descriptor(self, number: int, indexes: list[int]) -> Descriptor:
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = self._file(number)
        try:
            if min(indexes, default=0) < 0:
                raise IndexError  # a negative index would count from the end
            message = list(file.message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                message = message.nested_types[index]
        except IndexError as error:
            raise ValueError(f"schema {number} of the registry has no message {indexes}") from error
        return message

    def _file(self, number: int) -> Any:
        key = (number, ())
        if key in self._refused:
            raise ValueError(self._refused[key])
        response = self._registry.schema(number, serialized=True)
        try:
            pool = descriptor_pool.DescriptorPool()
            name = f"schema-{number}.proto"
            files: dict[str, Any] = {}
            self._read_files(response, name, files)
            _add_file(pool, name, files)
            return pool.FindFileByName(name)
        except BayouError:
            raise
        except Exception as error:  # the library raises various exceptions for invalid schemas
            is_missing = isinstance(error, _MissingImportError)
            what = str(error) if is_missing else f"isn't Protobuf: {error}"
            self._refused[key] = f"schema {number} of the registry {what}"
            raise ValueError(self._refused[key]) from error

    def _columns_of(self, key: tuple[int, tuple[int, ...]], descriptor: Descriptor) -> StructType:
        columns = self._columns.get(key)
        if key in self._refused:
            raise ValueError(self._refused[key])
        if columns is None:
            try:
                columns = self._columns[key] = _columns(descriptor, (), FieldCount())
            except SchemaTooLargeError as error:
                self._refused[key] = str(error)
                raise
        return columns

    def _read_files(self, response: Mapping[str, Any], name: str, files: dict[str, Any]) -> None:
        """Add the descriptors of a registered file and of all files that it references to `files`.

        Args:
            response: the registry's response for the file's schema.
            name: the name by which other files import the file.
        """
        schema = response["schema"]
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema))
        except (DecodeError, ValueError) as error:
            raise ValueError(f"{name} of the registry isn't a Protobuf descriptor") from error
        file.name = name
        if name in files:
            if files[name] != file:
                raise ValueError(f"its references have different files with the name {name}")
            return
        files[name] = file
        for reference in response.get("references") or ():
            referenced = self._registry.version(
                reference["subject"], reference["version"], serialized=True
            )
            self._read_files(referenced, reference["name"], files)


class _MissingImportError(ValueError):
    """A schema imports a file that it doesn't reference and that no installed package contains."""

    def __init__(self, name: str) -> None:
        message = f"imports {name}, which the registry doesn't list as a reference"
        if name.startswith("google/type/"):
            message += ". Install googleapis-common-protos, which contains this file"
        super().__init__(message)


def _add_file(pool: Any, name: str, registered: Mapping[str, Any]) -> None:
    """Add a file and its imports to a descriptor pool; files that the pool has are skipped.

    Args:
        registered: the descriptors of the registered files, by file name. All other files, such as
            `google/protobuf/any.proto`, are read from installed packages.

    Raises:
        _MissingImportError: a file is neither registered nor in an installed package.
    """
    try:
        pool.FindFileByName(name)
    except KeyError:
        file = registered[name] if name in registered else _installed_file(name)
    else:
        return  # it was added as the import of another file
    for dependency in file.dependency:
        _add_file(pool, dependency, registered)
    pool.AddSerializedFile(file.SerializeToString())


def _installed_file(name: str) -> Any:
    """Return the descriptor of a file that is part of an installed package."""
    for folder, package in _PACKAGES.items():
        if name.startswith(folder):
            module = name.removeprefix(folder).removesuffix(".proto").replace("/", ".") + "_pb2"
            try:
                descriptor = importlib.import_module(package + module).DESCRIPTOR
            except ImportError as error:
                raise _MissingImportError(name) from error
            if descriptor.name == name:
                return descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb)
    raise _MissingImportError(name)


def _indexes(data: bytes) -> tuple[list[int], bytes]:
    """Split a value into the indexes of its message type and the bytes of the message.

    The value starts with the number of indexes, followed by the indexes, all as zigzag varints. If
    this number is 0, no index follows, and the only index is 0.
    """
    count, at = _varint(data, 0)
    if count == 0:
        return [0], data[at:]
    indexes: list[int] = []
    for _ in range(count):
        index, at = _varint(data, at)
        indexes.append(index)
    return indexes, data[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("the message indexes after the schema registry's header are invalid")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _columns(descriptor: Descriptor, inside: tuple[str, ...], count: FieldCount) -> StructType:
    names = (*inside, descriptor.full_name)
    return StructType(tuple(_field(f, names, count) for f in descriptor.fields))


def _field(field: Any, inside: tuple[str, ...], count: FieldCount) -> StructField:
    count.add()
    kind = _type(field, inside, count)
    if kind is None:
        return StructField(name=field.name, data_type=STRING, metadata=JSON_TEXT)
    return StructField(name=field.name, data_type=kind)


def _type(field: Any, inside: tuple[str, ...], count: FieldCount) -> DataType | None:
    """Return the type of a field's column; None if the column stores JSON.

    The column stores JSON if the field is a message whose type is recursive or has no fields.
    """
    if _is_map(field):
        value = _single(field.message_type.fields_by_name["value"], inside, count)
        return None if value is None else MapType(key_type=STRING, value_type=value)
    single = _single(field, inside, count)
    if single is not None and field.is_repeated:
        return ArrayType(element_type=single)
    return single


def _single(field: Any, inside: tuple[str, ...], count: FieldCount) -> DataType | None:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        message = field.message_type
        if message.full_name == _TIMESTAMP_NAME:
            return TIMESTAMP
        if message.full_name in inside or not message.fields:
            return None
        return _columns(message, inside, count)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return BINARY if field.type == FieldDescriptor.TYPE_BYTES else STRING
    return _SCALARS[field.cpp_type]


def _is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _to_dict(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {}
    if message.DESCRIPTOR.is_extendable and message.Extensions:
        raise ValueError("the message has a Protobuf extension, which can't become a column")
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            kind = field.message_type.fields_by_name["value"]
            record[field.name] = {_key(k): _value(v, kind) for k, v in value.items()}
        elif field.is_repeated:
            record[field.name] = [_value(v, field) for v in value]
        elif field.has_presence and not message.HasField(field.name):
            record[field.name] = None
        else:
            record[field.name] = _value(value, field)
    return record


def _check_known(message: Message) -> None:
    """Raise `ValueError` if a message or a nested message has unknown fields or enum numbers."""
    size = len(message.SerializePartialToString())
    message.DiscardUnknownFields()
    if len(message.SerializePartialToString()) != size:
        raise ValueError(
            "doesn't match its Protobuf schema: it has a field or an enum value that the schema "
            "lacks"
        )


def _key(key: Any) -> str:
    if isinstance(key, bytes):
        raise _not_utf8()
    return str(key).lower() if isinstance(key, bool) else str(key)


def _not_utf8() -> ValueError:
    """Return the error for a string field that isn't UTF-8.

    In proto2, the parser doesn't raise an error for such a field. It returns the value as bytes.
    """
    return ValueError("doesn't match its Protobuf schema: a string isn't UTF-8")


def _value(value: Any, field: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.message_type.full_name == _TIMESTAMP_NAME:
            return f"{value.ToJsonString()}"
        return _to_dict(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        enum_value = field.enum_type.values_by_number.get(value)
        return str(value) if enum_value is None else enum_value.name
    if isinstance(value, bytes) and field.type != FieldDescriptor.TYPE_BYTES:
        raise _not_utf8()
    return value
