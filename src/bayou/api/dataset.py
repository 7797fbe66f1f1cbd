"""A version of a table as a `pyarrow.dataset`, for engines that push their filters into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.fs

from bayou.api.pyarrow_file_system import EngineFileSystem
from bayou.errors import UnsupportedFeatureError
from bayou.kernel import Engine, Predicate, ScanFile, Snapshot
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.table_features.column_mapping import column_mapping_mode
from bayou.protocol import partition_values

# pyarrow.dataset imports pandas where that is installed, so it is imported on use.
if TYPE_CHECKING:
    import pyarrow.dataset as pads

__all__ = ["to_dataset"]

_FEATURES = (
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
)
"""Reader features by which a column isn't what pyarrow takes it for."""


def to_dataset(engine: Engine, snapshot: Snapshot, filter: Predicate | str | None) -> pads.Dataset:
    """See `SnapshotHandle.to_arrow_dataset`."""
    import pyarrow.dataset as pads

    _refuse_features(snapshot)
    system = pyarrow.fs.PyFileSystem(EngineFileSystem(engine.files))
    options = pads.ParquetReadOptions(None, coerce_int96_timestamp_unit="us")
    parquet = pads.ParquetFileFormat(read_options=options)
    fragments: list[Any] = []
    scan = snapshot.scan_builder().with_filter(filter).build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            if file.deletion_vector is not None:
                raise _unsupported(snapshot, "deletionVectors")
            known = _known(snapshot, file)
            fragments.append(parquet.make_fragment(file.status.path, system, known))
    dataset: Any = pads.FileSystemDataset(
        fragments, snapshot.arrow_schema, parquet, filesystem=system
    )
    made: pads.Dataset = dataset
    return made


def _refuse_features(snapshot: Snapshot) -> None:
    named = snapshot.protocol.reader_features or ()
    for feature in _FEATURES:
        if feature in named:
            raise _unsupported(snapshot, feature)
    if column_mapping_mode(snapshot.properties) != "none":
        raise _unsupported(snapshot, "columnMapping")


def _known(snapshot: Snapshot, file: ScanFile) -> Any:
    """What is true of every row of a file: its partition values."""
    import pyarrow.dataset as pads

    known: Any = pads.scalar(True)
    for name in snapshot.partition_columns:
        field = snapshot.schema.select([name]).fields[0]
        value = partition_values.parse(file.partition_values.get(name), field.data_type)
        column: Any = pads.field(name)
        if value is None:
            known = known & column.is_null()
        else:
            scalar = pa.scalar(cast("Any", value), to_arrow_type(field.data_type))
            known = known & (column == scalar)
    return known


def _unsupported(snapshot: Snapshot, feature: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{snapshot.path} can't be a dataset of pyarrow: it uses {feature}, which pyarrow would "
        "read past. Take to_batches() or to_arrow(), which know it.",
        table=snapshot.path,
        features=[feature],
    )
