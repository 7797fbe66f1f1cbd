"""Transfer of lists of files and partition values to the JVM with few py4j calls.

A py4j call takes at least 0.1 ms, which is too long for a call for each file. File statuses are
transferred in Hadoop's serialization, partition values as an Arrow batch. Method handles process
the elements of an array inside the JVM.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.spark.jvm.objects import JavaObject, java_class, scala_seq, tested_with

__all__ = ["JavaFiles", "encode_statuses", "hadoop_uris"]


def hadoop_uris(paths: Any) -> Any:
    """Convert absolute paths to URIs for Hadoop. The scheme is `file`, or `s3a` for paths in S3."""
    local = pc.starts_with(paths, "/")
    if pc.all(local).as_py() is not False:
        return pc.binary_join_element_wise("file:", paths, "")
    s3 = pc.replace_substring_regex(paths, "^s3n?://", "s3a://")
    return pc.if_else(local, pc.binary_join_element_wise("file:", paths, ""), s3)


def encode_statuses(uris: Any, sizes: Any, times: Any) -> bytes:
    """Serialize file statuses for `ArrayWritable(FileStatus)`: a count and protobuf messages.

    Each message is a `FileStatusProto`, preceded by the size of the message. The fields are type,
    path, length, permission, owner, group and times. Varints are padded to a fixed size, so that
    Arrow functions can create all messages at once.

    Args:
        times: modification times in ms since the epoch.
    """
    count = len(uris)
    if count == 0:
        return struct.pack(">i", 0)
    lengths = pc.cast(pc.binary_length(uris), pa.int64())
    before_path = b"\x08\x02\x12"  # fileType = FT_FILE; path
    before_size = b"\x18"
    before_time = _FIXED + b"\x38"
    after_time = b"\x40\x00"  # access_time = 0
    fixed_size = len(before_path + before_size + before_time + after_time) + 4 + 8 + 8
    messages: Any = pc.binary_join_element_wise(
        _big_endian(pc.add(lengths, fixed_size)),
        pa.scalar(before_path),
        _varints(lengths, 4),
        pc.cast(uris, pa.binary()),
        pa.scalar(before_size),
        _varints(sizes, 8),
        pa.scalar(before_time),
        _varints(times, 8),
        pa.scalar(after_time),
        pa.scalar(b""),
    )
    if isinstance(messages, pa.ChunkedArray):
        messages = messages.combine_chunks()
    offsets = pa.Array.from_buffers(
        pa.int32(), count + 1, [None, messages.buffers()[1]], offset=messages.offset
    )
    data = messages.buffers()[2][offsets[0].as_py() : offsets[-1].as_py()]
    return struct.pack(">i", count) + bytes(data.to_pybytes())


@tested_with("4.2", "4.3")
class JavaFiles:
    """Creates arrays of files and partition values in the JVM of a session."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._jvm = spark._jvm
        self._new_array = spark.sparkContext._gateway.new_array
        self._handles = self._java("java.lang.invoke.MethodHandles")
        self._types = self._java("java.lang.invoke.MethodType")
        self._row = self._java("org.apache.spark.sql.catalyst.InternalRow")
        self._streams = self._java("java.util.stream.IntStream")

    def statuses(self, uris: Any, sizes: Any, times: Any) -> JavaObject:
        """Create a `FileStatus[]`; see `encode_statuses` for the arguments."""
        status = "org.apache.hadoop.fs.FileStatus"
        writable = self._java("org.apache.hadoop.io.ArrayWritable")(
            self._java("java.lang.Class").forName(status)
        )
        data = self._java("java.io.ByteArrayInputStream")(encode_statuses(uris, sizes, times))
        writable.readFields(self._java("java.io.DataInputStream")(data))
        return self._typed(writable.get(), self._java(status), len(uris))

    def rows(self, values: pa.Table, schema: Any) -> JavaObject:
        """Convert an Arrow table to an `InternalRow[]`; `schema` is the table's Spark schema.

        A table without columns is converted to one empty row.
        """
        if values.num_columns == 0:
            rows = self._new_array(self._row, 1)
            rows[0] = self._row.empty()
            return rows
        frame = self._spark.createDataFrame(values, schema)
        return frame._jdf.queryExecution().executedPlan().executeCollect()

    def matching(self, rows: JavaObject, predicate: JavaObject) -> pa.Array[Any]:
        """Return the indexes of the rows that satisfy a `BasePredicate` of Catalyst."""
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        base = self._class("org.apache.spark.sql.catalyst.expressions.BasePredicate")
        method = self._types.methodType(self._java("java.lang.Boolean").TYPE, row_class)
        evaluate = self._handles.publicLookup().findVirtual(base, "eval", method).bindTo(predicate)
        test = self._of_index(evaluate, self._getter(rows, row_class))
        indexes = self._streams.range(0, len(rows)).filter(
            self._function("java.util.function.IntPredicate", test)
        )
        return self._from_ints(indexes.toArray())

    def directories(self, rows: JavaObject, statuses: JavaObject, offsets: Any) -> JavaObject:
        """Create a Scala `Seq[PartitionDirectory]`.

        Args:
            rows: an `InternalRow[]` with the partition values of each directory.
            statuses: a `FileStatus[]` with the files of all directories, in order.
            offsets: the start of each directory in `statuses`, followed by the end of the last
                directory; int32.
        """
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        files_class = statuses.getClass()
        integer = self._java("java.lang.Integer").TYPE
        types, lookup = self._types, self._handles.publicLookup()
        directory = self._class("org.apache.spark.sql.execution.datasources.PartitionDirectory")
        apply = lookup.findStatic(
            directory, "apply", types.methodType(directory, row_class, self._classes(files_class))
        )
        objects = self._class("[Ljava.lang.Object;")
        copy = lookup.findStatic(
            self._class("java.util.Arrays"),
            "copyOfRange",
            types.methodType(objects, objects, self._classes(integer, integer)),
        ).asType(types.methodType(files_class, files_class, self._classes(integer, integer)))
        starts = self._getter(self._ints(offsets[:-1]), integer)
        ends = self._getter(self._ints(offsets[1:]), integer)
        slice_of = self._same_index(self._of_index(copy.bindTo(statuses), starts, ends))
        row_of = self._getter(rows, row_class)
        make = self._same_index(self._of_index(apply, row_of, slice_of))
        directories = self._mapped(self._streams.range(0, len(offsets) - 1), make)
        return scala_seq(self._jvm, directories.toList())

    def take(self, rows: JavaObject, indexes: Any) -> JavaObject:
        """Create an `InternalRow[]` of the rows at these indexes."""
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        selected = self._mapped(
            self._streams.of(self._ints(indexes)), self._getter(rows, row_class)
        )
        return self._typed(selected.toArray(), self._row, len(indexes))

    def uris(self, statuses: JavaObject) -> JavaObject:
        """Return the URIs of a `FileStatus[]` as a `String[]`, escaped as in `inputFiles`."""
        types, lookup = self._types, self._handles.publicLookup()
        status = self._class("org.apache.hadoop.fs.FileStatus")
        path = self._class("org.apache.hadoop.fs.Path")
        uri, string = self._class("java.net.URI"), self._class("java.lang.String")
        to_path = lookup.findVirtual(status, "getPath", types.methodType(path))
        to_uri = lookup.findVirtual(path, "toUri", types.methodType(uri))
        to_string = lookup.findVirtual(uri, "toString", types.methodType(string))
        then = self._handles.filterReturnValue
        of_index = self._of_index(
            then(then(to_path, to_uri), to_string), self._getter(statuses, status)
        )
        uris = self._mapped(self._streams.range(0, len(statuses)), of_index).toArray()
        return self._typed(uris, self._java("java.lang.String"), len(statuses))

    def _java(self, name: str) -> JavaObject:
        return java_class(self._jvm, name)

    def _class(self, name: str) -> JavaObject:
        loader = self._java("java.lang.Thread").currentThread().getContextClassLoader()
        return self._java("java.lang.Class").forName(name, True, loader)

    def _array(self, element: JavaObject, *items: JavaObject) -> JavaObject:
        array = self._new_array(element, len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def _classes(self, *classes: JavaObject) -> JavaObject:
        return self._array(self._java("java.lang.Class"), *classes)

    def _typed(self, array: JavaObject, element: JavaObject, length: int) -> JavaObject:
        """Copy an `Object[]` to an array with another element type."""
        typed = self._new_array(element, length)
        self._java("java.lang.System").arraycopy(array, 0, typed, 0, length)
        return typed

    def _getter(self, array: JavaObject, element: JavaObject) -> JavaObject:
        """Return a method handle that takes an index and returns the array's element."""
        getter = self._handles.arrayElementGetter(array.getClass()).bindTo(array)
        return getter.asType(self._types.methodType(element, self._java("java.lang.Integer").TYPE))

    def _of_index(self, handle: JavaObject, *getters: JavaObject) -> JavaObject:
        """Return a method handle that calls `handle` with the results of getters.

        The method handle takes an index for each getter.
        """
        filters = self._array(self._java("java.lang.invoke.MethodHandle"), *getters)
        return self._handles.filterArguments(handle, 0, filters)

    def _same_index(self, handle: JavaObject) -> JavaObject:
        """Return a method handle that takes one argument, and passes it to `handle` twice."""
        one_index = self._types.methodType(
            handle.type().returnType(), self._java("java.lang.Integer").TYPE
        )
        order = self._new_array(self._jvm.int, 2)
        return self._handles.permuteArguments(handle, one_index, order)

    def _mapped(self, indexes: JavaObject, handle: JavaObject) -> JavaObject:
        return indexes.mapToObj(self._function("java.util.function.IntFunction", handle))

    def _function(self, interface: str, handle: JavaObject) -> JavaObject:
        proxies = self._java("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class(interface), handle)

    def _ints(self, numbers: Any) -> JavaObject:
        """Convert an int32 Arrow array without nulls to an `int[]`."""
        start = 4 * numbers.offset
        data = numbers.buffers()[1][start : start + 4 * len(numbers)].to_pybytes()
        array = self._new_array(self._jvm.int, len(numbers))
        little = self._java("java.nio.ByteOrder").LITTLE_ENDIAN
        self._java("java.nio.ByteBuffer").wrap(data).order(little).asIntBuffer().get(array)
        return array

    def _from_ints(self, ints: JavaObject) -> pa.Array[Any]:
        """Convert an `int[]` to an int32 Arrow array."""
        little = self._java("java.nio.ByteOrder").LITTLE_ENDIAN
        buffer = self._java("java.nio.ByteBuffer").allocate(4 * len(ints)).order(little)
        buffer.asIntBuffer().put(ints)
        data = pa.py_buffer(bytes(buffer.array()))
        return pa.Array.from_buffers(pa.int32(), len(ints), [None, data])


_FIXED = bytes((0x22, 3, 0x08, 0xA4, 0x03, 0x2A, 0, 0x32, 0))
"""Required fields that Spark doesn't use: permission = 0644, empty owner and group."""


def _varints(values: Any, width: int) -> Any:
    """Encode values below 2^(7 * width) as varints of exactly `width` bytes (4 or 8)."""
    encoded = pc.bit_wise_and(values, 0x7F)
    for i in range(1, width):
        group = pc.bit_wise_and(pc.shift_right(values, 7 * i), 0x7F)
        encoded = pc.bit_wise_or(encoded, pc.shift_left(group, 8 * i))
    # The continuation bit is set in all bytes except the last.
    continuation = int.from_bytes(bytes([0x80] * (width - 1)), "little")
    return _bytes_of(pc.bit_wise_or(encoded, pa.scalar(continuation, pa.int64())), width)


def _big_endian(values: Any) -> Any:
    """Encode values below 2^31 as 4 bytes in big-endian order."""
    encoded: Any = pc.bit_wise_and(pc.shift_right(values, 24), 0xFF)
    for i in range(1, 4):
        byte = pc.bit_wise_and(pc.shift_right(values, 24 - 8 * i), 0xFF)
        encoded = pc.bit_wise_or(encoded, pc.shift_left(byte, 8 * i))
    return _bytes_of(encoded, 4)


def _bytes_of(values: Any, width: int) -> Any:
    """Return the `width` low bytes of each 64-bit integer as a binary column."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    eight = pa.Array.from_buffers(
        pa.binary(8), len(array), [None, array.buffers()[1]], offset=array.offset
    )
    binary = pc.cast(eight, pa.binary())
    return binary if width == 8 else pc.binary_slice(binary, 0, width)
