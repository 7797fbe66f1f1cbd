"""Files with deletion vectors: which rows a native scan leaves out, which files it leaves to us.

Spark's Parquet reader knows nothing of deletion vectors. Each file that has one gets a number, and
the deleted rows, pairs of a file's number and a position, are what an anti join broadcasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame

from bayou.engines import from_description
from bayou.kernel import Engine, Snapshot
from bayou.kernel.deletion_vectors.deleted_rows import deleted_rows, vector_batch
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.data_files import data_files, vector_keys

__all__ = ["FileVectors", "deleted_rows_frame", "file_vectors"]

pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVectors:
    """The files of a version that have deletion vectors.

    Attributes:
        keys: `vector_keys` of those that are read natively; a file's number is its place + 1.
        vectors: theirs, in that order.
        elsewhere: keys of the files whose rows are too many to broadcast.
        scan_files: those files, serialized.
    """

    keys: pa.Array[Any]
    vectors: Any
    elsewhere: pa.Array[Any]
    scan_files: tuple[bytes, ...]


def file_vectors(engine: Engine, snapshot: Snapshot, max_rows: int) -> FileVectors | None:
    """The files that have deletion vectors; None where none has.

    Args:
        max_rows: deleted rows that may be broadcast. Files that have the most of them are left out
            until the others have no more.
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
            marked = pc.is_valid(vector)
            only = type(batch)(selected.filter(marked))
            files = data_files(only, snapshot.schema, (), "UTC").files
            keys.append(vector_keys(files))
            vectors.append(files.column("deletion_vector"))
            scan_files.append(only)
    if not keys:
        return None
    all_keys, all_vectors = pa.concat_arrays(keys), pa.concat_arrays(vectors)
    cardinality = pc.struct_field(all_vectors, "cardinality")
    if (pc.sum(cardinality).as_py() or 0) <= max_rows:
        return FileVectors(
            keys=all_keys, vectors=all_vectors, elsewhere=all_keys.slice(0, 0), scan_files=()
        )
    rising = pc.sort_indices(cardinality)
    totals = pc.cumulative_sum(cardinality.take(rising))
    few = rising.filter(pc.less_equal(totals, max_rows))
    native = pc.is_in(pa.array(range(len(all_keys)), few.type), value_set=few)
    left = pc.invert(native)
    rows = [row for batch in scan_files for row in batch.rows()]
    return FileVectors(
        keys=all_keys.filter(native),
        vectors=all_vectors.filter(native),
        elsewhere=all_keys.filter(left),
        scan_files=tuple(
            row.to_bytes() for row, out in zip(rows, left.to_pylist(), strict=True) if out
        ),
    )


def deleted_rows_frame(
    spark: Any, engine: EngineDescription, table: str, vectors: FileVectors
) -> DataFrame:
    """The deleted rows: `file` and `position`, both int; decoded on executors."""
    numbers = pa.array(range(1, len(vectors.keys) + 1), pa.int32())
    described = pa.Table.from_batches([vector_batch(numbers, vectors.vectors)])

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from deleted_rows(from_description(engine), table, batches)

    frame: DataFrame = spark.createDataFrame(described).mapInArrow(decode, "file int, position int")
    return frame
