"""The DataFrame of a native scan: Spark's Parquet reader with a `DeltaFileIndex`.

With column mapping, columns are renamed from physical to logical names. Nested fields are renamed
by `withField` and not by a cast, because Catalyst can't prune the fields of a cast struct. Catalyst
simplifies calls of `withField` (`SimplifyExtractValueOps`). Therefore a query of one field reads
only this field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from bayou.engines import from_description
from bayou.kernel import Engine, ScanFile, ScanState, Snapshot, read_scan_file
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.table_features.column_mapping import ID_KEY, physical_name, to_physical_schema
from bayou.protocol.schema import VOID
from bayou.protocol.schema import StructType as TableSchema
from bayou.protocol.sql import quote_identifier
from bayou.spark.jvm.file_index import file_index_frame, sql_conf
from bayou.spark.jvm.streaming import current_micro_batch
from bayou.spark.native_read.deletion_vectors import FileVectors, deleted_rows_frame, file_vectors
from bayou.spark.native_read.file_index import DeltaFileIndex, FileListing
from bayou.spark.read.char_padding import CharPadding, pads_char
from bayou.spark.read.filters import cast_to_schema
from bayou.spark.types import to_spark, to_spark_arrow, unused_name


def renamed(column: Column, physical: DataType, logical: DataType) -> Column:
    """Rename the nested fields of a column from their physical names to their logical names.

    Structs are rebuilt field by field. Two kinds of columns are cast instead: arrays and maps of
    structs, and structs with non-nullable fields or field metadata. A rebuilt struct would lose
    nullability and metadata.

    Args:
        physical: the column's type with physical names.
        logical: the column's type with logical names.
    """
    if physical.simpleString() == logical.simpleString():
        return column
    if isinstance(physical, StructType) and isinstance(logical, StructType) and _plain(logical):
        return _rebuilt_struct(column, physical, logical)
    return column.cast(logical)


def _plain(logical: StructType) -> bool:
    return all(field.nullable and not field.metadata for field in logical)


def _rebuilt_struct(column: Column, physical: StructType, logical: StructType) -> Column:
    values = [
        renamed(column.getField(source.name), source.dataType, target.dataType)
        for source, target in zip(physical, logical, strict=True)
    ]
    if physical.names == logical.names:  # only nested fields are renamed
        for source, target, value in zip(physical, logical, values, strict=True):
            if source.dataType.simpleString() != target.dataType.simpleString():
                column = column.withField(quote_identifier(target.name), value)
        return column
    used_names = {name.lower() for name in physical.names}
    if used_names.isdisjoint(name.lower() for name in logical.names):
        return _with_fields(column, logical.names, values).dropFields(*_quoted(physical.names))
    # If physical and logical names overlap, fields are renamed in two steps, with temporary names.
    used_names |= {name.lower() for name in logical.names}
    temporary = _unused_names(len(values), used_names)
    renamed_struct = _with_fields(column, temporary, values).dropFields(*_quoted(physical.names))
    fields = [renamed_struct.getField(name) for name in temporary]
    return _with_fields(renamed_struct, logical.names, fields).dropFields(*_quoted(temporary))


def _with_fields(column: Column, names: list[str], values: list[Column]) -> Column:
    for name, value in zip(names, values, strict=True):
        column = column.withField(quote_identifier(name), value)
    return column


def _unused_names(count: int, used_names: set[str]) -> list[str]:
    prefix = "field"
    while any(name.startswith(prefix) for name in used_names):
        prefix = f"_{prefix}"
    return [f"{prefix}{number}" for number in range(count)]


def _quoted(names: Any) -> list[str]:
    return [quote_identifier(name) for name in names]


_FIELD_ID = "parquet.field.id"
_FIELD_ID_CONF = "spark.sql.parquet.fieldId.read.enabled"
_CALENDAR = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""With these options, Spark's Parquet reader doesn't rebase dates and timestamps.

Without them, the session's rebase modes would apply to files that Spark didn't write. The kernel
doesn't rebase these files either.
"""

_EXISTING_DEFAULT = "EXISTS_DEFAULT"
"""Spark's metadata key for the default value of a column in files that lack the column.

The key is removed from the schema, because in Delta this value is always null.
"""


def native_frame(
    spark: Any,
    engine: Engine,
    snapshot: Snapshot,
    *,
    time_zone: str,
    max_deleted_rows: int,
    options: Mapping[str, str],
    follows_streams: bool = False,
) -> DataFrame:
    """Return the rows of the version `snapshot` as a DataFrame.

    Args:
        time_zone: the session's time zone.
        max_deleted_rows: maximum number of deleted rows to broadcast; see `file_vectors`.
        options: options of Hadoop's file system, and options that are recorded in the plan.
        follows_streams: whether each micro-batch of a stream that is joined with the DataFrame
            reads the latest version. `snapshot` is always read in two cases. First, the table
            supports deletion vectors: the plan contains the deleted rows of `snapshot`. Second, the
            DataFrame is created in the function of `foreachBatch`, and isn't part of the stream.
    """
    vectors = None
    may_have_vectors = snapshot.scan_builder().build().scan_state(engine).deletion_vectors
    if may_have_vectors:
        vectors = file_vectors(engine, snapshot, max_deleted_rows)
    listing = FileListing(
        spark=spark,
        engine=engine,
        snapshot=snapshot,
        time_zone=time_zone,
        keys=None if vectors is None else vectors.keys,
        kernel_keys=None if vectors is None else vectors.kernel_keys,
    )
    logical = to_spark(snapshot.schema)
    physical = _physical(snapshot)
    number = unused_name("file_number", physical.names)
    partitions = StructType(
        [physical[physical_name(_field(snapshot.schema, n))] for n in snapshot.partition_columns]
    )
    if vectors is not None:
        partitions = partitions.add(StructField(number, IntegerType(), nullable=False))
    index = DeltaFileIndex(
        listing,
        partitions,
        sql_conf(spark),
        ignored_columns=frozenset(_collated(physical.fields)),
        follows_streams=follows_streams
        and not may_have_vectors
        and current_micro_batch(spark) is None,
    )
    options = {**options, **_CALENDAR}
    if snapshot.column_mapping == "id":
        options[_FIELD_ID_CONF] = "true"
    frame = file_index_frame(spark, index, physical, options)
    if vectors is None:
        if logical.names == physical.names and snapshot.column_mapping == "none":
            return frame
        return frame.select(_columns(snapshot.schema, logical, physical))
    position = unused_name("position", [*physical.names, number])
    deleted_file = unused_name("deleted_file", [*physical.names, number, position])
    deleted_position = unused_name("deleted_position", [*physical.names, number, position])
    deleted = deleted_rows_frame(spark, engine.description(), snapshot.path, vectors)
    live = frame.withColumn(position, F.col("_metadata.row_index").cast("int")).join(
        F.broadcast(deleted.toDF(deleted_file, deleted_position)),
        on=(F.col(quote_identifier(number)) == F.col(deleted_file))
        & (F.col(quote_identifier(position)) == F.col(deleted_position)),
        how="left_anti",
    )
    native = live.select(_columns(snapshot.schema, logical, physical))
    if not vectors.scan_files:
        return native
    return native.unionByName(
        _kernel_read(spark, engine, snapshot, vectors, logical, time_zone=time_zone)
    )


def _physical(snapshot: Snapshot) -> StructType:
    """Return Spark's schema of all columns, including partition columns, with physical names."""
    schema = to_physical_schema(snapshot.schema, snapshot.column_mapping)
    without_void = TableSchema(tuple(f for f in schema if f.data_type != VOID))
    spark_schema = to_spark(without_void)
    with_ids = snapshot.column_mapping == "id"
    fields = []
    for field, known in zip(spark_schema.fields, without_void, strict=True):
        metadata = {k: v for k, v in field.metadata.items() if k != _EXISTING_DEFAULT}
        if with_ids:
            metadata[_FIELD_ID] = known.metadata[ID_KEY]
        data_type = _with_ids(field.dataType, known.data_type) if with_ids else field.dataType
        fields.append(StructField(field.name, data_type, field.nullable, metadata))
    return StructType(fields)


def _with_ids(data_type: DataType, known: Any) -> DataType:
    match data_type:
        case StructType():
            return StructType(
                [
                    StructField(
                        field.name,
                        _with_ids(field.dataType, inner.data_type),
                        field.nullable,
                        {**field.metadata, _FIELD_ID: inner.metadata[ID_KEY]},
                    )
                    for field, inner in zip(data_type.fields, known, strict=True)
                ]
            )
        case ArrayType():
            inner = _with_ids(data_type.elementType, known.element_type)
            return ArrayType(inner, data_type.containsNull)
        case MapType():
            return MapType(
                _with_ids(data_type.keyType, known.key_type),
                _with_ids(data_type.valueType, known.value_type),
                data_type.valueContainsNull,
            )
        case _:
            return data_type


def _columns(schema: TableSchema, logical: StructType, physical: StructType) -> list[Column]:
    """Return Columns that convert the scan's physical columns to the table's logical columns."""
    columns = []
    for field, known in zip(logical.fields, schema, strict=True):
        if known.data_type == VOID:
            column = F.lit(None)
        else:
            name = physical_name(known)
            column = F.col(quote_identifier(name))
            if physical[name].dataType.simpleString() != field.dataType.simpleString():
                column = renamed(column, physical[name].dataType, field.dataType)
        columns.append(column.alias(field.name, metadata=field.metadata))
    return columns


def _kernel_read(
    spark: Any,
    engine: Engine,
    snapshot: Snapshot,
    vectors: FileVectors,
    logical: StructType,
    *,
    time_zone: str,
) -> DataFrame:
    """Return the rows of `vectors.scan_files`, which the kernel reads on executors."""
    description: EngineDescription = engine.description()
    scan = snapshot.scan_builder().with_time_zone(time_zone).build()
    state = scan.scan_state(engine).to_bytes()
    expected = to_spark_arrow(snapshot.schema)
    padding = CharPadding(snapshot.schema if pads_char(spark) else TableSchema())

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_engine, scan_state = from_description(description), ScanState.from_bytes(state)
        for batch in batches:
            serialized: list[Any] = batch.column(0).to_pylist()
            for data in serialized:
                for rows in read_scan_file(task_engine, scan_state, ScanFile.from_bytes(data)):
                    yield padding.pad(cast_to_schema(rows, expected))

    files = spark.createDataFrame(pa.table({"file": pa.array(vectors.scan_files, pa.binary())}))
    frame: DataFrame = files.repartition(len(vectors.scan_files)).mapInArrow(read, logical)
    return frame


def _field(schema: TableSchema, name: str) -> Any:
    field = schema.get(name)
    assert field is not None  # checked when the table was opened
    return field


def _collated(fields: Iterable[StructField]) -> Iterator[str]:
    for field in fields:
        if _has_collation(field.dataType):
            yield field.name


def _has_collation(data_type: DataType) -> bool:
    match data_type:
        case StringType():
            return getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY"
        case StructType(fields=fields):
            return any(_has_collation(f.dataType) for f in fields)
        case ArrayType(elementType=element):
            return _has_collation(element)
        case MapType(keyType=key, valueType=value):
            return _has_collation(key) or _has_collation(value)
        case NullType() | _:
            return False
