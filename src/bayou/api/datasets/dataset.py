"""A table version as a `pyarrow.dataset.Dataset`, for engines that push filters into datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs

from bayou.api.conditions import checked_condition
from bayou.api.datasets.pushdown.filter_calls import FilterNode, top_level_columns
from bayou.api.datasets.pushdown.pyarrow_expressions import read_expression
from bayou.api.datasets.pushdown.skipping_predicates import skipping_predicate
from bayou.api.datasets.scanner import Columns, DeltaScanner, batch_transform, raise_unreadable
from bayou.api.rows.read import (
    BatchTransform,
    PlannedRead,
    check_columns,
    row_count_from_statistics,
)
from bayou.errors import ArgumentError, BayouError
from bayou.kernel import Engine, Predicate, Snapshot
from bayou.kernel.table_features.column_mapping import physical_name
from bayou.protocol.schema import STRING, StructType

_MIN_FILE_SIZE = 1 << 16
"""Minimum size in bytes of the data file that `_dictionary_columns` inspects."""

_FILES = 100
"""Number of data files of which `_dictionary_columns` inspects only the largest."""


class DeltaDataset(pads.FileSystemDataset):
    """One version of a Delta table as a `pyarrow.dataset.Dataset`.

    DuckDB, Polars, and pyarrow's methods that return rows, such as `to_table`, call `scanner`. The
    kernel then reads the rows, so the dataset supports the same tables as `to_arrow`. The kernel
    reads only the columns that the scanner needs, and uses the scanner's filter for data skipping.
    pyarrow then filters the rows. Rows are in the order of the files in the log.

    pyarrow's C++ code can't read the data files: `get_fragments`, and functions that don't use
    `scanner`, raise an error.
    """

    def __init__(
        self,
        engine: Engine,
        snapshot: Snapshot,
        condition: Predicate | str | None,
        expression: Any = None,
        dictionary_columns: Sequence[str] = (),
    ) -> None:
        """Create a dataset with the rows for which `condition` and `expression` are true.

        Args:
            condition: condition that the kernel evaluates; None for all rows.
            expression: condition that pyarrow evaluates, a `pyarrow.compute.Expression`; None for
                all rows.
            dictionary_columns: columns to return as dictionary arrays of strings; `condition` must
                not reference them.
        """
        fragment: Any = pads.IpcFileFormat().make_fragment(
            snapshot.path, pyarrow.fs.PyFileSystem(_UnreadableFiles(snapshot.path))
        )
        schema: Any = _encoded(snapshot.arrow_schema, dictionary_columns)
        init: Any = super().__init__
        init([fragment], schema, fragment.format, fragment.filesystem)
        self._engine = engine
        self._snapshot = snapshot
        self._condition = condition
        self._expression = expression
        self._dictionary_columns = dictionary_columns

    def __repr__(self) -> str:
        return f"<DeltaDataset {self._snapshot.path!r} version={self._snapshot.version}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._snapshot.path}: a dataset of a Delta table can't be pickled. Create it in the "
            "process that reads it."
        )

    @property
    def delta_schema(self) -> StructType:
        """The table schema; `schema` is the same schema in Arrow types."""
        return self._snapshot.schema

    @property
    def files(self) -> list[str]:
        """Paths of the data files that may have rows of the dataset."""
        scan = self._snapshot.scan_builder().with_filter(self._condition).build()
        with scan.scan_files(self._engine).flat_map(lambda batch: batch.rows()) as files:
            return [file.status.path for file in files]

    def scanner(  # type: ignore[override]
        self,
        columns: Columns = None,
        filter: Any = None,
        batch_size: int | None = None,
        **_: Any,
    ) -> DeltaScanner:
        """Return a scanner. Other arguments of pyarrow's scanners have no effect.

        Args:
            columns: names of columns in result order, or expressions by name of the result column.
                If None, all columns are returned.
            filter: `pyarrow.compute.Expression`; only rows for which it is true are returned.
            batch_size: maximum number of rows in a batch.
        """
        if filter is not None and not isinstance(filter, pads.Expression):
            raise ArgumentError(
                f"filter: {filter!r} isn't a pyarrow expression. Use pyarrow.compute.field, or "
                "give an SQL condition to to_pyarrow_dataset.",
                argument="filter",
            )
        if columns is not None and not isinstance(columns, Mapping):
            check_columns(self._snapshot, list(columns))
        expression = self._conjunction(filter)
        tree = None if expression is None else read_expression(expression)
        skipping: Predicate | None = None
        if tree is not None:
            skipping = skipping_predicate(tree, self.delta_schema, nan_is_largest=False)
        needed = self._needed_columns(columns, expression, tree)
        schema = self.schema
        if needed is not None:
            schema = pa.schema([schema.field(name) for name in needed])
        transform = batch_transform(schema, columns, expression)

        def read(limit: int | None) -> pa.RecordBatchReader:
            return self.to_reader(needed, skipping, limit, transform)

        return DeltaScanner(read, transform.schema, self.schema, batch_size)

    def to_reader(
        self,
        columns: Sequence[str] | None = None,
        skipping: Predicate | None = None,
        limit: int | None = None,
        transform: BatchTransform | None = None,
    ) -> pa.RecordBatchReader:
        """Stream the rows for which the `condition` of the constructor is true.

        The `expression` of the constructor isn't applied.

        Args:
            columns: names of columns in result order; None for all.
            skipping: a predicate for skipping files and row groups. Rows that don't match this
                predicate may be returned.
            limit: maximum number of rows.
            transform: a transformation of each batch, which is applied before the limit.
        """
        read = PlannedRead.plan(
            self._engine,
            self._snapshot,
            columns,
            self._condition,
            limit,
            skipping=skipping,
            dictionary_columns=self._dictionary_columns,
        )
        return read.to_batches(in_order=True, transform=transform)

    def count_rows(self, filter: Any = None, **_: Any) -> int:  # type: ignore[override]
        """Count rows. Without a filter, no file is opened if all files have statistics."""
        if self._conjunction(filter) is None and self._condition is None:
            stated = row_count_from_statistics(self._engine, self._snapshot)
            if stated is not None:
                return stated
        return self.scanner([], filter).count_rows()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow stream (Arrow PyCapsule interface)."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def filter(self, expression: Any) -> DeltaDataset:
        """Return a dataset of the rows for which an expression is true."""
        conjunction = self._conjunction(expression)
        return DeltaDataset(
            self._engine, self._snapshot, self._condition, conjunction, self._dictionary_columns
        )

    def get_fragments(self, filter: Any = None) -> NoReturn:
        """Raise an error, because fragments would ignore deletion vectors and column mapping."""
        raise_unreadable(self._snapshot.path)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise an error, because the schema is defined by the table."""
        raise_unreadable(self._snapshot.path)

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Read all rows and sort them. See `pyarrow.dataset.Dataset.sort_by`."""
        return self._in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Read all rows of both datasets and join them. See `pyarrow.dataset.Dataset.join`."""
        return self._in_memory().join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Read all rows of both datasets and join them. See `pyarrow.dataset.Dataset.join_asof`."""
        return self._in_memory().join_asof(_in_memory(right_dataset), *arguments, **options)

    def _in_memory(self) -> Any:
        dataset: Any = pads.InMemoryDataset
        return dataset(self.to_table())

    def _conjunction(self, filter: Any) -> Any:
        if self._expression is None or filter is None:
            return self._expression if filter is None else filter
        return self._expression & filter

    def _needed_columns(
        self, columns: Columns, filter: Any, tree: FilterNode | None
    ) -> list[str] | None:
        """Return the columns that a scan selects or filters by; None for all columns.

        Args:
            tree: `filter` as a tree of calls; None if there is no filter, or if it can't be parsed.
        """
        if columns is None or (filter is not None and tree is None):
            return None
        needed = set() if tree is None else set(top_level_columns(tree))
        if isinstance(columns, Mapping):
            for expression in columns.values():
                read = read_expression(expression)
                if read is None:
                    return None
                needed.update(top_level_columns(read))
        else:
            needed.update(columns)
        return [name for name in self._snapshot.schema.names if name in needed]


def to_dataset(engine: Engine, snapshot: Snapshot, filter: Predicate | str | None) -> DeltaDataset:
    """Create the dataset of a snapshot; see `SnapshotHandle.to_pyarrow_dataset`."""
    condition = checked_condition(filter, "filter")
    snapshot.scan_builder().with_filter(condition).build()  # raises an error for an invalid filter
    return DeltaDataset(engine, snapshot, condition)


def to_duckdb_dataset(engine: Engine, snapshot: Snapshot) -> DeltaDataset:
    """Create the dataset of a snapshot for DuckDB, with dictionary arrays for some string columns.

    DuckDB groups dictionary arrays faster than strings. See `_dictionary_columns` for the columns.
    """
    return DeltaDataset(
        engine, snapshot, None, dictionary_columns=_dictionary_columns(engine, snapshot)
    )


def _dictionary_columns(engine: Engine, snapshot: Snapshot) -> list[str]:
    """Return the string columns to read as dictionary arrays, for a faster GROUP BY in DuckDB.

    These are the columns that have a small dictionary in the largest of the first `_FILES` data
    files. If this file is smaller than `_MIN_FILE_SIZE`, no columns are returned.
    """
    with snapshot.scan_builder().build().scan_files(engine) as batches:
        files = next((list(islice(batch.rows(), _FILES)) for batch in batches), [])
    file = max(files, key=lambda file: file.size, default=None)
    if file is None or file.size < _MIN_FILE_SIZE:
        return []
    try:
        encoded = engine.parquet.read_footer(file.status).dictionary_columns
    except BayouError:  # the query raises an error if it reads this file
        return []
    return [
        field.name
        for field in snapshot.schema
        if physical_name(field) in encoded
        and field.data_type == STRING
        and field.name not in snapshot.partition_columns
    ]


def _encoded(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return the schema with a dictionary type for the columns in `names`."""
    encoded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([f.with_type(encoded) if f.name in names else f for f in schema])


def _in_memory(dataset: Any) -> Any:
    return dataset._in_memory() if isinstance(dataset, DeltaDataset) else dataset  # noqa: SLF001


class _UnreadableFiles(pyarrow.fs.FileSystemHandler):
    """File system of a dataset. It raises an error when pyarrow's C++ code accesses a file."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UnreadableFiles) and other._table == self._table

    def __hash__(self) -> int:
        return hash(self._table)

    def get_type_name(self) -> str:
        return "bayou"

    def normalize_path(self, path: str) -> str:
        return path

    def _refuse(self, *_: object) -> NoReturn:
        raise_unreadable(self._table)

    open_input_file = open_input_stream = _refuse  # type: ignore[assignment]
    open_output_stream = open_append_stream = _refuse  # type: ignore[assignment]
    get_file_info = get_file_info_selector = _refuse  # type: ignore[assignment]
    create_dir = delete_dir = delete_dir_contents = _refuse  # type: ignore[assignment]
    delete_root_dir_contents = delete_file = _refuse  # type: ignore[assignment]
    move = copy_file = _refuse  # type: ignore[assignment]
