"""A table version as a `pyarrow.dataset`, for engines that push filters into datasets."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa
import pyarrow.fs

from bayou.errors import FileMissingError, UnsupportedFeatureError
from bayou.kernel import Engine, FileSystemClient, Predicate, ScanFile, Snapshot
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.table_features.column_mapping import column_mapping_mode
from bayou.protocol import partition_values

if TYPE_CHECKING:
    import pyarrow.dataset as pads


class EngineFileSystem(pyarrow.fs.FileSystemHandler):
    """A read-only pyarrow file system over a `FileSystemClient`."""

    def __init__(self, files: FileSystemClient) -> None:
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineFileSystem) and other._files is self._files

    def __hash__(self) -> int:
        return hash(id(self._files))

    def get_type_name(self) -> str:
        return "bayou"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> list[Any]:
        return [self._info(path) for path in ([paths] if isinstance(paths, str) else paths)]

    def _info(self, path: str) -> Any:
        try:
            size = self._files.status(path).size
        except FileMissingError:
            return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.NotFound)
        return pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.File, size=size)

    def open_input_file(self, path: str) -> Any:
        source: Any = self._files.open_input(path)
        return source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, "r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def get_file_info_selector(self, selector: Any) -> NoReturn:
        _raise_read_only()

    def create_dir(self, path: str, recursive: bool) -> NoReturn:
        _raise_read_only()

    def delete_dir(self, path: str) -> NoReturn:
        _raise_read_only()

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> NoReturn:
        _raise_read_only()

    def delete_root_dir_contents(self) -> NoReturn:
        _raise_read_only()

    def delete_file(self, path: str) -> NoReturn:
        _raise_read_only()

    def move(self, src: str, dest: str) -> NoReturn:
        _raise_read_only()

    def copy_file(self, src: str, dest: str) -> NoReturn:
        _raise_read_only()

    def open_output_stream(self, path: str, metadata: Any) -> NoReturn:
        _raise_read_only()

    def open_append_stream(self, path: str, metadata: Any) -> NoReturn:
        _raise_read_only()


def _raise_read_only() -> NoReturn:
    raise io.UnsupportedOperation("the dataset of a Delta table is read-only and lists no folders")


_FEATURES = (
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
)
"""Reader features of variant columns, which pyarrow would misread."""


def to_dataset(engine: Engine, snapshot: Snapshot, filter: Predicate | str | None) -> pads.Dataset:
    """Create the dataset of a snapshot; see `SnapshotHandle.to_pyarrow_dataset`."""
    import pyarrow.dataset as pads

    _check_features(snapshot)
    system = pyarrow.fs.PyFileSystem(EngineFileSystem(engine.files))
    options = pads.ParquetReadOptions(None, coerce_int96_timestamp_unit="us")
    parquet = pads.ParquetFileFormat(read_options=options)
    fragments: list[Any] = []
    scan = snapshot.scan_builder().with_filter(filter).build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            if file.deletion_vector is not None:
                raise _unsupported_error(snapshot, "deletionVectors")
            guarantee = _partition_expression(snapshot, file)
            fragments.append(parquet.make_fragment(file.status.path, system, guarantee))
    dataset: Any = pads.FileSystemDataset(
        fragments, snapshot.arrow_schema, parquet, filesystem=system
    )
    typed: pads.Dataset = dataset
    return typed


def _check_features(snapshot: Snapshot) -> None:
    reader_features = snapshot.protocol.reader_features or ()
    for feature in _FEATURES:
        if feature in reader_features:
            raise _unsupported_error(snapshot, feature)
    if column_mapping_mode(snapshot.properties) != "none":
        raise _unsupported_error(snapshot, "columnMapping")


def _partition_expression(snapshot: Snapshot, file: ScanFile) -> Any:
    import pyarrow.dataset as pads

    expression: Any = pads.scalar(True)
    for name in snapshot.partition_columns:
        field = snapshot.schema.select([name]).fields[0]
        value = partition_values.parse(file.partition_values.get(name), field.data_type)
        column: Any = pads.field(name)
        if value is None:
            expression = expression & column.is_null()
        else:
            scalar = pa.scalar(cast("Any", value), to_arrow_type(field.data_type))
            expression = expression & (column == scalar)
    return expression


def _unsupported_error(snapshot: Snapshot, feature: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{snapshot.path}: the table uses {feature}, which pyarrow datasets don't support. Use "
        "to_batches() or to_arrow().",
        table=snapshot.path,
        features=[feature],
    )
