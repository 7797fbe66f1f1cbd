"""Deletion vectors in native scans.

Spark's Parquet reader doesn't support deletion vectors. Therefore each file with a deletion vector
gets a file number, and an anti join on file number and row index removes the deleted rows. Spark
broadcasts the deleted rows. If there are too many deleted rows for a broadcast, the kernel reads
the files with the most deleted rows instead of Spark's reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from bayou.engines import from_description
from bayou.kernel import Engine, Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.deletion_vectors.deleted_rows import deleted_rows, vector_batch
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.data_files import data_files, vector_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVectors:
    """The files of a version that have deletion vectors.

    A file is identified by its log-replay key: a string of the file's path and deletion vector.

    Attributes:
        keys: the log-replay keys of the files that Spark reads. The file number of such a file is
            the index of its key, plus 1.
        vectors: the deletion vector of each file in `keys`.
        kernel_keys: the log-replay keys of the files that the kernel reads, because there are too
            many deleted rows for a broadcast.
        scan_files: the serialized `ScanFile` of each file in `kernel_keys`.
    """

    keys: pa.Array[Any]
    vectors: Any
    kernel_keys: pa.Array[Any]
    scan_files: tuple[bytes, ...]


def file_vectors(engine: Engine, snapshot: Snapshot, max_rows: int) -> FileVectors | None:
    """Return the files that have deletion vectors; None if no file has one.

    Args:
        max_rows: maximum number of deleted rows to broadcast. If the files have more deleted rows,
            the kernel reads the files with the most deleted rows.
    """
    keys: list[Any] = []
    vectors: list[Any] = []
    scan_files: list[Any] = []
    with snapshot.scan_builder().build().scan_files(engine) as batches:
        for batch in batches:
            selected = batch.selected()
            vector = pc.struct_field(selected.column("add"), "deletionVector")
            if vector.null_count == len(vector):
                continue
            with_vectors = type(batch)(selected.filter(pc.is_valid(vector)))
            files = data_files(with_vectors, snapshot.schema, (), "UTC").files
            keys.append(vector_keys(files))
            vectors.append(files.column("deletion_vector"))
            scan_files.append(with_vectors)
    if not keys:
        return None
    all_keys, all_vectors = pa.concat_arrays(keys), pa.concat_arrays(vectors)
    cardinality = pc.struct_field(all_vectors, "cardinality")
    if (pc.sum(cardinality).as_py() or 0) <= max_rows:
        return FileVectors(
            keys=all_keys, vectors=all_vectors, kernel_keys=all_keys.slice(0, 0), scan_files=()
        )
    ascending = pc.sort_indices(cardinality)
    totals = pc.cumulative_sum(cardinality.take(ascending))
    smallest = ascending.filter(pc.less_equal(totals, max_rows))
    native = pc.is_in(pa.array(range(len(all_keys)), smallest.type), value_set=smallest)
    by_kernel = pc.invert(native)
    all_files = [file for batch in scan_files for file in batch.rows()]
    return FileVectors(
        keys=all_keys.filter(native),
        vectors=all_vectors.filter(native),
        kernel_keys=all_keys.filter(by_kernel),
        scan_files=tuple(
            file.to_bytes()
            for file, selected in zip(all_files, by_kernel.to_pylist(), strict=True)
            if selected
        ),
    )


def deleted_rows_frame(
    spark: Any, engine: EngineDescription, table: str, vectors: FileVectors
) -> DataFrame:
    """Return the deleted rows as a DataFrame with the int columns `file` and `position`.

    `file` is the file number (see `FileVectors`), and `position` is the row index. Executors decode
    the deletion vectors.
    """
    numbers = pa.array(range(1, len(vectors.keys) + 1), pa.int32())
    descriptors = pa.Table.from_batches([vector_batch(numbers, vectors.vectors)])

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from deleted_rows(from_description(engine), table, batches)

    frame: DataFrame = spark.createDataFrame(descriptors).mapInArrow(
        decode, "file int, position int"
    )
    return frame
