"""`bayou diff`: compare two versions of a table, or two tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from bayou.cli import completions
from bayou.cli.exit_on_error import FAILED, exit_on_error
from bayou.cli.output import RowsOutput, row_limit, rows_output
from bayou.cli.shared_arguments import (
    Columns,
    FromConfig,
    Limit,
    RowsAsJson,
    RowsTo,
    Settings,
    Where,
    split_names,
)
from bayou.cli.tables import open_table, split_reference

if TYPE_CHECKING:
    import pyarrow as pa

    from bayou.api import SnapshotHandle

Version: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TABLE@VERSION",
        help="A table, its version as in lake/events@3, or its state at a time as in "
        "lake/events@2024-01-05T10:00:00Z. Default: the latest version.",
        show_default=False,
        autocompletion=completions.versions,
    ),
]


def diff(
    before: Version,
    after: Version,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="COLUMN,...",
            help="Columns that identify a row; both states of a changed row are then adjacent.",
            show_default=False,
            autocompletion=completions.columns,
        ),
    ] = None,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = None,
    config: FromConfig = None,
    settings: Settings = None,
    output: RowsTo = None,
    as_json: RowsAsJson = False,
) -> None:
    """Show what differs between two versions of a table, or between two tables.

    Compares schema, properties and rows. Rows are compared as multisets, by the columns that both
    tables have. The column _change contains - for rows that only the first version has, or + for
    rows that only the second version has. If both are versions of one table, files that belong to
    both versions aren't read. The exit code is 1 if there is a difference, 0 if there is none.

    Example:
        bayou diff lake/events@3 lake/events@7
        bayou diff lake/events@2024-01-05 lake/events --key id --output changes.parquet
    """
    printed = rows_output(output, as_json=as_json)
    with exit_on_error(printed, where=where):
        from bayou.api.diff import CHANGE
        from bayou.ingest.inspection import compare_properties, compare_schemas

        old = _snapshot(before, config, settings)
        new = _snapshot(after, config, settings)
        reader = old.diff(new, columns=split_names(columns), where=where, key=split_names(key))
        schema = compare_schemas(old.schema, new.schema)
        properties = compare_properties(old, new)
        _show(printed, "Schema", [(c.column, c.before, c.after) for c in schema])
        _show(printed, "Properties", [(c.name, c.before, c.after) for c in properties])
        counts = {"-": 0, "+": 0}
        rows_limit = row_limit(printed, limit)
        rows = _counted(reader, counts, CHANGE, None if printed.is_table else rows_limit.shown)
        printed.batches(
            rows,
            title="Rows" if schema or properties else "",
            empty="" if schema or properties else "no difference",
            max_rows=rows_limit.shown,
        )
        if schema or properties or any(counts.values()):
            raise typer.Exit(FAILED)


def _snapshot(reference: str, config: object, settings: object) -> SnapshotHandle:
    path, version, as_of = split_reference(reference)
    return open_table(path, config, settings).snapshot(version, as_of)  # type: ignore[arg-type]


def _show(
    printed: RowsOutput, title: str, changes: list[tuple[str, str | None, str | None]]
) -> None:
    """Print differences of columns or properties.

    If rows are printed as a table, the differences are printed as a table, too. Otherwise, each
    difference is printed as a notice to standard error, so the output contains only rows.

    Args:
        changes: name, old value and new value of each difference. A value is None if the column or
            property is missing.
    """
    if not changes:
        return
    if printed.is_table:
        noun = "column" if title == "Schema" else "property"
        rows = [{noun: name, "before": old, "after": new} for name, old, new in changes]
        printed.rows(title, rows, event="change")
        return
    for name, old, new in changes:
        printed.notice(f"{title.lower()}: {name}: {old or 'absent'} became {new or 'absent'}")


def _counted(
    reader: pa.RecordBatchReader, counts: dict[str, int], change: str, max_rows: int | None
) -> pa.RecordBatchReader:
    """Return a reader of the same rows. Reading it also counts the rows with `-` and with `+`.

    Args:
        counts: the number of rows by value of the change column, `-` or `+`; changed in place.
        change: name of the change column.
        max_rows: number of rows after which the reader ends; None for all rows.
    """
    import pyarrow as pa

    def counted() -> Iterator[pa.RecordBatch]:
        remaining = max_rows
        for batch in reader:
            for mark in batch[change].to_pylist():
                counts[str(mark)] += 1
            yield batch if remaining is None else batch.slice(0, remaining)
            if remaining is not None:
                remaining -= batch.num_rows
                if remaining <= 0:
                    return

    return pa.RecordBatchReader.from_batches(reader.schema, counted())
