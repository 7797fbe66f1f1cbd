"""Transfers files and their partition values to the JVM with few py4j calls.

A py4j call takes at least 0.1 ms, so one call for each file of a long list would be too slow. The
paths of the files are transferred in a temporary file. Their sizes and modification times are
transferred as byte arrays, and partition values as an Arrow batch. Method handles, which are
created once for each JVM, process the elements of an array inside the JVM. For a list of at most
`_FEW_FILES` files, one call for each file is faster.
"""

from __future__ import annotations

import string
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.arrow.compute import pc
from bayou.spark.jvm.objects import JavaObject, cached, java_class, scala_seq, tested_with

__all__ = ["JavaFiles", "hadoop_uris"]


def hadoop_uris(paths: Any) -> Any:
    """Convert absolute paths to URIs for Hadoop. The scheme is `file`, or `s3a` for paths in S3."""
    local = pc.starts_with(paths, "/")
    if pc.all(local).as_py() is not False:
        return pc.binary_join_element_wise("file:", paths, "")
    s3 = pc.replace_substring_regex(paths, "^s3n?://", "s3a://")
    return pc.if_else(local, pc.binary_join_element_wise("file:", paths, ""), s3)


_FILES_AT_ONCE = 100_000
"""Maximum number of files in one transfer; limits the memory that a transfer needs."""

_FEW_FILES = 6
"""Maximum number of files for which a py4j call for each file is faster than method handles."""

_UNQUOTED = f"{string.ascii_letters}{string.digits}-._=/:\0".encode()
"""Bytes that need no percent-encoding in a URI. NUL is included, because it separates paths."""


class _Handles(NamedTuple):
    """Method handles that create file statuses and directories.

    Attributes:
        read_strings: takes the `java.nio.file.Path` of a file that contains strings, and returns
            these strings as a `String[]`.
        from_uris: takes (sizes, modification times, URIs, index), where the first three are arrays.
            Returns the `FileStatus` of the file at the index.
        from_strings: takes (sizes, modification times, Hadoop paths, index), where the first three
            are arrays. The paths can contain any character. Returns the `FileStatus` of the file at
            the index.
        directory: takes (rows, statuses, starts, ends, index), where the first four are arrays.
            Returns the `PartitionDirectory` with the partition values `rows[index]` and the files
            `statuses[starts[index]:ends[index]]`.
    """

    read_strings: JavaObject
    from_uris: JavaObject
    from_strings: JavaObject
    directory: JavaObject


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
        """Create a `FileStatus[]`.

        Args:
            uris: URIs as returned by `hadoop_uris`: paths with a scheme, without percent-encoding.
            sizes: sizes of the files in bytes, int64.
            times: modification times in ms since the epoch, int64.
        """
        status = self._java("org.apache.hadoop.fs.FileStatus")
        if len(uris) <= _FEW_FILES:
            path = self._java("org.apache.hadoop.fs.Path")
            files = zip(uris.to_pylist(), sizes.to_pylist(), times.to_pylist(), strict=True)
            created = (status(size, False, 0, 0, time, path(uri)) for uri, size, time in files)
            return self._array(status, *created)
        statuses = self._new_array(status, len(uris))
        for start in range(0, len(uris), _FILES_AT_ONCE):
            columns = (column.slice(start, _FILES_AT_ONCE) for column in (uris, sizes, times))
            created = self._statuses(*columns)
            self._java("java.lang.System").arraycopy(created, 0, statuses, start, len(created))
        return statuses

    def _statuses(self, uris: Any, sizes: Any, times: Any) -> JavaObject:
        """Create an `Object[]` that contains a `FileStatus` for each row of the three columns."""
        handles = self._own_handles()
        joined = _joined(uris)
        with self._temporary_file(joined) as file:
            strings = handles.read_strings.invokeWithArguments(self._objects(file))
        is_plain = not joined.translate(None, _UNQUOTED)
        of_index = self._handles.insertArguments(
            handles.from_uris if is_plain else handles.from_strings,
            0,
            self._objects(self._longs(sizes), self._longs(times), strings),
        )
        return self._mapped(self._streams.range(0, len(uris)), of_index).toArray()

    def _own_handles(self) -> _Handles:
        return cached(self._jvm, _Handles, self._new_handles)

    def _new_handles(self) -> _Handles:
        types, lookup = self._types, self._handles.publicLookup()
        string, path = self._class("java.lang.String"), self._class("org.apache.hadoop.fs.Path")
        uri, nothing = self._class("java.net.URI"), self._java("java.lang.Void").TYPE
        parse = lookup.findStatic(uri, "create", types.methodType(uri, string))
        from_uri = lookup.findConstructor(path, types.methodType(nothing, uri))
        from_string = lookup.findConstructor(path, types.methodType(nothing, string))
        return _Handles(
            read_strings=self._strings_reader(),
            from_uris=self._status_maker(self._handles.filterReturnValue(parse, from_uri)),
            from_strings=self._status_maker(from_string),
            directory=self._directory_maker(),
        )

    def _strings_reader(self) -> JavaObject:
        """Return a method handle that reads a file of strings, separated by NUL."""
        types, lookup = self._types, self._handles.publicLookup()
        string, data = self._class("java.lang.String"), self._class("[B")
        strings, path = self._class("[Ljava.lang.String;"), self._class("java.nio.file.Path")
        charset = self._classes(self._class("java.nio.charset.Charset"))
        utf_8 = self._java("java.nio.charset.StandardCharsets").UTF_8
        read = lookup.findStatic(
            self._class("java.nio.file.Files"), "readAllBytes", types.methodType(data, path)
        )
        decode = lookup.findConstructor(
            string, types.methodType(self._java("java.lang.Void").TYPE, data, charset)
        )
        split = lookup.findVirtual(string, "split", types.methodType(strings, string))
        bind, then = self._handles.insertArguments, self._handles.filterReturnValue
        text = then(read, bind(decode, 1, self._objects(utf_8)))
        return then(text, bind(split, 1, self._objects("\0")))

    def _status_maker(self, to_path: JavaObject) -> JavaObject:
        """Return the method handle `_Handles.from_uris` or `_Handles.from_strings`.

        Args:
            to_path: a method handle that converts a string to a Hadoop `Path`.
        """
        java, types, handles = self._java, self._types, self._handles
        long, integer = java("java.lang.Long").TYPE, java("java.lang.Integer").TYPE
        path = self._class("org.apache.hadoop.fs.Path")
        parameters = (java("java.lang.Boolean").TYPE, integer, long, long, path)
        status = handles.publicLookup().findConstructor(
            self._class("org.apache.hadoop.fs.FileStatus"),
            types.methodType(java("java.lang.Void").TYPE, long, self._classes(*parameters)),
        )
        no_directory = self._objects(False, 0, 0)  # replication, block size
        status = handles.insertArguments(status, 1, no_directory)
        element = handles.arrayElementGetter(self._class("[J"))
        strings = self._class("[Ljava.lang.String;")
        path_element = handles.filterReturnValue(handles.arrayElementGetter(strings), to_path)
        for position, getter in ((2, path_element), (1, element), (0, element)):
            status = handles.collectArguments(status, position, getter)
        longs = self._class("[J")
        wanted = types.methodType(status.type().returnType(), longs)
        wanted = wanted.appendParameterTypes(self._classes(longs, strings, integer))
        return handles.permuteArguments(status, wanted, self._order(0, 3, 1, 3, 2, 3))

    def _directory_maker(self) -> JavaObject:
        """Return the method handle `_Handles.directory`."""
        types, lookup, handles = self._types, self._handles.publicLookup(), self._handles
        integer, integers = self._java("java.lang.Integer").TYPE, self._class("[I")
        row = self._class("org.apache.spark.sql.catalyst.InternalRow")
        rows = self._class("[Lorg.apache.spark.sql.catalyst.InternalRow;")
        statuses = self._class("[Lorg.apache.hadoop.fs.FileStatus;")
        directory = self._class("org.apache.spark.sql.execution.datasources.PartitionDirectory")
        objects = self._class("[Ljava.lang.Object;")
        copy = lookup.findStatic(
            self._class("java.util.Arrays"),
            "copyOfRange",
            types.methodType(objects, objects, self._classes(integer, integer)),
        ).asType(types.methodType(statuses, statuses, self._classes(integer, integer)))
        element = handles.arrayElementGetter(integers)
        for position in (2, 1):
            copy = handles.collectArguments(copy, position, element)
        make = lookup.findStatic(
            directory, "apply", types.methodType(directory, row, self._classes(statuses))
        )
        make = handles.collectArguments(make, 1, copy)
        make = handles.collectArguments(make, 0, handles.arrayElementGetter(rows))
        parameters = self._classes(statuses, integers, integers, integer)
        wanted = types.methodType(directory, rows, parameters)
        return handles.permuteArguments(make, wanted, self._order(0, 4, 1, 2, 4, 3, 4))

    @contextmanager
    def _temporary_file(self, data: bytes) -> Iterator[JavaObject]:
        """Write data to a temporary file, and yield the file's `java.nio.file.Path`.

        This is faster than a py4j call with the data as argument, because py4j encodes data as
        Base64.
        """
        folder = str(self._spark.sparkContext._temp_dir)
        with ExitStack() as stack:
            try:
                file = stack.enter_context(tempfile.NamedTemporaryFile(dir=folder))
                file.write(data)
                file.flush()
            except OSError as error:
                raise StorageError(
                    f"{folder}: a temporary file for the list of a table's files can't be written "
                    f"({error.strerror}). Free space on this disk, or start the session with "
                    "another spark.local.dir.",
                    path=folder,
                ) from error
            yield self._java("java.io.File")(file.name).toPath()

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
        if len(offsets) == 2:  # all files are in one directory
            directory = "org.apache.spark.sql.execution.datasources.PartitionDirectory"
            row = self._java("java.lang.reflect.Array").get(rows, 0)
            return scala_seq(self._jvm, [self._java(directory).apply(row, statuses)])
        of_index = self._handles.insertArguments(
            self._own_handles().directory,
            0,
            self._objects(rows, statuses, self._ints(offsets[:-1]), self._ints(offsets[1:])),
        )
        directories = self._mapped(self._streams.range(0, len(offsets) - 1), of_index)
        return scala_seq(self._jvm, directories.toList())

    def take(self, rows: JavaObject, indexes: Any) -> JavaObject:
        """Create an `InternalRow[]` of the rows at these indexes."""
        row_class = self._class("org.apache.spark.sql.catalyst.InternalRow")
        selected = self._mapped(
            self._streams.of(self._ints(indexes)), self._getter(rows, row_class)
        )
        return self._typed(selected.toArray(), self._row, len(indexes))

    def uris(self, statuses: JavaObject) -> JavaObject:
        """Return a `FileStatus[]`'s URIs as a `String[]`, escaped as in `DataFrame.inputFiles`."""
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
        """Return the `java.lang.Class` object for a name in the format of `Class.getName`."""
        return cached(self._jvm, (JavaFiles, name), lambda: self._new_class(name))

    def _new_class(self, name: str) -> JavaObject:
        loader = self._java("java.lang.Thread").currentThread().getContextClassLoader()
        return self._java("java.lang.Class").forName(name, True, loader)

    def _array(self, element: JavaObject, *items: JavaObject) -> JavaObject:
        array = self._new_array(element, len(items))
        put = self._java("java.lang.reflect.Array").set  # `array[i] = item` asks for the length
        for i, item in enumerate(items):
            put(array, i, item)
        return array

    def _order(self, *arguments: int) -> JavaObject:
        """Create the `int[]` that is an argument of Java's `MethodHandles.permuteArguments`."""
        return self._ints(pa.array(arguments, pa.int32()))

    def _classes(self, *classes: JavaObject) -> JavaObject:
        return self._array(self._java("java.lang.Class"), *classes)

    def _objects(self, *items: JavaObject) -> JavaObject:
        return self._array(self._java("java.lang.Object"), *items)

    def _typed(self, array: JavaObject, element: JavaObject, length: int) -> JavaObject:
        """Copy an `Object[]` to an array whose elements have the class `element`."""
        typed = self._new_array(element, length)
        self._java("java.lang.System").arraycopy(array, 0, typed, 0, length)
        return typed

    def _getter(self, array: JavaObject, element: JavaObject) -> JavaObject:
        """Return a method handle that takes an index and returns the array's element at the index.

        Args:
            element: the `Class` of the elements.
        """
        getter = self._handles.arrayElementGetter(array.getClass()).bindTo(array)
        return getter.asType(self._types.methodType(element, self._java("java.lang.Integer").TYPE))

    def _of_index(self, handle: JavaObject, *getters: JavaObject) -> JavaObject:
        """Return a method handle that passes elements of arrays to `handle`.

        The method handle takes one index for each getter. It calls each getter with the getter's
        index, and passes the results to `handle`.

        Args:
            getters: method handles that `_getter` has created.
        """
        filters = self._array(self._java("java.lang.invoke.MethodHandle"), *getters)
        return self._handles.filterArguments(handle, 0, filters)

    def _mapped(self, indexes: JavaObject, handle: JavaObject) -> JavaObject:
        return indexes.mapToObj(self._function("java.util.function.IntFunction", handle))

    def _function(self, interface: str, handle: JavaObject) -> JavaObject:
        proxies = self._java("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self._class(interface), handle)

    def _longs(self, numbers: Any) -> JavaObject:
        """Convert an int64 Arrow array without nulls to a `long[]`."""
        array = self._new_array(self._java("long"), len(numbers))
        self._little_endian(numbers, 8).asLongBuffer().get(array)
        return array

    def _ints(self, numbers: Any) -> JavaObject:
        """Convert an int32 Arrow array without nulls to an `int[]`."""
        array = self._new_array(self._java("int"), len(numbers))
        self._little_endian(numbers, 4).asIntBuffer().get(array)
        return array

    def _little_endian(self, numbers: Any, width: int) -> JavaObject:
        """Convert an Arrow array of integers to a little-endian `ByteBuffer`.

        Args:
            width: number of bytes of each integer.
        """
        array: Any = numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers
        start = width * array.offset
        data = array.buffers()[1][start : start + width * len(array)].to_pybytes()
        little = self._java("java.nio.ByteOrder").LITTLE_ENDIAN
        return self._java("java.nio.ByteBuffer").wrap(data).order(little)

    def _from_ints(self, ints: JavaObject) -> pa.Array[Any]:
        """Convert an `int[]` to an int32 Arrow array."""
        little = self._java("java.nio.ByteOrder").LITTLE_ENDIAN
        buffer = self._java("java.nio.ByteBuffer").allocate(4 * len(ints)).order(little)
        buffer.asIntBuffer().put(ints)
        data = pa.py_buffer(bytes(buffer.array()))
        return pa.Array.from_buffers(pa.int32(), len(ints), [None, data])


def _joined(strings: Any) -> bytes:
    """Join the strings of a column with NUL between them, and encode the result as UTF-8."""
    array = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
    whole = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    joined: bytes = pc.binary_join(whole, "\0")[0].as_buffer().to_pybytes()
    return joined
