"""`scan_polars`: a table version as a Polars `LazyFrame`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from bayou.api.optional_packages import missing_extra
from bayou.api.queries.sources import TableSource, open_snapshot
from bayou.api.rows.read import Timestamp
from bayou.kernel import Predicate

if TYPE_CHECKING:
    import polars as pl

    from bayou.api.datasets.dataset import DeltaDataset


def scan_polars(
    source: TableSource,
    storage_options: Mapping[str, str] | None = None,
    *,
    version: int | None = None,
    timestamp: Timestamp | None = None,
) -> pl.LazyFrame:
    """Return a version of a table as a Polars `LazyFrame`.

    Polars passes the columns and filters of a query to Bayou, which reads only these columns,
    and skips files and row groups without matching rows. Polars then filters the rows. Rows are
    streamed in the order of the files in the log. The default version is the latest version at the
    time of this call.

        events = bayou.scan_polars("lake/events")
        events.filter(pl.col("day") == "2024-01-05").select("id").collect()

    Args:
        source: path or URI of the table, or a handle of the table or of a version.
        storage_options: see `bayou.table`; not allowed if `source` is a handle.
        version, timestamp: see `TableHandle.snapshot`; not allowed if `source` is a handle of a
            version.

    Raises:
        PrerequisiteError: Polars isn't installed.
        TableNotFoundError, VersionNotFoundError, CorruptTableError, UnsupportedFeatureError: the
            version can't be read.

    Examples:
        >>> bayou.scan_polars("lake/orders").select("id").collect()
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise missing_extra("polars", "bayou.scan_polars") from error
    dataset = open_snapshot(source, storage_options, version, timestamp).to_pyarrow_dataset()
    empty = cast("pl.DataFrame", pl.from_arrow(dataset.schema.empty_table()))

    def frames(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        return _frames(dataset, columns, predicate, n_rows)

    return register_io_source(frames, schema=empty.schema, is_pure=True)


def _frames(
    dataset: DeltaDataset,
    columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
) -> Iterator[pl.DataFrame]:
    """Read the first `n_rows` rows, and yield the rows that match a predicate.

    Polars requires this order: the limit applies before the predicate.
    """
    import polars as pl

    from bayou.api.datasets.pushdown.polars_expressions import read_expression
    from bayou.api.datasets.pushdown.skipping_predicates import skipping_predicate

    needed = columns
    skipping: Predicate | None = None
    if predicate is not None:
        if columns is not None:
            needed = list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
        if n_rows is None:
            tree = read_expression(predicate)
            skipping = skipping_predicate(tree, dataset.delta_schema, nan_is_largest=True)
    for batch in dataset.to_reader(needed, skipping, n_rows):
        frame = cast("pl.DataFrame", pl.from_arrow(batch))
        if predicate is not None:
            frame = frame.filter(predicate)
        yield frame if columns is None else frame.select(columns)
