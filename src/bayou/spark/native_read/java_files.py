"""Bulk transfer of files and partition values to the JVM, with a few py4j calls for all files.

A py4j call takes at least 0.1 ms, so there is no call for each file. File statuses are transferred
in Hadoop's own serialization, partition values as an Arrow batch. Operations on each element run in
the JVM, as method handles that are composed here.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.spark.jvm.classes import java_class

__all__ = ["JavaFiles", "encode_statuses", "hadoop_uris"]


def hadoop_uris(paths: Any) -> Any:
    """The URIs of absolute paths in Hadoop: with a scheme, which is `s3a` for S3."""
    local = pc.starts_with(paths, "/")
    if pc.all(local).as_py() is not False:
        return pc.binary_join_element_wise("file:", paths, "")
    s3 = pc.replace_substring_regex(paths, "^s3n?://", "s3a://")
    return pc.if_else(local, pc.binary_join_element_wise("file:", paths, ""), s3)


def encode_statuses(uris: Any, sizes: Any, times: Any) -> bytes:
    """Serialize file statuses for `ArrayWritable(FileStatus)`: a count and protobuf messages.

    Each message is a `FileStatusProto` with its length: type, path, length, permission, owner,
    group and times. Numbers have the same number of bytes in all messages, with padded varints, so
    that all messages are built at once.

    Args:
        uris: URIs with a scheme.
        sizes: sizes in bytes.
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
    rest = len(before_path + before_size + before_time + after_time) + 4 + 8 + 8
    messages: Any = pc.binary_join_element_wise(
        _big_endian(pc.add(lengths, rest)),
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


class JavaFiles:
    """Creates Spark's JVM objects for files and partitions, with a session's gateway."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001  # no public API
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001

    def statuses(self, uris: Any, sizes: Any, times: Any) -> Any:
        """Create a `FileStatus[]`."""
        jvm = self._jvm
        writable = java_class(jvm, "org.apache.hadoop.io.ArrayWritable")(
            java_class(jvm, "java.lang.Class").forName("org.apache.hadoop.fs.FileStatus")
        )
        data = encode_statuses(uris, sizes, times)
        writable.readFields(
            java_class(jvm, "java.io.DataInputStream")(
                java_class(jvm, "java.io.ByteArrayInputStream")(data)
            )
        )
        return self._typed(
            writable.get(), java_class(jvm, "org.apache.hadoop.fs.FileStatus"), len(uris)
        )

    def rows(self, values: pa.Table, schema: Any) -> Any:
        """Create an `InternalRow[]`.

        Args:
            values: a table with at least one column.
            schema: Spark's schema of the table.
        """
        frame = self._spark.createDataFrame(values, schema)
        return frame._jdf.queryExecution().executedPlan().executeCollect()  # noqa: SLF001

    def matching(self, rows: Any, count: int, predicate: Any) -> Any:
        """The indexes of the rows for which a `BasePredicate` of Catalyst is true."""
        jvm, handles = self._jvm, self._handles()
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        base = self._class("org.apache.spark.sql.catalyst.expressions.BasePredicate")
        boolean = java_class(jvm, "java.lang.Boolean").TYPE
        method = java_class(jvm, "java.lang.invoke.MethodType").methodType(boolean, row_class)
        lookup = java_class(jvm, "java.lang.invoke.MethodHandles").publicLookup()
        evaluate = lookup.findVirtual(base, "eval", method).bindTo(predicate)
        test = handles.filterArguments(evaluate, 0, self._array(self._getter(rows, row_class)))
        indexes = (
            java_class(jvm, "java.util.stream.IntStream")
            .range(0, count)
            .filter(self._function("java.util.function.IntPredicate", test))
            .toArray()
        )
        return self._from_ints(indexes)

    def directories(self, rows: Any, statuses: Any, offsets: Any) -> Any:
        """Create a Scala `Seq[PartitionDirectory]`.

        Args:
            rows: an `InternalRow[]` with the partition values of each directory.
            statuses: a `FileStatus[]` with the files of all directories, in order.
            offsets: the start of each directory in `statuses`, and the end of the last; int32.
        """
        jvm, handles = self._jvm, self._handles()
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        files_class = statuses.getClass()
        integer = java_class(jvm, "java.lang.Integer").TYPE
        types = java_class(jvm, "java.lang.invoke.MethodType")
        lookup = java_class(jvm, "java.lang.invoke.MethodHandles").publicLookup()
        directory = self._class("org.apache.spark.sql.execution.datasources.PartitionDirectory")
        apply = lookup.findStatic(
            directory,
            "apply",
            types.methodType(directory, row_class, self._classes(files_class)),
        )
        objects = self._class("[Ljava.lang.Object;")
        copy = lookup.findStatic(
            self._class("java.util.Arrays"),
            "copyOfRange",
            types.methodType(objects, objects, self._classes(integer, integer)),
        ).asType(types.methodType(files_class, files_class, self._classes(integer, integer)))
        copy = copy.bindTo(statuses)
        starts = self._getter(self._ints(offsets[:-1]), integer)
        ends = self._getter(self._ints(offsets[1:]), integer)
        slice_of = self._same_index(handles.filterArguments(copy, 0, self._array(starts, ends)))
        row_of = self._getter(rows, row_class)
        make = self._same_index(handles.filterArguments(apply, 0, self._array(row_of, slice_of)))
        directories = (
            java_class(jvm, "java.util.stream.IntStream")
            .range(0, len(offsets) - 1)
            .mapToObj(self._function("java.util.function.IntFunction", make))
            .toList()
        )
        return java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq(directories)

    def take(self, rows: Any, indices: Any) -> Any:
        """Create an `InternalRow[]` of the rows at these indexes."""
        jvm = self._jvm
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        selected = (
            java_class(jvm, "java.util.stream.IntStream")
            .of(self._ints(indices))
            .mapToObj(
                self._function("java.util.function.IntFunction", self._getter(rows, row_class))
            )
            .toArray()
        )
        return self._typed(
            selected, java_class(jvm, "org.apache.spark.sql.catalyst.InternalRow"), len(indices)
        )

    def uris(self, statuses: Any) -> Any:
        """The URIs of a `FileStatus[]` as a `String[]`, escaped as in Spark's own `inputFiles`."""
        jvm = self._jvm
        types, lookup = (
            java_class(jvm, "java.lang.invoke.MethodType"),
            self._handles().publicLookup(),
        )
        status = self._class("org.apache.hadoop.fs.FileStatus")
        path = self._class("org.apache.hadoop.fs.Path")
        uri, string = self._class("java.net.URI"), self._class("java.lang.String")
        to_path = lookup.findVirtual(status, "getPath", types.methodType(path))
        to_uri = lookup.findVirtual(path, "toUri", types.methodType(uri))
        to_string = lookup.findVirtual(uri, "toString", types.methodType(string))
        handles = self._handles()
        convert = handles.filterReturnValue(handles.filterReturnValue(to_path, to_uri), to_string)
        of_index = handles.filterArguments(convert, 0, self._array(self._getter(statuses, status)))
        count = java_class(jvm, "java.lang.reflect.Array").getLength(statuses)
        uris = (
            java_class(jvm, "java.util.stream.IntStream")
            .range(0, count)
            .mapToObj(self._function("java.util.function.IntFunction", of_index))
            .toArray()
        )
        return self._typed(uris, java_class(jvm, "java.lang.String"), count)

    def empty_row(self) -> Any:
        """Create an `InternalRow[]` of one row without columns."""
        row_class = java_class(self._jvm, "org.apache.spark.sql.catalyst.InternalRow")
        rows = self._gateway.new_array(row_class, 1)
        rows[0] = row_class.empty()
        return rows

    def _typed(self, array: Any, element: Any, length: int) -> Any:
        """A copy of an `Object[]` as an array of the element type."""
        typed = self._gateway.new_array(element, length)
        java_class(self._jvm, "java.lang.System").arraycopy(array, 0, typed, 0, length)
        return typed

    def _handles(self) -> Any:
        return java_class(self._jvm, "java.lang.invoke.MethodHandles")

    def _class(self, name: str) -> Any:
        loader = java_class(self._jvm, "java.lang.Thread").currentThread().getContextClassLoader()
        return java_class(self._jvm, "java.lang.Class").forName(name, True, loader)

    def _classes(self, *classes: Any) -> Any:
        array = self._gateway.new_array(java_class(self._jvm, "java.lang.Class"), len(classes))
        for i, one in enumerate(classes):
            array[i] = one
        return array

    def _array(self, *handles: Any) -> Any:
        array = self._gateway.new_array(
            java_class(self._jvm, "java.lang.invoke.MethodHandle"), len(handles)
        )
        for i, one in enumerate(handles):
            array[i] = one
        return array

    def _getter(self, array: Any, element: Any) -> Any:
        """A method handle from an index to the array's element."""
        types = java_class(self._jvm, "java.lang.invoke.MethodType")
        getter = self._handles().arrayElementGetter(array.getClass()).bindTo(array)
        return getter.asType(
            types.methodType(element, java_class(self._jvm, "java.lang.Integer").TYPE)
        )

    def _same_index(self, handle: Any) -> Any:
        """A method handle of two indexes as a handle that passes one index twice."""
        integer = java_class(self._jvm, "java.lang.Integer").TYPE
        types = java_class(self._jvm, "java.lang.invoke.MethodType")
        order = self._gateway.new_array(self._jvm.int, 2)
        return self._handles().permuteArguments(
            handle, types.methodType(handle.type().returnType(), integer), order
        )

    def _function(self, interface: str, handle: Any) -> Any:
        proxies = java_class(self._jvm, "java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class(interface), handle)

    def _ints(self, numbers: Any) -> Any:
        """An `int[]` of an int32 Arrow array without nulls."""
        start = 4 * numbers.offset
        data = numbers.buffers()[1][start : start + 4 * len(numbers)].to_pybytes()
        array = self._gateway.new_array(self._jvm.int, len(numbers))
        little = java_class(self._jvm, "java.nio.ByteOrder").LITTLE_ENDIAN
        java_class(self._jvm, "java.nio.ByteBuffer").wrap(data).order(little).asIntBuffer().get(
            array
        )
        return array

    def _from_ints(self, ints: Any) -> Any:
        """An int32 Arrow array of an `int[]`."""
        little = java_class(self._jvm, "java.nio.ByteOrder").LITTLE_ENDIAN
        buffer = java_class(self._jvm, "java.nio.ByteBuffer").allocate(4 * len(ints)).order(little)
        buffer.asIntBuffer().put(ints)
        data = pa.py_buffer(bytes(buffer.array()))
        return pa.Array.from_buffers(pa.int32(), len(ints), [None, data])


_FIXED = bytes((0x22, 3, 0x08, 0xA4, 0x03, 0x2A, 0, 0x32, 0))
"""permission = 0644, empty owner and group: required fields that no reader uses."""


def _varints(values: Any, width: int) -> Any:
    """Varints of `width` bytes (4 or 8), of values below 2^(7 * width)."""
    spread = pc.bit_wise_and(values, 0x7F)
    for i in range(1, width):
        group = pc.bit_wise_and(pc.shift_right(values, 7 * i), 0x7F)
        spread = pc.bit_wise_or(spread, pc.shift_left(group, 8 * i))
    # The continuation bit of all bytes but the last.
    continuation = int.from_bytes(bytes([0x80] * (width - 1)), "little")
    return _bytes_of(pc.bit_wise_or(spread, pa.scalar(continuation, pa.int64())), width)


def _big_endian(values: Any) -> Any:
    """Values below 2^31 as 4 bytes in big-endian order."""
    swapped: Any = pc.bit_wise_and(pc.shift_right(values, 24), 0xFF)
    for i in range(1, 4):
        byte = pc.bit_wise_and(pc.shift_right(values, 24 - 8 * i), 0xFF)
        swapped = pc.bit_wise_or(swapped, pc.shift_left(byte, 8 * i))
    return _bytes_of(swapped, 4)


def _bytes_of(values: Any, width: int) -> Any:
    """The low bytes of 64-bit integers, as a binary column."""
    wide = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    eight = pa.Array.from_buffers(
        pa.binary(8), len(wide), [None, wide.buffers()[1]], offset=wide.offset
    )
    binary = pc.cast(eight, pa.binary())
    return binary if width == 8 else pc.binary_slice(binary, 0, width)
