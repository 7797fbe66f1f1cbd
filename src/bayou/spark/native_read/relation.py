"""A DataFrame over Spark's own Parquet reader, with the kernel's list of files below it.

Structs under their logical names, in a form through which Spark still prunes fields.

A cast from physical to logical names is opaque to Catalyst: whoever asks for one field of the
result has the whole struct read. Fields that are put into the struct it sees through
(`SimplifyExtractValueOps`): it takes the physical field itself, and reads no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
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
from bayou.spark.jvm.classes import java_class
from bayou.spark.native_read.deletion_vectors import FileVectors, deleted_rows_frame, file_vectors
from bayou.spark.native_read.file_index import DeltaFileIndex
from bayou.spark.native_read.file_listing import Listing
from bayou.spark.types import to_spark, to_spark_arrow

__all__ = ["native_frame", "renamed"]


def renamed(column: Column, physical: DataType, logical: DataType) -> Column:
    """A column of a physical type, of the same shape as the logical one, as the latter.

    Structs are taken apart; arrays and maps of structs, and structs whose fields aren't nullable or
    have metadata (both would be lost), are cast.
    """
    if physical.simpleString() == logical.simpleString():
        return column
    if isinstance(physical, StructType) and isinstance(logical, StructType) and _plain(logical):
        return _taken_apart(column, physical, logical)
    return column.cast(logical)


def _plain(logical: StructType) -> bool:
    return all(field.nullable and not field.metadata for field in logical)


def _taken_apart(column: Column, physical: StructType, logical: StructType) -> Column:
    values = [
        renamed(column.getField(below.name), below.dataType, above.dataType)
        for below, above in zip(physical, logical, strict=True)
    ]
    if physical.names == logical.names:  # deeper ones alone are renamed, each where it stands
        for below, above, value in zip(physical, logical, values, strict=True):
            if below.dataType.simpleString() != above.dataType.simpleString():
                column = column.withField(_quoted(above.name), value)
        return column
    taken = {name.lower() for name in physical.names}
    if taken.isdisjoint(name.lower() for name in logical.names):
        return _with_fields(column, logical.names, values).dropFields(*_all_quoted(physical.names))
    # Names that are below and above, perhaps of other fields: by way of names that are neither.
    taken |= {name.lower() for name in logical.names}
    between = _unused_names(len(values), taken)
    moved = _with_fields(column, between, values).dropFields(*_all_quoted(physical.names))
    named = [moved.getField(name) for name in between]
    return _with_fields(moved, logical.names, named).dropFields(*_all_quoted(between))


def _with_fields(column: Column, names: list[str], values: list[Column]) -> Column:
    for name, value in zip(names, values, strict=True):
        column = column.withField(_quoted(name), value)
    return column


def _unused_names(count: int, taken: set[str]) -> list[str]:
    prefix = "field"
    while any(name.startswith(prefix) for name in taken):
        prefix = f"_{prefix}"
    return [f"{prefix}{number}" for number in range(count)]


def _all_quoted(names: Any) -> list[str]:
    return [_quoted(name) for name in names]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_FIELD_ID = "parquet.field.id"
_FIELD_ID_CONF = "spark.sql.parquet.fieldId.read.enabled"
_EXISTING_DEFAULT = "EXISTS_DEFAULT"
"""Metadata by which Spark's Parquet reader fills columns that a file doesn't have; in a Delta table
they are null."""


def native_frame(
    spark: Any,
    engine: Engine,
    snapshot: Snapshot,
    *,
    time_zone: str,
    max_deleted_rows: int,
    options: Mapping[str, str],
) -> DataFrame:
    """The rows of a version.

    Args:
        spark: a classic session.
        time_zone: the session's.
        max_deleted_rows: see `file_vectors`.
        options: of Hadoop's file system, and what the relation says of itself.
    """
    vectors = None
    if snapshot.scan_builder().build().scan_state(engine).deletion_vectors:
        vectors = file_vectors(engine, snapshot, max_deleted_rows)
    listing = Listing(
        engine=engine,
        snapshot=snapshot,
        time_zone=time_zone,
        vectors=None if vectors is None else vectors.keys,
        elsewhere=None if vectors is None else vectors.elsewhere,
    )
    logical = to_spark(snapshot.schema)
    physical = _physical(snapshot)
    number = _unused("file_number", physical.names)
    partitions = StructType(
        [physical[physical_name(_field(snapshot.schema, n))] for n in snapshot.partition_columns]
    )
    if vectors is not None:
        partitions = partitions.add(StructField(number, IntegerType(), nullable=False))
    index = DeltaFileIndex(
        spark, listing, partitions, unusable=frozenset(_collated(physical.fields))
    )
    options = dict(options)
    if snapshot.column_mapping == "id":
        options[_FIELD_ID_CONF] = "true"
    frame = _scan(spark, index, partitions, physical, options)
    if vectors is None:
        if logical.names == physical.names and snapshot.column_mapping == "none":
            return frame
        return frame.select(_columns(snapshot.schema, logical, physical))
    position = _unused("position", [*physical.names, number])
    deleted_file = _unused("deleted_file", [*physical.names, number, position])
    deleted_position = _unused("deleted_position", [*physical.names, number, position])
    deleted = deleted_rows_frame(spark, engine.description(), snapshot.path, vectors)
    kept = frame.withColumn(position, F.col("_metadata.row_index").cast("int")).join(
        F.broadcast(deleted.toDF(deleted_file, deleted_position)),
        on=(F.col(_quoted(number)) == F.col(deleted_file))
        & (F.col(_quoted(position)) == F.col(deleted_position)),
        how="left_anti",
    )
    native = kept.select(_columns(snapshot.schema, logical, physical))
    if not vectors.scan_files:
        return native
    return native.unionByName(_read_by_us(spark, engine, snapshot, vectors, logical))


def _scan(
    spark: Any,
    index: DeltaFileIndex,
    partitions: StructType,
    schema: StructType,
    options: Mapping[str, str],
) -> DataFrame:
    jvm, session = spark._jvm, spark._jsparkSession  # noqa: SLF001  # published nowhere
    start_callbacks: Any = ensure_callback_server_started  # it carries no types
    start_callbacks(spark.sparkContext._gateway)  # noqa: SLF001  # as above
    sources = "org.apache.spark.sql.execution.datasources"
    from_json = java_class(jvm, "org.apache.spark.sql.types.DataType").fromJson
    relation = java_class(jvm, f"{sources}.HadoopFsRelation")(
        index,
        from_json(partitions.json()),
        from_json(schema.json()),
        java_class(jvm, "scala.Option").empty(),
        java_class(jvm, f"{sources}.parquet.ParquetFileFormat")(),
        java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(dict(options)),
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _physical(snapshot: Snapshot) -> StructType:
    """Spark's schema of the data files with the partition columns among them: physical names."""
    schema = to_physical_schema(snapshot.schema, snapshot.column_mapping)
    kept = TableSchema(tuple(f for f in schema if f.data_type != VOID))
    spark_schema = to_spark(kept)
    with_ids = snapshot.column_mapping == "id"
    fields = []
    for field, known in zip(spark_schema.fields, kept, strict=True):
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
    """The table's columns, under their logical names, of those of the scan."""
    columns = []
    for field, known in zip(logical.fields, schema, strict=True):
        if known.data_type == VOID:
            column = F.lit(None)
        else:
            name = physical_name(known)
            column = F.col(_quoted(name))
            if physical[name].dataType.simpleString() != field.dataType.simpleString():
                column = renamed(column, physical[name].dataType, field.dataType)
        columns.append(column.alias(field.name, metadata=field.metadata))
    return columns


def _read_by_us(
    spark: Any, engine: Engine, snapshot: Snapshot, vectors: FileVectors, logical: StructType
) -> DataFrame:
    """The rows of the files with too many deleted rows, by the kernel on executors."""
    description: EngineDescription = engine.description()
    state = snapshot.scan_builder().build().scan_state(engine).to_bytes()
    expected = to_spark_arrow(snapshot.schema)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ours, scan_state = from_description(description), ScanState.from_bytes(state)
        for batch in batches:
            serialized: list[Any] = batch.column(0).to_pylist()
            for data in serialized:
                for rows in read_scan_file(ours, scan_state, ScanFile.from_bytes(data)):
                    columns = [c.cast(t) for c, t in zip(rows.columns, expected.types, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, schema=expected)

    files = spark.createDataFrame(pa.table({"file": pa.array(vectors.scan_files, pa.binary())}))
    frame: DataFrame = files.repartition(len(vectors.scan_files)).mapInArrow(read, logical)
    return frame


def _field(schema: TableSchema, name: str) -> Any:
    field = schema.get(name)
    assert field is not None  # opening the table has checked it
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


def _unused(name: str, names: Iterable[str]) -> str:
    taken = {n.lower() for n in names}
    while name in taken:
        name = f"_{name}"
    return name
