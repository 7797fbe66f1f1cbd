"""Rows of a table for pandas, Polars and all libraries that read Arrow streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from bayou.api.conditions import Condition, checked_condition, combine_with_and
from bayou.api.optional_packages import missing_extra
from bayou.errors import ArgumentError
from bayou.kernel.arrow.compute import pc

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    import polars as pl

    from bayou.api.datasets.dataset import DeltaDataset

RowFilter: TypeAlias = "Condition | pc.Expression"
"""A condition on rows, or an expression of pyarrow such as `pc.field("id") > 3`."""

DtypeBackend: TypeAlias = Literal["numpy_nullable", "pyarrow"]


class DataFrames(ABC):
    """Methods of `TableHandle` and `SnapshotHandle` that return rows for other libraries."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.Table:
        """Read rows into memory."""

    @abstractmethod
    def to_batches(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pa.RecordBatchReader:
        """Stream rows."""

    @abstractmethod
    def to_pyarrow_dataset(self, partitions: Condition | None = None) -> DeltaDataset:
        """Return the rows as a dataset."""

    def to_pandas(
        self,
        partitions: Condition | None = None,
        columns: Sequence[str] | None = None,
        filters: RowFilter | None = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
        *,
        dtype_backend: DtypeBackend | None = None,
    ) -> pd.DataFrame:
        """Read rows into a pandas DataFrame.

        Args:
            partitions: condition on partition columns, in addition to `filters`.
            columns: columns in result order; None for all. See `to_arrow`.
            filters: condition on rows, or an expression of pyarrow.
            types_mapper: function that returns the pandas type for an Arrow type. If the function
                returns None, pandas' default type is used.
            dtype_backend: `numpy_nullable` for pandas' nullable types, `pyarrow` for Arrow types.
                By default, an integer column with nulls becomes `float64`.

        Raises:
            PrerequisiteError: pandas isn't installed.

        Examples:
            >>> bayou.table("lake/orders").to_pandas(columns=["id"], filters=[("price", ">", 10)])
        """
        pandas = _pandas()
        if dtype_backend is not None and types_mapper is not None:
            raise ArgumentError(
                "dtype_backend: dtype_backend and types_mapper are both set. Give one of them.",
                argument="dtype_backend",
            )
        if dtype_backend is not None:
            types_mapper = _types_mapper(pandas, dtype_backend)
        rows = self.to_pyarrow_table(partitions, columns, filters)
        frame: pd.DataFrame = rows.to_pandas(types_mapper=types_mapper)
        return frame

    def to_polars(
        self, columns: Sequence[str] | None = None, filter: Condition | None = None
    ) -> pl.DataFrame:
        """Read rows into a Polars DataFrame; see `to_arrow` for the arguments.

        Raises:
            PrerequisiteError: Polars isn't installed.

        Examples:
            >>> bayou.table("lake/orders").to_polars(filter="price > 10")
        """
        try:
            import polars as pl
        except ImportError as error:
            raise missing_extra("polars", "to_polars") from error
        frame: Any = pl.from_arrow(self.to_arrow(columns, filter))
        rows: pl.DataFrame = frame
        return rows

    def to_pyarrow_table(
        self,
        partitions: Condition | None = None,
        columns: Sequence[str] | None = None,
        filters: RowFilter | None = None,
    ) -> pa.Table:
        """Read rows into an Arrow table, like `to_arrow`; the method has this name in `deltalake`.

        Examples:
            >>> bayou.table("lake/orders").to_pyarrow_table(columns=["id", "price"])
        """
        if filters is not None and isinstance(filters, pc.Expression):
            dataset = self.to_pyarrow_dataset(partitions)
            return dataset.to_table(None if columns is None else list(columns), filters)
        return self.to_arrow(columns, _combined(partitions, filters))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow stream (Arrow PyCapsule interface)."""
        reader: Any = self.to_batches()
        return reader.__arrow_c_stream__(requested_schema)


def _combined(partitions: Condition | None, filters: Condition | None) -> Condition | None:
    return combine_with_and(
        checked_condition(partitions, "partitions"), checked_condition(filters, "filters")
    )


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_extra("pandas", "to_pandas") from error
    return pd


def _types_mapper(pandas: Any, backend: object) -> Callable[[pa.DataType], Any]:
    if backend == "pyarrow":
        mapper: Callable[[pa.DataType], Any] = pandas.ArrowDtype
        return mapper
    if backend != "numpy_nullable":
        raise ArgumentError(
            f"dtype_backend: {backend!r} isn't a backend. Use 'numpy_nullable' or 'pyarrow'.",
            argument="dtype_backend",
        )
    nullable: dict[pa.DataType, Any] = {
        pa.int8(): pandas.Int8Dtype(),
        pa.int16(): pandas.Int16Dtype(),
        pa.int32(): pandas.Int32Dtype(),
        pa.int64(): pandas.Int64Dtype(),
        pa.float32(): pandas.Float32Dtype(),
        pa.float64(): pandas.Float64Dtype(),
        pa.bool_(): pandas.BooleanDtype(),
        pa.string(): pandas.StringDtype(),
    }
    return nullable.get
